package sandglass.kernel;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** One listening ZeroMQ socket: accepts peers and gives their messages to a handler, one thread for each peer. */
final class Server {
    private static final int PEERS_MAX = 256;
    private static final int HANDSHAKE_MS_MAX = 30_000;

    /** What is done with peers and messages. Called by the threads of the peers. */
    interface Handler {
        void message(Peer peer, List<byte[]> frames) throws IOException, InterruptedException;

        default void closed(Peer peer) {
        }
    }

    /** A connected peer after its handshake. */
    static final class Peer {
        private final Socket socket;
        private final Zmtp zmtp;
        /** What the peer calls itself; empty when it has no name. */
        final byte[] identity;

        private Peer(Socket socket, Zmtp zmtp, byte[] identity) {
            this.socket = socket;
            this.zmtp = zmtp;
            this.identity = identity;
        }

        /** Sends and flushes. A peer that is gone gets nothing. */
        void send(List<byte[]> frames) {
            write(frames);
            flush();
        }

        void write(List<byte[]> frames) {
            try {
                zmtp.write(frames);
            } catch (IOException e) {
                close();
            }
        }

        void flush() {
            try {
                zmtp.flush();
            } catch (IOException e) {
                close();
            }
        }

        private void close() {
            try {
                socket.close();
            } catch (IOException ignored) {
                /* The thread of the peer ends either way. */
            }
        }
    }

    private final String type;
    private final List<String> peerTypes;
    private final ServerSocket listener;
    private final Handler handler;
    private final Set<Peer> peers = ConcurrentHashMap.newKeySet();

    Server(String type, List<String> peerTypes, InetAddress address, int port, Handler handler) throws IOException {
        this.type = type;
        this.peerTypes = peerTypes;
        this.handler = handler;
        listener = new ServerSocket(port, 100, address);
        start(type + " accept", this::accept);
    }

    Iterable<Peer> peers() {
        return peers;
    }

    static Thread start(String name, Runnable body) {
        Thread thread = new Thread(Main.KERNEL_THREADS, body, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void accept() {
        while (true) {
            try {
                Socket socket = listener.accept();
                if (peers.size() < PEERS_MAX)
                    start(type + " peer", () -> serve(socket));
                else
                    socket.close();
            } catch (IOException | OutOfMemoryError e) {
                Main.log("accept: " + e);
                Main.pause(100);
            }
        }
    }

    private void serve(Socket socket) {
        Peer peer = null;
        try (socket) {
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(HANDSHAKE_MS_MAX);
            Zmtp zmtp = new Zmtp(new BufferedInputStream(socket.getInputStream(), 16 << 10),
                    new BufferedOutputStream(socket.getOutputStream(), 64 << 10));
            Map<String, byte[]> properties = zmtp.handshake(type, peerTypes);
            socket.setSoTimeout(0);
            peer = new Peer(socket, zmtp, properties.getOrDefault("identity", new byte[0]));
            peers.add(peer);
            while (true)
                handler.message(peer, zmtp.read());
        } catch (Zmtp.Violation e) {
            Main.log(type + ": " + e.getMessage());
        } catch (IOException | InterruptedException e) {
            /* The peer left. */
        } catch (OutOfMemoryError e) {
            Main.log(type + ": out of memory");
        } finally {
            if (peer != null) {
                peers.remove(peer);
                handler.closed(peer);
            }
        }
    }
}
