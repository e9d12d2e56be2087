package sandglass.kernel;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;

/** Tests of the kernel's JSON, ZMTP and message codecs with good and bad input. One line for each; exits 1 on a failure. */
public final class SelfTest {
    private static final List<String> PEERS = List.of("DEALER", "REQ");
    private static int failures;

    public static void main(String[] arguments) throws Exception {
        json();
        jsonMalformed();
        jsonWriter();
        textStream();
        handshake();
        frames();
        framesMalformed();
        noise();
        messages();
        System.exit(failures == 0 ? 0 : 1);
    }

    private static void check(String name, boolean good) {
        System.out.println((good ? "good: " : "BAD: ") + name);
        if (!good)
            failures++;
    }

    private static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void json() throws Exception {
        check("object", Json.read(utf8(" {\"a\" : [1, -2.5e3, true, false, null, \"x\"], \"b\":{}} ")).toString()
                .equals("{a=[1, -2500.0, true, false, null, x], b={}}"));
        check("escapes", Json.read(utf8("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e4\\ud83d\\ude00\"")).equals("\"\\/\b\f\n\r\t\u00e4\ud83d\ude00"));
        check("UTF-8", Json.read(utf8("\"\u00e4\ud83d\ude00\"")).equals("\u00e4\ud83d\ude00"));
        check("large number", Json.read(utf8("123456789012345678901")).equals(123456789012345678901.0));
        check("zero", Json.read(utf8("0")).equals(0L));
        check("allowed depth", Json.read(utf8("[".repeat(Json.DEPTH_MAX) + "]".repeat(Json.DEPTH_MAX))) instanceof List);
    }

    private static boolean isMalformed(byte[] text) {
        try {
            Json.read(text);
            return false;
        } catch (Json.Malformed e) {
            return true;
        }
    }

    private static void jsonMalformed() {
        for (String text : List.of("", " ", "{", "}", "[", "[1", "[1,", "[1,]", "[,1]", "{\"a\"}", "{\"a\":}", "{\"a\":1,}", "{a:1}", "{'a':1}",
                "\"", "\"a", "\"\\", "\"\\x\"", "\"\\u12\"", "\"\\u12g4\"", "\"a\nb\"", "\"\u0001\"", "01", "-", "+1", ".5", "1.", "1e", "1e+", "--1",
                "0x1", "NaN", "Infinity", "tru", "True", "nul", "1 2", "{} {}", "[]]", "// c\n1", "1,", "\"a\" \"b\"", "[1 2]", "{\"a\" 1}"))
            check("refused: " + text.replace("\n", "\\n").replace("\u0001", "\\1"), isMalformed(utf8(text)));
        check("refused: too deep", isMalformed(utf8("[".repeat(Json.DEPTH_MAX + 2) + "]".repeat(Json.DEPTH_MAX + 2))));
        check("refused: far too deep", isMalformed(utf8("[".repeat(1_000_000))));
        check("refused: deep objects", isMalformed(utf8("{\"a\":".repeat(100_000))));
        for (byte[] bytes : List.of(new byte[] {'"', (byte) 0xff, '"'}, new byte[] {'"', (byte) 0xc3, '"'},
                new byte[] {'"', (byte) 0xed, (byte) 0xa0, (byte) 0x80, '"'}, new byte[] {'"', (byte) 0xc0, (byte) 0x80, '"'}))
            check("refused: invalid UTF-8", isMalformed(bytes));
    }

    private static String written(Object value) {
        return new String(Json.write(value), StandardCharsets.UTF_8);
    }

