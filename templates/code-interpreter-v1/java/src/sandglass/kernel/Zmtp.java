package sandglass.kernel;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * The wire format of ZeroMQ, ZMTP 3.0, with the NULL mechanism, on two streams: greeting, handshake, messages of frames.
 * Knows no sockets, so tests can feed bytes. One thread reads. Writers take turns by themselves.
 */
final class Zmtp {
    static final int MESSAGE_BYTES_MAX = 256 << 20;
    static final int FRAMES_MAX = 1024;
    private static final int COMMAND_BYTES_MAX = 64 << 10;
    private static final int MORE = 1, LONG = 2, COMMAND = 4;

    /** The peer does not speak ZMTP 3 as it should. */
    static final class Violation extends IOException {
        Violation(String what) {
            super(what);
        }
    }

    private final InputStream in;
    private final OutputStream out;

    Zmtp(InputStream in, OutputStream out) {
        this.in = in;
        this.out = out;
    }

    /** Greets and exchanges READY. Returns what the peer said of itself; names of properties in lower case. */
    Map<String, byte[]> handshake(String socketType, List<String> peerTypes) throws IOException {
        byte[] greeting = new byte[64];
        greeting[0] = (byte) 0xff;
        greeting[9] = 0x7f;
        greeting[10] = 3;
        System.arraycopy(ascii("NULL"), 0, greeting, 12, 4);
        out.write(greeting);
        out.flush();

        byte[] theirs = bytes(64);
        if (theirs[0] != (byte) 0xff || (theirs[9] & 1) != 1)
            throw new Violation("no ZMTP greeting");
        if (theirs[10] < 3)
            throw new Violation("ZMTP " + theirs[10] + " is too old");
        if (!Arrays.equals(Arrays.copyOfRange(theirs, 12, 32), Arrays.copyOf(ascii("NULL"), 20)))
            throw new Violation("only the security mechanism NULL is known");

        byte[] type = ascii(socketType);
        byte[] ready = new byte[6 + 12 + 4 + type.length];
        int at = 0;
        ready[at++] = 5;
        at = put(ready, at, ascii("READY"));
        ready[at++] = 11;
        at = put(ready, at, ascii("Socket-Type"));
        ready[at + 3] = (byte) type.length;
        put(ready, at + 4, type);
        frame(COMMAND, ready);
        out.flush();

        int flags = flags();
        if ((flags & COMMAND) == 0)
            throw new Violation("a message before READY");
        byte[] command = body(flags, COMMAND_BYTES_MAX);
        if (!isCommand(command, "READY"))
            throw new Violation("expected READY");
        Map<String, byte[]> properties = properties(command, 6);
        String peerType = new String(properties.getOrDefault("socket-type", new byte[0]), StandardCharsets.ISO_8859_1);
        if (!peerTypes.contains(peerType)) {
            byte[] reason = ascii("socket type does not match");
            byte[] error = new byte[7 + reason.length];
            error[0] = 5;
            put(error, 1, ascii("ERROR"));
            error[6] = (byte) reason.length;
            put(error, 7, reason);
            frame(COMMAND, error);
            out.flush();
            throw new Violation("a peer of the type " + peerType);
        }
        return properties;
    }

    /**
     * The next message. Commands are answered or skipped on the way; SUBSCRIBE and CANCEL of ZMTP 3.1 become the messages that
     * mean the same in 3.0. EOFException: the peer closed.
     */
    List<byte[]> read() throws IOException {
        List<byte[]> frames = new ArrayList<>();
        int room = MESSAGE_BYTES_MAX;
        while (true) {
            int flags = flags();
            if ((flags & COMMAND) != 0) {
                byte[] command = body(flags, COMMAND_BYTES_MAX);
                byte[] subscription = command(command);
                if (subscription != null && frames.isEmpty())
                    return List.of(subscription);
                continue;
            }
            byte[] frame = body(flags, room);
            room -= frame.length;
            frames.add(frame);
            if ((flags & MORE) == 0)
                return frames;
            if (frames.size() == FRAMES_MAX)
                throw new Violation("too many frames in a message");
        }
    }

