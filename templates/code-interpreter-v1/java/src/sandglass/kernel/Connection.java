package sandglass.kernel;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** The connection file: where to listen and how to sign. */
record Connection(String ip, int shellPort, int iopubPort, int stdinPort, int controlPort, int heartbeatPort, String key) {
    static Connection read(Path file) throws IOException {
        Map<String, Object> map;
        try {
            map = Json.readObject(Files.readAllBytes(file));
        } catch (Json.Malformed e) {
            throw new IOException(file + ": " + e.getMessage());
        }
        if (!"tcp".equals(map.getOrDefault("transport", "tcp")))
            throw new IOException(file + ": only the transport tcp is known");
        String key = map.get("key") instanceof String given ? given : "";
        if (!key.isEmpty() && !"hmac-sha256".equals(map.getOrDefault("signature_scheme", "hmac-sha256")))
            throw new IOException(file + ": only the signature scheme hmac-sha256 is known");
        String ip = map.get("ip") instanceof String given && !given.isEmpty() ? given : "127.0.0.1";
        return new Connection(ip, port(file, map, "shell_port"), port(file, map, "iopub_port"), port(file, map, "stdin_port"),
                port(file, map, "control_port"), port(file, map, "hb_port"), key);
    }

    private static int port(Path file, Map<String, Object> map, String name) throws IOException {
        if (map.get(name) instanceof Long port && port > 0 && port < 65536)
            return port.intValue();
        throw new IOException(file + ": " + name + " is missing or no port");
    }
}
