package sandglass.kernel;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import sandglass.Display;

/** How values look: text always, and more for pictures and for objects that describe themselves. */
final class Values {
    private Values() {
    }

    static Map<String, Object> bundle(Object value) {
        Map<String, Object> bundle = new LinkedHashMap<>();
        bundle.put("text/plain", Engine.text(value));
        if (value instanceof Display.Rich rich)
            rich.mimeBundle().forEach((type, data) -> bundle.put(type, encoded(data)));
        else if ("java.desktop".equals(value.getClass().getModule().getName()))
            Pictures.add(value, bundle);
        return bundle;
    }

    /** Bytes become base64; all else stays. */
    static Object encoded(Object data) {
        return data instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : data;
    }

    /** Apart, so that a kernel without pictures does not load the classes of java.desktop. */
    private static final class Pictures {
        static void add(Object value, Map<String, Object> bundle) {
            if (!(value instanceof java.awt.image.RenderedImage image))
                return;
            ByteArrayOutputStream png = new ByteArrayOutputStream();
            try {
                if (javax.imageio.ImageIO.write(image, "png", png))
                    bundle.put("image/png", encoded(png.toByteArray()));
            } catch (IOException e) {
                /* Memory does not fail; the text stays. */
            }
        }
    }
}
