package sandglass;

import java.util.Collections;
import java.util.Map;
import sandglass.kernel.Session;

/** Rich output for code in cells. Each call shows one result at once. The kernel imports this class by itself. */
public final class Display {
    /** An object that knows how it looks: data by MIME type. Bytes are shown as base64. */
    public interface Rich {
        Map<String, ?> mimeBundle();
    }

    private Display() {
    }

    /** Shows a value as the last line of a cell would show it. */
    public static void display(Object value) {
        Session.display(Session.bundle(value));
    }

    /** Shows data of one MIME type: text, bytes, or what JSON can hold. */
    public static void mime(String type, Object data) {
        Session.display(Collections.singletonMap(type, data));
    }

    /** Shows the same thing in several MIME types. */
    public static void bundle(Map<String, ?> bundle) {
        Session.display(bundle);
    }

    public static void text(String text) {
        mime("text/plain", text);
    }

    public static void html(String html) {
        mime("text/html", html);
    }

    public static void markdown(String markdown) {
        mime("text/markdown", markdown);
    }

    public static void latex(String latex) {
        mime("text/latex", latex);
    }

    public static void svg(String svg) {
        mime("image/svg+xml", svg);
    }

    public static void javascript(String javascript) {
        mime("application/javascript", javascript);
    }

    public static void png(byte[] png) {
        mime("image/png", png);
    }

    public static void jpeg(byte[] jpeg) {
        mime("image/jpeg", jpeg);
    }

    public static void pdf(byte[] pdf) {
        mime("application/pdf", pdf);
    }

    /** Maps, lists, arrays, texts, numbers, booleans and null. */
    public static void json(Object json) {
        mime("application/json", json);
    }
}
