package sandglass.kernel;

import java.util.List;
import java.util.Map;

/** What the kernel says of itself. */
final class KernelInfo {
    private KernelInfo() {
    }

    static Map<String, Object> content() {
        String version = Runtime.version().toString();
        return Map.of("status", "ok", "protocol_version", "5.3", "implementation", "sandglass-java", "implementation_version", "1.0",
                "banner", "Java " + version, "help_links", List.of(), "language_info",
                Map.of("name", "java", "version", version, "mimetype", "text/x-java-source", "file_extension", ".jshell",
                        "pygments_lexer", "java", "codemirror_mode", "text/x-java"));
    }
}
