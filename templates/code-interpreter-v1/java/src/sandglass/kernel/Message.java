package sandglass.kernel;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/** One message of a Jupyter client, checked and decoded. */
record Message(List<byte[]> envelope, Map<String, Object> header, byte[] headerBytes, Map<String, Object> content) {
    private static final byte[] DELIMITER = Zmtp.ascii("<IDS|MSG>");

    /** The frames are no message of Jupyter, or the signature is wrong. */
    static final class Bad extends Exception {
        Bad(String what) {
            super(what);
        }
    }

    String type() {
        return header.get("msg_type") instanceof String type ? type : "";
    }

    boolean flag(String name, boolean otherwise) {
        return content.get(name) instanceof Boolean value ? value : otherwise;
    }

    String text(String name) {
        return content.get(name) instanceof String value ? value : "";
    }

    static Message decode(List<byte[]> frames, Signer signer) throws Bad {
        int delimiter = 0;
        while (delimiter < frames.size() && !Arrays.equals(frames.get(delimiter), DELIMITER))
            delimiter++;
        if (frames.size() < delimiter + 6)
            throw new Bad("not a message of Jupyter");
        List<byte[]> parts = frames.subList(delimiter + 2, delimiter + 6);
        if (!MessageDigest.isEqual(signer.sign(parts), frames.get(delimiter + 1)))
            throw new Bad("wrong signature");
        try {
            Json.readObject(parts.get(1));
            Json.readObject(parts.get(2));
            return new Message(List.copyOf(frames.subList(0, delimiter)), Json.readObject(parts.get(0)), parts.get(0),
                    Json.readObject(parts.get(3)));
        } catch (Json.Malformed e) {
            throw new Bad(e.getMessage());
        }
    }

    /** Makes frames of the messages of this kernel. */
    static final class Encoder {
        private static final byte[] EMPTY = Zmtp.ascii("{}");
        private final Signer signer;
        private final String session;
        private long count;
        private long second = -1;
        private String secondText;

        Encoder(Signer signer, String session) {
            this.signer = signer;
            this.session = session;
        }

        synchronized List<byte[]> encode(List<byte[]> envelope, String type, Instant time, byte[] parentHeader, byte[] content) {
            Json.Writer header = new Json.Writer(256);
            header.raw("{\"msg_id\":\"").raw(session).raw("_").raw(Long.toString(++count));
            header.raw("\",\"session\":\"").raw(session).raw("\",\"username\":\"kernel\",\"date\":\"").raw(date(time));
            header.raw("\",\"msg_type\":\"").raw(type).raw("\",\"version\":\"5.3\"}");
            List<byte[]> parts = List.of(header.bytes(), parentHeader != null ? parentHeader : EMPTY, EMPTY, content);
            List<byte[]> frames = new ArrayList<>(envelope.size() + 6);
            frames.addAll(envelope);
            frames.add(DELIMITER);
            frames.add(signer.sign(parts));
            frames.addAll(parts);
            return frames;
        }

        private String date(Instant time) {
            if (time.getEpochSecond() != second) {
                second = time.getEpochSecond();
                secondText = Instant.ofEpochSecond(second).toString().replace("Z", ".");
            }
            return secondText + Integer.toString(1_000_000 + time.getNano() / 1000).substring(1) + "Z";
        }
    }

    /** HMAC-SHA256 by the digest of the JDK; the crypto framework would make the start slower. An empty key signs nothing. */
    static final class Signer {
        private final MessageDigest inner;
        private final MessageDigest outer;

        Signer(String key) throws GeneralSecurityException {
            if (key.isEmpty()) {
                inner = outer = null;
                return;
            }
            byte[] bytes = key.getBytes(StandardCharsets.UTF_8);
            if (bytes.length > 64)
                bytes = MessageDigest.getInstance("SHA-256").digest(bytes);
            inner = padded(bytes, 0x36);
            outer = padded(bytes, 0x5c);
        }

        private static MessageDigest padded(byte[] key, int pad) throws GeneralSecurityException {
            byte[] block = Arrays.copyOf(key, 64);
            for (int i = 0; i < block.length; i++)
                block[i] ^= (byte) pad;
            MessageDigest digest = MessageDigest.getInstance("SHA-256");
            digest.update(block);
            return digest;
        }

        /** The signature in hexadecimal digits. */
        byte[] sign(List<byte[]> parts) {
            if (inner == null)
                return new byte[0];
            try {
                MessageDigest first = (MessageDigest) inner.clone();
                for (byte[] part : parts)
                    first.update(part);
                MessageDigest second = (MessageDigest) outer.clone();
                byte[] sum = second.digest(first.digest());
                byte[] hex = new byte[64];
                for (int i = 0; i < 64; i++)
                    hex[i] = (byte) "0123456789abcdef".charAt(sum[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15);
                return hex;
            } catch (CloneNotSupportedException e) {
                throw new IllegalStateException(e);
            }
        }
    }
}