    void write(List<byte[]> frames) throws IOException {
        synchronized (out) {
            for (int i = 0; i < frames.size(); i++)
                frame(i + 1 < frames.size() ? MORE : 0, frames.get(i));
        }
    }

    void flush() throws IOException {
        synchronized (out) {
            out.flush();
        }
    }

    /** Acts on a command after the handshake. Returns a subscription as a message of ZMTP 3.0, or null. */
    private byte[] command(byte[] command) throws IOException {
        if (isCommand(command, "PING") && command.length >= 7) {
            byte[] pong = new byte[5 + command.length - 7];
            pong[0] = 4;
            put(pong, 1, ascii("PONG"));
            System.arraycopy(command, 7, pong, 5, command.length - 7);
            synchronized (out) {
                frame(COMMAND, pong);
                out.flush();
            }
        } else if (isCommand(command, "SUBSCRIBE")) {
            return subscription(1, command, 10);
        } else if (isCommand(command, "CANCEL")) {
            return subscription(0, command, 7);
        } else if (isCommand(command, "ERROR")) {
            throw new Violation("the peer sent ERROR");
        }
        return null;
    }

    private static byte[] subscription(int first, byte[] command, int from) {
        byte[] message = new byte[1 + command.length - from];
        message[0] = (byte) first;
        System.arraycopy(command, from, message, 1, command.length - from);
        return message;
    }

    private int flags() throws IOException {
        int flags = in.read();
        if (flags < 0)
            throw new EOFException();
        if ((flags & ~(MORE | LONG | COMMAND)) != 0 || (flags & (MORE | COMMAND)) == (MORE | COMMAND))
            throw new Violation("bad flags of a frame");
        return flags;
    }

    private byte[] body(int flags, int bytesMax) throws IOException {
        long length = 0;
        for (byte b : bytes((flags & LONG) != 0 ? 8 : 1))
            length = length << 8 | b & 0xff;
        if (length < 0 || length > bytesMax)
            throw new Violation("a frame is too long");
        return bytes((int) length);
    }

    private byte[] bytes(int count) throws IOException {
        byte[] read = in.readNBytes(count);
        if (read.length < count)
            throw new EOFException();
        return read;
    }

    private void frame(int flags, byte[] body) throws IOException {
        if (body.length < 256) {
            out.write(flags);
            out.write(body.length);
        } else {
            out.write(flags | LONG);
            for (int shift = 56; shift >= 0; shift -= 8)
                out.write((int) ((long) body.length >> shift));
        }
        out.write(body);
    }

    private static boolean isCommand(byte[] command, String name) {
        return command.length > name.length() && command[0] == name.length()
                && Arrays.equals(command, 1, 1 + name.length(), ascii(name), 0, name.length());
    }

    private static Map<String, byte[]> properties(byte[] command, int at) throws Violation {
        Map<String, byte[]> properties = new HashMap<>();
        while (at < command.length) {
            int nameEnd = at + 1 + (command[at] & 0xff);
            if (nameEnd + 4 > command.length)
                throw new Violation("bad properties");
            String name = new String(command, at + 1, nameEnd - at - 1, StandardCharsets.ISO_8859_1).toLowerCase(java.util.Locale.ROOT);
            long length = 0;
            for (int i = 0; i < 4; i++)
                length = length << 8 | command[nameEnd + i] & 0xff;
            if (length > command.length - nameEnd - 4)
                throw new Violation("bad properties");
            at = nameEnd + 4 + (int) length;
            properties.put(name, Arrays.copyOfRange(command, nameEnd + 4, at));
        }
        return properties;
    }

    private static int put(byte[] to, int at, byte[] what) {
        System.arraycopy(what, 0, to, at, what.length);
        return at + what.length;
    }

    static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