    private static void jsonWriter() throws Exception {
        check("written object", written(Map.of("a", Arrays.asList(1, 2L, 1.5, true, null, "x"))).equals("{\"a\":[1,2,1.5,true,null,\"x\"]}"));
        check("written arrays", written(new Object[] {new int[] {1, 2}, List.of(), Map.of(), 'c'}).equals("[[1,2],[],{},\"c\"]"));
        check("no NaN", written(List.of(Double.NaN, Double.POSITIVE_INFINITY, Float.NaN)).equals("[null,null,null]"));
        check("written escapes", written("\"\\\n\r\t\u0000\u001f\u007f/").equals("\"\\\"\\\\\\n\\r\\t\\u0000\\u001f\\u007f/\""));
        check("lone halves of pairs", written("\ud83dx\ude00\ud83d").equals("\"\ufffdx\ufffd\ufffd\""));
        check("whole pair", written("\ud83d\ude00").equals("\"\ud83d\ude00\""));
        for (int i = 0; i < 0x11000; i += 7) {
            String text = new String(Character.toChars(i >= 0xd800 && i < 0xe000 ? 0xe000 : i));
            if (!Json.read(Json.write(text)).equals(text))
                check("round trip of " + i, false);
        }
        List<Object> loop = new java.util.ArrayList<>();
        loop.add(loop);
        boolean refused = false;
        try {
            Json.write(loop);
        } catch (IllegalArgumentException e) {
            refused = true;
        }
        check("a list that holds itself", refused);
    }

    private static void textStream() {
        StringBuilder seen = new StringBuilder();
        TextStream stream = new TextStream(pieces -> pieces.forEach(text -> seen.append('[').append(text).append(']')));
        stream.println("a");
        stream.print(1);
        stream.printf("%d-%d", 2, 3);
        stream.append("x").append('y');
        check("pieces of print", seen.toString().equals("[a][\n][1][2-3][x][y]"));
        seen.setLength(0);
        stream.print('\ud83d');
        stream.print('\ude00');
        check("a pair in two prints", seen.toString().equals("[\ud83d\ude00]"));
        seen.setLength(0);
        stream.write(0xc3);
        stream.write(0xa4);
        stream.write(new byte[] {'a', (byte) 0xff, 'b'}, 0, 3);
        check("bytes of UTF-8", seen.toString().equals("[\u00e4][a\ufffdb]"));
        seen.setLength(0);
        stream.write(0xc3);
        stream.print("x");
        stream.print("\ud83d");
        stream.finish();
        check("incomplete bytes and pairs", seen.toString().equals("[\ufffdx][\ufffd]"));
        seen.setLength(0);
        stream.print("");
        stream.print((String) null);
        check("nothing and null", seen.toString().equals("[null]"));
    }

