package sandglass.kernel;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * JSON as the messages of Jupyter need it. The reader is strict: valid UTF-8, one value, nothing after that value, a bounded
 * depth. Values are Map, List, String, Long, Double, Boolean and null. The writer makes UTF-8 of the same values and
 * replaces halves of surrogate pairs, so every text becomes valid.
 */
final class Json {
    static final int DEPTH_MAX = 200;

    /** The text is not JSON. */
    static final class Malformed extends Exception {
        Malformed(String what, int at) {
            super(what + " at character " + at);
        }
    }

    private Json() {
    }

    static Object read(byte[] utf8) throws Malformed {
        String text;
        try {
            text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
        } catch (CharacterCodingException e) {
            throw new Malformed("invalid UTF-8", 0);
        }
        Reader reader = new Reader(text);
        Object value = reader.value(0);
        reader.end();
        return value;
    }

    @SuppressWarnings("unchecked")
    static Map<String, Object> readObject(byte[] utf8) throws Malformed {
        if (read(utf8) instanceof Map<?, ?> map)
            return (Map<String, Object>) map;
        throw new Malformed("not an object", 0);
    }

    static byte[] write(Object value) {
        Writer writer = new Writer(256);
        writer.value(value);
        return writer.bytes();
    }

    private static final class Reader {
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        Malformed malformed(String what) {
            return new Malformed(what, at);
        }

        int peek() {
            return at < text.length() ? text.charAt(at) : -1;
        }

        void space() {
            while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0)
                at++;
        }

        void expect(char c) throws Malformed {
            if (peek() != c)
                throw malformed("expected '" + c + "'");
            at++;
        }

        void end() throws Malformed {
            space();
            if (at != text.length())
                throw malformed("text after the value");
        }

        Object value(int depth) throws Malformed {
            if (depth > DEPTH_MAX)
                throw malformed("nested too deeply");
            space();
            int c = peek();
            return switch (c) {
                case '{' -> object(depth);
                case '[' -> array(depth);
                case '"' -> string();
                case 't' -> word("true", Boolean.TRUE);
                case 'f' -> word("false", Boolean.FALSE);
                case 'n' -> word("null", null);
                default -> number();
            };
        }

        Object word(String word, Object value) throws Malformed {
            if (!text.startsWith(word, at))
                throw malformed("unknown word");
            at += word.length();
            return value;
        }

        Map<String, Object> object(int depth) throws Malformed {
            Map<String, Object> map = new LinkedHashMap<>();
            expect('{');
            space();
            if (peek() == '}') {
                at++;
                return map;
            }
            while (true) {
                space();
                String key = string();
                space();
                expect(':');
                map.put(key, value(depth + 1));
                space();
                if (peek() == '}') {
                    at++;
                    return map;
                }
                expect(',');
            }
        }

        List<Object> array(int depth) throws Malformed {
            List<Object> list = new ArrayList<>();
            expect('[');
            space();
            if (peek() == ']') {
                at++;
                return list;
            }
            while (true) {
                list.add(value(depth + 1));
                space();
                if (peek() == ']') {
                    at++;
                    return list;
                }
                expect(',');
            }
        }

        String string() throws Malformed {
            expect('"');
            int start = at;
            while (at < text.length() && text.charAt(at) != '"' && text.charAt(at) != '\\' && text.charAt(at) >= 0x20)
                at++;
            if (peek() == '"')
                return text.substring(start, at++);
            StringBuilder built = new StringBuilder().append(text, start, at);
            while (true) {
                int c = peek();
                if (c < 0)
                    throw malformed("string without an end");
                if (c < 0x20)
                    throw malformed("control character in a string");
                at++;
                if (c == '"')
                    return built.toString();
                built.append(c == '\\' ? escape() : (char) c);
            }
        }

        char escape() throws Malformed {
            int c = peek();
            at++;
            return switch (c) {
                case '"', '\\', '/' -> (char) c;
                case 'b' -> '\b';
                case 'f' -> '\f';
                case 'n' -> '\n';
                case 'r' -> '\r';
                case 't' -> '\t';
                case 'u' -> unicode();
                default -> throw malformed("unknown escape");
            };
        }

        char unicode() throws Malformed {
            int value = 0;
            for (int i = 0; i < 4; i++) {
                int c = peek();
                int digit = c >= 0 && c < 128 ? Character.digit(c, 16) : -1;
                if (digit < 0)
                    throw malformed("bad \\u escape");
                value = value * 16 + digit;
                at++;
            }
            return (char) value;
        }

