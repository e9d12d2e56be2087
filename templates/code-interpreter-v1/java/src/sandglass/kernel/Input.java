package sandglass.kernel;

import java.io.IOException;
import java.io.InputStream;
import java.io.InterruptedIOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** System.in of the user's code: asks the client for a line where the client allows that, and fails elsewhere. */
final class Input extends InputStream implements Server.Handler {
    private final Message.Encoder encoder;
    private final Message.Signer signer;
    private final Server server;
    private final BlockingQueue<String> answers = new LinkedBlockingQueue<>();
    private volatile byte[] client = new byte[0];
    private volatile byte[] parent;
    private volatile boolean isAllowed;
    private byte[] line = new byte[0];
    private int at;

    Input(Message.Encoder encoder, Message.Signer signer, InetAddress address, int port) throws IOException {
        this.encoder = encoder;
        this.signer = signer;
        server = new Server("ROUTER", List.of("DEALER", "REQ", "ROUTER"), address, port, this);
    }

    /** Before an execution: whose it is, and whether its client can be asked. */
    void begin(byte[] client, boolean isAllowed, byte[] parent) {
        this.client = client;
        this.isAllowed = isAllowed;
        this.parent = parent;
        synchronized (this) {
            line = new byte[0];
            at = 0;
        }
        answers.clear();
    }

    @Override
    public void message(Server.Peer peer, List<byte[]> frames) {
        try {
            Message message = Message.decode(frames, signer);
            if (message.type().equals("input_reply"))
                answers.add(message.text("value"));
        } catch (Message.Bad e) {
            Main.log("message refused: " + e.getMessage());
        }
    }

    @Override
    public synchronized int read() throws IOException {
        if (at == line.length)
            ask();
        return line[at++] & 0xff;
    }

    @Override
    public synchronized int read(byte[] to, int from, int count) throws IOException {
        if (count == 0)
            return 0;
        if (at == line.length)
            ask();
        int taken = Math.min(count, line.length - at);
        System.arraycopy(line, at, to, from, taken);
        at += taken;
        return taken;
    }

    @Override
    public synchronized int available() {
        return line.length - at;
    }

    private void ask() throws IOException {
        if (!isAllowed)
            throw new IOException("standard input is not available here");
        boolean isAsked = false;
        for (Server.Peer peer : server.peers()) {
            if (Arrays.equals(peer.identity, client)) {
                peer.send(encoder.encode(List.of(), "input_request", Instant.now(), parent,
                        Json.write(Map.of("prompt", "", "password", false))));
                isAsked = true;
                break;
            }
        }
        if (!isAsked)
            throw new IOException("the client has no channel for standard input");
        try {
            line = (answers.take() + "\n").getBytes(StandardCharsets.UTF_8);
            at = 0;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for input");
        }
    }
}