    private static byte[] join(byte[]... parts) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        for (byte[] part : parts)
            out.writeBytes(part);
        return out.toByteArray();
    }

    private static byte[] greeting(int major, String mechanism) {
        byte[] greeting = new byte[64];
        greeting[0] = (byte) 0xff;
        greeting[9] = 0x7f;
        greeting[10] = (byte) major;
        byte[] name = Zmtp.ascii(mechanism);
        System.arraycopy(name, 0, greeting, 12, name.length);
        return greeting;
    }

    private static byte[] ready(String type, byte[] more) {
        byte[] body = join(Zmtp.ascii("\5READY\13Socket-Type\0\0\0"), new byte[] {(byte) type.length()}, Zmtp.ascii(type), more);
        return join(new byte[] {4, (byte) body.length}, body);
    }

    private static Zmtp zmtp(ByteArrayOutputStream out, byte[]... parts) {
        return new Zmtp(new ByteArrayInputStream(join(parts)), out);
    }

    private static boolean isRefused(byte[]... parts) {
        try {
            zmtp(new ByteArrayOutputStream(), parts).handshake("ROUTER", PEERS);
            return false;
        } catch (Zmtp.Violation | EOFException e) {
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    private static void handshake() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Map<String, byte[]> properties = zmtp(out, greeting(3, "NULL"), ready("DEALER", Zmtp.ascii("\10Identity\0\0\0\3abc")))
                .handshake("ROUTER", PEERS);
        check("handshake", new String(properties.get("identity"), StandardCharsets.US_ASCII).equals("abc"));
        check("our greeting and READY", Arrays.equals(out.toByteArray(), join(greeting(3, "NULL"), ready("ROUTER", new byte[0]))));
        check("newer version", !isRefused(greeting(4, "NULL"), ready("REQ", new byte[0])));
        check("refused: old version", isRefused(greeting(2, "NULL"), ready("DEALER", new byte[0])));
        check("refused: other mechanism", isRefused(greeting(3, "CURVE"), ready("DEALER", new byte[0])));
        check("refused: other type", isRefused(greeting(3, "NULL"), ready("SUB", new byte[0])));
        check("refused: no greeting", isRefused(utf8("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + " ".repeat(64))));
        check("refused: end in the greeting", isRefused(Arrays.copyOf(greeting(3, "NULL"), 30)));
        check("refused: message instead of READY", isRefused(greeting(3, "NULL"), new byte[] {0, 1, 'x'}));
        check("refused: other command", isRefused(greeting(3, "NULL"), new byte[] {4, 6, 5, 'H', 'E', 'L', 'L', 'O'}));
        check("refused: property too long", isRefused(greeting(3, "NULL"), ready("DEALER", Zmtp.ascii("\1a\177\177\177\177b"))));
        check("refused: property cut", isRefused(greeting(3, "NULL"), ready("DEALER", Zmtp.ascii("\7a"))));
        check("refused: long READY", isRefused(greeting(3, "NULL"), new byte[] {6, 0, 0, 0, 0, 1, 0, 0, 0}));
    }

    private static void frames() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        Zmtp writer = zmtp(out);
        List<byte[]> message = List.of(new byte[0], new byte[255], new byte[256], new byte[100_000], utf8("end"));
        writer.write(message);
        List<byte[]> read = zmtp(new ByteArrayOutputStream(), out.toByteArray()).read();
        boolean same = read.size() == message.size();
        for (int i = 0; same && i < read.size(); i++)
            same = Arrays.equals(read.get(i), message.get(i));
        check("frames of all sizes", same);

        ByteArrayOutputStream answers = new ByteArrayOutputStream();
        Zmtp reader = zmtp(answers, new byte[] {4, 9, 4, 'P', 'I', 'N', 'G', 0, 9, 'c', 'x'}, new byte[] {0, 1, 'm'});
        check("message after PING", reader.read().get(0)[0] == 'm');
        check("PONG", Arrays.equals(answers.toByteArray(), new byte[] {4, 7, 4, 'P', 'O', 'N', 'G', 'c', 'x'}));
        reader = zmtp(answers, join(new byte[] {4, 11}, Zmtp.ascii("\11SUBSCRIBEa"), new byte[] {4, 8}, Zmtp.ascii("\6CANCELa")));
        check("SUBSCRIBE", Arrays.equals(reader.read().get(0), new byte[] {1, 'a'}));
        check("CANCEL", Arrays.equals(reader.read().get(0), new byte[] {0, 'a'}));
        reader = zmtp(answers, join(new byte[] {4, 4}, Zmtp.ascii("\3NEW"), new byte[] {0, 0}));
        check("unknown command is skipped", reader.read().get(0).length == 0);
    }

    private static boolean isBadMessage(byte[]... parts) {
        try {
            zmtp(new ByteArrayOutputStream(), parts).read();
            return false;
        } catch (IOException e) {
            return true;
        }
    }

    private static void framesMalformed() {
        check("refused: unknown flag", isBadMessage(new byte[] {8, 0}));
        check("refused: command with more", isBadMessage(new byte[] {5, 1, 'x'}));
        check("refused: cut length", isBadMessage(new byte[] {2, 0, 0}));
        check("refused: cut body", isBadMessage(new byte[] {0, 5, 'a'}));
        check("refused: negative length", isBadMessage(new byte[] {2, -1, -1, -1, -1, -1, -1, -1, -1}));
        check("refused: huge length", isBadMessage(new byte[] {2, 0, 0, 1, 0, 0, 0, 0, 0}));
        check("refused: large length without a body", isBadMessage(new byte[] {2, 0, 0, 0, 0, 15, 0, 0, 0}));
        byte[] many = new byte[4 * Zmtp.FRAMES_MAX];
        for (int i = 0; i < many.length; i += 2)
            many[i] = 1;
        check("refused: too many frames", isBadMessage(many));
        check("refused: ERROR", isBadMessage(new byte[] {4, 7}, Zmtp.ascii("\5ERROR\0"), new byte[] {0, 0}));
    }

    /** Random bytes end in an answer or in the two exceptions that are meant, never in another one. */
    private static void noise() {
        Random random = new Random(1);
        boolean good = true;
        for (int i = 0; i < 20_000 && good; i++) {
            byte[] bytes = new byte[random.nextInt(80)];
            random.nextBytes(bytes);
            for (int k = 0; k < bytes.length; k++)
                if (random.nextBoolean())
                    bytes[k] &= 7;
            try {
                Zmtp zmtp = zmtp(new ByteArrayOutputStream(), bytes);
                while (true)
                    zmtp.read();
            } catch (IOException e) {
                /* As it should be. */
            } catch (RuntimeException e) {
                e.printStackTrace();
                good = false;
            }
            byte[] text = new byte[random.nextInt(20)];
            for (int k = 0; k < text.length; k++)
                text[k] = (byte) "{}[]\",:0123eE+-.tfnu\\ ".charAt(random.nextInt(22));
            try {
                Json.read(text);
            } catch (Json.Malformed e) {
                /* As it should be. */
            } catch (RuntimeException e) {
                e.printStackTrace();
                good = false;
            }
        }
        check("random bytes", good);
    }

    private static boolean isBad(List<byte[]> frames, Message.Signer signer) {
        try {
            Message.decode(frames, signer);
            return false;
        } catch (Message.Bad e) {
            return true;
        }
    }

    private static void messages() throws Exception {
        /* The second test case of RFC 4231. */
        byte[] sum = new Message.Signer("Jefe").sign(List.of(utf8("what do ya want "), utf8("for nothing?")));
        check("HMAC-SHA256", new String(sum, StandardCharsets.US_ASCII)
                .equals("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"));
        Message.Signer signer = new Message.Signer("key");
        Message.Encoder encoder = new Message.Encoder(signer, "session");
        List<byte[]> frames = encoder.encode(List.of(utf8("route")), "some_request", java.time.Instant.now(), null, utf8("{\"code\":\"x\"}"));
        Message message = Message.decode(frames, signer);
        check("message", message.type().equals("some_request") && message.text("code").equals("x") && message.envelope().size() == 1);
        check("date", ((String) message.header().get("date")).matches("\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{6}Z"));
        check("refused: other key", isBad(frames, new Message.Signer("other")));
        for (int i = 2; i < frames.size(); i++) {
            List<byte[]> changed = new java.util.ArrayList<>(frames);
            changed.set(i, utf8("{\"x\":1}"));
            check("refused: changed frame " + i, isBad(changed, signer));
        }
        check("refused: no delimiter", isBad(frames.subList(2, frames.size()), signer));
        check("refused: too few frames", isBad(frames.subList(0, frames.size() - 1), signer));
        Message.Signer none = new Message.Signer("");
        byte[] delimiter = utf8("<IDS|MSG>"), empty = utf8("{}");
        check("no key, no signature", !isBad(List.of(delimiter, new byte[0], empty, empty, empty, empty), none));
        check("refused: content is no object", isBad(List.of(delimiter, new byte[0], empty, empty, empty, utf8("[]")), none));
        check("refused: header is no JSON", isBad(List.of(delimiter, new byte[0], utf8("x"), empty, empty, empty), none));
        Message odd = Message.decode(List.of(delimiter, new byte[0], utf8("{\"msg_type\":5}"), empty, empty, utf8("{\"code\":7}")), none);
        check("fields of other types", odd.type().isEmpty() && odd.text("code").isEmpty() && odd.flag("code", true));
    }
}
