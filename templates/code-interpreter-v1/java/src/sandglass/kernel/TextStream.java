package sandglass.kernel;

import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharsetDecoder;
import java.nio.charset.CodingErrorAction;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Consumer;

/**
 * System.out or System.err of the user's code. Each call of print is one piece of text; println is two, the text and the
 * end of the line, which stay together. Bytes are taken as UTF-8; what is invalid is replaced.
 */
final class TextStream extends PrintStream {
    private final Consumer<List<String>> sink;
    private final CharsetDecoder decoder = StandardCharsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPLACE)
            .onUnmappableCharacter(CodingErrorAction.REPLACE);
    /** Bytes of a character whose rest is not written yet. */
    private final ByteBuffer partial = ByteBuffer.allocate(8);
    /** First half of a surrogate pair whose second half is not printed yet; 0 if none. */
    private char half;

    TextStream(Consumer<List<String>> sink) {
        super(OutputStream.nullOutputStream(), false, StandardCharsets.UTF_8);
        this.sink = sink;
    }

    /** The sink may wait for its readers, so it is called without the lock: other threads and the end of the cell go on. */
    private void emit(String... pieces) {
        List<String> ready = new ArrayList<>(pieces.length);
        synchronized (this) {
            for (String piece : pieces) {
                String whole = whole(piece);
                if (!whole.isEmpty())
                    ready.add(whole);
            }
        }
        if (!ready.isEmpty())
            sink.accept(ready);
    }

    /** The text with what was kept before, without what has to be kept. */
    private String whole(String text) {
        if (partial.position() > 0) {
            partial.clear();
            text = "\ufffd" + text;
        }
        if (text.isEmpty())
            return text;
        if (half != 0) {
            text = half + text;
            half = 0;
        }
        char last = text.charAt(text.length() - 1);
        if (!Character.isHighSurrogate(last))
            return text;
        half = last;
        return text.substring(0, text.length() - 1);
    }

    /** At the end of a cell: what waits for its other half goes out as it is. */
    void finish() {
        String kept;
        synchronized (this) {
            kept = (half != 0 ? "\ufffd" : "") + (partial.position() > 0 ? "\ufffd" : "");
            half = 0;
            partial.clear();
        }
        if (!kept.isEmpty())
            sink.accept(List.of(kept));
    }

    @Override
    public void write(byte[] bytes, int from, int count) {
        java.util.Objects.checkFromIndexSize(from, count, bytes.length);
        String text;
        synchronized (this) {
            ByteBuffer in = ByteBuffer.allocate(partial.position() + count).put(partial.flip()).put(bytes, from, count).flip();
            CharBuffer out = CharBuffer.allocate(in.remaining() + 1);
            partial.clear();
            decoder.reset().decode(in, out, false);
            text = whole(out.flip().toString());
            partial.put(in);
        }
        if (!text.isEmpty())
            sink.accept(List.of(text));
    }

    @Override
    public void write(int b) {
        write(new byte[] {(byte) b}, 0, 1);
    }

    @Override
    public void write(byte[] bytes) {
        write(bytes, 0, bytes.length);
    }

    @Override
    public void writeBytes(byte[] bytes) {
        write(bytes, 0, bytes.length);
    }

    @Override
    public void flush() {
    }

    @Override
    public void close() {
    }

    @Override
    public boolean checkError() {
        return false;
    }

    @Override
    public void print(String text) {
        emit(String.valueOf(text));
    }

    @Override
    public void print(Object value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(boolean value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(char value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(int value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(long value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(float value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(double value) {
        emit(String.valueOf(value));
    }

    @Override
    public void print(char[] value) {
        emit(String.valueOf(value));
    }

    @Override
    public void println() {
        emit("\n");
    }

    private void line(String text) {
        emit(text, "\n");
    }

    @Override
    public void println(String text) {
        line(String.valueOf(text));
    }

    @Override
    public void println(Object value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(boolean value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(char value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(int value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(long value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(float value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(double value) {
        line(String.valueOf(value));
    }

    @Override
    public void println(char[] value) {
        line(String.valueOf(value));
    }

    @Override
    public PrintStream printf(String format, Object... values) {
        return format(format, values);
    }

    @Override
    public PrintStream printf(Locale locale, String format, Object... values) {
        return format(locale, format, values);
    }

    @Override
    public PrintStream format(String format, Object... values) {
        emit(String.format(format, values));
        return this;
    }

    @Override
    public PrintStream format(Locale locale, String format, Object... values) {
        emit(String.format(locale, format, values));
        return this;
    }

    @Override
    public PrintStream append(CharSequence text) {
        emit(String.valueOf(text));
        return this;
    }

    @Override
    public PrintStream append(CharSequence text, int from, int to) {
        emit(String.valueOf(text).substring(from, to));
        return this;
    }

    @Override
    public PrintStream append(char value) {
        emit(String.valueOf(value));
        return this;
    }
}
