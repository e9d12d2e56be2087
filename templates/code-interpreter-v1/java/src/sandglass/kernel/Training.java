package sandglass.kernel;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A run of the kernel with itself as the client, so that the archive of classes has what a kernel loads. */
final class Training {
    private static final List<String> CELLS = List.of("1 + 1", "int x = 1; x", "String s = \"a\" + x; s", "System.out.println(s)",
            "int twice(int n) { return 2 * n; }\ntwice(4)", "record Point(int x, int y) { }\nnew Point(1, 2)",
            "for (int i = 0; i < 3; i++) System.out.print(i);", "List.of(3, 1, 2).stream().sorted().map(n -> n + 1).toList()",
            "class A { int f() { return 1; } }\nvar a = new A(); a.f()", "System.setProperty(\"k\", \"v\"); System.getProperty(\"k\")",
            "display(Map.of(\"a\", 1))", "no such thing", "undefined + 1", "throw new IllegalStateException(\"x\");", "int g() { return h(); }",
            "System.out.printf(\"%d %s\", 1, \"a\")", "import java.time.*;", "Thread.sleep(1)", "new int[] {1, 2}", "System.err.println(1)");

    private Training() {
    }

    static void run() throws Exception {
        int[] ports = new int[5];
        ServerSocket[] taken = new ServerSocket[ports.length];
        InetAddress loopback = InetAddress.getByName("127.0.0.1");
        for (int i = 0; i < ports.length; i++)
            ports[i] = (taken[i] = new ServerSocket(0, 1, loopback)).getLocalPort();
        for (ServerSocket socket : taken)
            socket.close();
        Connection connection = new Connection("127.0.0.1", ports[0], ports[1], ports[2], ports[3], ports[4], "key");
        Kernel kernel = new Kernel(connection, "training");
        Server.start("kernel", () -> {
            try {
                kernel.run();
            } catch (InterruptedException e) {
                /* Nobody interrupts. */
            }
        });
        Message.Signer signer = new Message.Signer("key");
        Message.Encoder encoder = new Message.Encoder(signer, "client");
        Zmtp iopub = connect(loopback, ports[1], "SUB", "PUB");
        iopub.write(List.of(new byte[] {1}));
        iopub.flush();
        Zmtp shell = connect(loopback, ports[0], "DEALER", "ROUTER");
        ask(shell, encoder, signer, "kernel_info_request", Map.of());
        for (String code : CELLS) {
            Map<String, Object> content = new LinkedHashMap<>();
            content.put("code", code);
            content.put("silent", false);
            content.put("stop_on_error", false);
            ask(shell, encoder, signer, "execute_request", content);
        }
        ask(shell, encoder, signer, "is_complete_request", Map.of("code", "int x = "));
        ask(shell, encoder, signer, "complete_request", Map.of("code", "s.le", "cursor_pos", 4));
        iopub.read();
        kernel.finish();
        System.exit(0);
    }

    private static Zmtp connect(InetAddress address, int port, String type, String peerType) throws Exception {
        Socket socket = new Socket(address, port);
        OutputStream out = new BufferedOutputStream(socket.getOutputStream());
        Zmtp zmtp = new Zmtp(new BufferedInputStream(socket.getInputStream()), out);
        zmtp.handshake(type, List.of(peerType));
        return zmtp;
    }

    private static void ask(Zmtp shell, Message.Encoder encoder, Message.Signer signer, String type, Map<String, Object> content)
            throws Exception {
        shell.write(encoder.encode(List.of(), type, Instant.now(), null, Json.write(content)));
        shell.flush();
        Message.decode(shell.read(), signer);
    }
}