        void digits() throws Malformed {
            if (peek() < '0' || peek() > '9')
                throw malformed("unexpected character");
            while (peek() >= '0' && peek() <= '9')
                at++;
        }

        Object number() throws Malformed {
            int start = at;
            boolean whole = true;
            if (peek() == '-')
                at++;
            if (peek() == '0')
                at++;
            else
                digits();
            if (peek() == '.') {
                whole = false;
                at++;
                digits();
            }
            if (peek() == 'e' || peek() == 'E') {
                whole = false;
                at++;
                if (peek() == '+' || peek() == '-')
                    at++;
                digits();
            }
            String number = text.substring(start, at);
            if (whole && number.length() <= 18)
                return Long.valueOf(number);
            return Double.valueOf(number);
        }
    }

    /** Grows as needed; each call appends. */
    static final class Writer {
        private static final byte[] HEX = "0123456789abcdef".getBytes(StandardCharsets.US_ASCII);
        private byte[] out;
        private int length;
        private int depth;

        Writer(int size) {
            out = new byte[size];
        }

        byte[] bytes() {
            return Arrays.copyOf(out, length);
        }

        private void room(int more) {
            if (out.length - length < more)
                out = Arrays.copyOf(out, Math.max(out.length * 2, length + more));
        }

        private void put(int b) {
            room(1);
            out[length++] = (byte) b;
        }

        /** ASCII only, as is. */
        Writer raw(String ascii) {
            room(ascii.length());
            for (int i = 0; i < ascii.length(); i++)
                out[length++] = (byte) ascii.charAt(i);
            return this;
        }

        Writer value(Object value) {
            if (++depth > DEPTH_MAX)
                throw new IllegalArgumentException("the data is nested too deeply for JSON");
            if (value == null)
                raw("null");
            else if (value instanceof CharSequence text)
                text(text);
            else if (value instanceof Boolean)
                raw(value.toString());
            else if (value instanceof Double || value instanceof Float)
                raw(Double.isFinite(((Number) value).doubleValue()) ? value.toString() : "null");
            else if (value instanceof Number)
                raw(value.toString());
            else if (value instanceof Map<?, ?> map)
                object(map);
            else if (value instanceof Iterable<?> list)
                array(list);
            else if (value instanceof Object[] list)
                array(Arrays.asList(list));
            else if (value.getClass().isArray())
                primitives(value);
            else
                text(value.toString());
            depth--;
            return this;
        }

        private void object(Map<?, ?> map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                put(before);
                text(String.valueOf(entry.getKey()));
                put(':');
                value(entry.getValue());
                before = ',';
            }
            raw(before == '{' ? "{}" : "}");
        }

        private void array(Iterable<?> list) {
            char before = '[';
            for (Object item : list) {
                put(before);
                value(item);
                before = ',';
            }
            raw(before == '[' ? "[]" : "]");
        }

        private void primitives(Object array) {
            int count = java.lang.reflect.Array.getLength(array);
            put('[');
            for (int i = 0; i < count; i++) {
                if (i > 0)
                    put(',');
                value(java.lang.reflect.Array.get(array, i));
            }
            put(']');
        }

        /** A string with its quotes. */
        Writer text(CharSequence text) {
            int count = text.length();
            room(count + 2);
            put('"');
            for (int i = 0; i < count; i++) {
                char c = text.charAt(i);
                if (c >= 0x20 && c < 0x7f && c != '"' && c != '\\')
                    put(c);
                else if (c < 0x80)
                    escaped(c);
                else if (Character.isHighSurrogate(c) && i + 1 < count && Character.isLowSurrogate(text.charAt(i + 1)))
                    utf8(Character.toCodePoint(c, text.charAt(++i)));
                else
                    utf8(Character.isSurrogate(c) ? 0xfffd : c);
            }
            put('"');
            return this;
        }

        private void escaped(char c) {
            put('\\');
            switch (c) {
                case '"', '\\' -> put(c);
                case '\n' -> put('n');
                case '\r' -> put('r');
                case '\t' -> put('t');
                default -> {
                    raw("u00");
                    put(HEX[c >> 4]);
                    put(HEX[c & 15]);
                }
            }
        }

        private void utf8(int point) {
            if (point < 0x800) {
                put(0xc0 | point >> 6);
            } else {
                if (point < 0x10000) {
                    put(0xe0 | point >> 12);
                } else {
                    put(0xf0 | point >> 18);
                    put(0x80 | point >> 12 & 0x3f);
                }
                put(0x80 | point >> 6 & 0x3f);
            }
            put(0x80 | point & 0x3f);
        }
    }
}
