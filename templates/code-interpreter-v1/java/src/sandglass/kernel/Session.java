package sandglass.kernel;

import java.util.LinkedHashMap;
import java.util.Map;

/** What the kernel offers to the helper classes that the user's code calls. */
public final class Session {
    private static volatile Kernel kernel;

    private Session() {
    }

    static void open(Kernel opened) {
        kernel = opened;
    }

    /** How a value looks, by MIME type. */
    public static Map<String, Object> bundle(Object value) {
        if (value == null)
            return Map.of("text/plain", "null");
        return Values.bundle(value);
    }

    /** Shows data by MIME type. */
    public static void display(Map<String, ?> bundle) {
        Map<String, Object> data = new LinkedHashMap<>();
        bundle.forEach((type, value) -> data.put(type, Values.encoded(value)));
        Kernel current = kernel;
        if (current != null)
            current.display(data);
    }
}
