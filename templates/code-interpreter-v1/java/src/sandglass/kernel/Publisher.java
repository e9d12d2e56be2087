package sandglass.kernel;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;

/**
 * The iopub socket: a bounded queue and one thread that sends. The queue never drops: a thread that prints faster than the
 * subscribers read waits. Without a subscriber messages go nowhere, as in ZeroMQ.
 */
final class Publisher implements Server.Handler {
    /** Output waits in its thread while so many characters are in the queue. */
    private static final int QUEUE_CHARS_MAX = 1 << 20;
    /** With so many messages in the queue, the output of one stream is joined to fewer and larger messages. */
    private static final int JOIN_FROM_MESSAGES = 64;
    private static final int STREAM_CHARS_MAX = 128 << 10;

    private static final class Item {
        final String type;
        final byte[] parent;
        final Instant time = Instant.now();
        /** Of a stream: its name and text. Of all others: the content. */
        final String stream;
        final StringBuilder text;
        final byte[] content;

        Item(String type, byte[] parent, String stream, String text, byte[] content) {
            this.type = type;
            this.parent = parent;
            this.stream = stream;
            this.text = text != null ? new StringBuilder(text) : null;
            this.content = content;
        }

        int size() {
            return text != null ? text.length() : content.length;
        }

        byte[] contentBytes() {
            if (content != null)
                return content;
            Json.Writer writer = new Json.Writer(text.length() + 64);
            return writer.raw("{\"name\":\"").raw(stream).raw("\",\"text\":").text(text).raw("}").bytes();
        }
    }

    private final Message.Encoder encoder;
    private final String topic;
    private final BooleanSupplier isStopping;
    private final Server server;
    private final Map<Server.Peer, List<byte[]>> subscriptions = new ConcurrentHashMap<>();
    private final ArrayDeque<Item> queue = new ArrayDeque<>();
    private long queueChars;
    private boolean isSending;

    /** isStopping: the cell shall end, so its threads must not wait here any longer. */
    Publisher(InetAddress address, int port, Message.Encoder encoder, String session, BooleanSupplier isStopping)
            throws IOException {
        this.encoder = encoder;
        this.topic = "kernel." + session + ".";
        this.isStopping = isStopping;
        server = new Server("PUB", List.of("SUB", "XSUB"), address, port, this);
        Server.start("iopub", this::sendAll);
    }

    /** A message of the kernel: never waits. */
    synchronized void publish(String type, byte[] parent, Map<String, ?> content) {
        enqueue(new Item(type, parent, null, null, Json.write(content)));
    }

    /** A message of the user's code: waits for room. */
    void display(String type, byte[] parent, Map<String, ?> content) {
        Item item = new Item(type, parent, null, null, Json.write(content));
        synchronized (this) {
            if (waitForRoom())
                enqueue(item);
        }
    }

    /** Text of the user's code: waits for room. The pieces become messages that follow each other. */
    synchronized void stream(String name, List<String> pieces, byte[] parent) {
        if (!waitForRoom())
            return;
        for (String text : pieces) {
            for (int from = 0, to; from < text.length(); from = to) {
                to = Math.min(text.length(), from + STREAM_CHARS_MAX);
                if (to < text.length() && Character.isHighSurrogate(text.charAt(to - 1)))
                    to--;
                if (from > 0 && !waitForRoom())
                    return;
                append(name, text.substring(from, to), parent);
            }
        }
    }

    private void append(String name, String text, byte[] parent) {
        Item last = queue.size() >= JOIN_FROM_MESSAGES ? queue.peekLast() : null;
        if (last != null && last.text != null && last.stream.equals(name) && last.parent == parent
                && last.text.length() + text.length() <= STREAM_CHARS_MAX) {
            last.text.append(text);
            queueChars += text.length();
        } else {
            enqueue(new Item("stream", parent, name, text, null));
        }
    }

    /** Waits until all is sent, but not for ever. */
    synchronized void drain(long msMax) {
        long end = System.nanoTime() + msMax * 1_000_000;
        long left;
        while ((!queue.isEmpty() || isSending) && (left = (end - System.nanoTime()) / 1_000_000) > 0) {
            try {
                wait(left);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    private void enqueue(Item item) {
        queue.add(item);
        queueChars += item.size();
        notifyAll();
    }

    /** False: the cell is being stopped, and its output is not wanted any more. */
    private boolean waitForRoom() {
        boolean wasInterrupted = false;
        boolean room = true;
        while (queueChars > QUEUE_CHARS_MAX) {
            if (wasInterrupted && isStopping.getAsBoolean()) {
                room = false;
                break;
            }
            try {
                wait();
            } catch (InterruptedException e) {
                wasInterrupted = true;
            }
        }
        if (wasInterrupted)
            Thread.currentThread().interrupt();
        return room;
    }

    private void sendAll() {
        List<Item> batch = new ArrayList<>();
        while (true) {
            try {
                synchronized (this) {
                    isSending = false;
                    notifyAll();
                    while (queue.isEmpty())
                        wait();
                    isSending = true;
                    for (int i = 0; i < JOIN_FROM_MESSAGES && !queue.isEmpty(); i++)
                        batch.add(queue.poll());
                }
                int chars = 0;
                for (Item item : batch) {
                    send(item);
                    chars += item.size();
                }
                for (Server.Peer peer : subscriptions.keySet())
                    peer.flush();
                synchronized (this) {
                    queueChars -= chars;
                }
            } catch (InterruptedException e) {
                return;
            } catch (OutOfMemoryError e) {
                synchronized (this) {
                    for (Item item : batch)
                        queueChars -= item.size();
                }
                Main.log("iopub: out of memory, output is lost");
            }
            batch.clear();
        }
    }

    private void send(Item item) {
        byte[] subject = (topic + (item.stream != null ? item.stream : item.type)).getBytes(StandardCharsets.US_ASCII);
        List<byte[]> frames = null;
        for (Map.Entry<Server.Peer, List<byte[]>> entry : subscriptions.entrySet()) {
            if (!isWanted(entry.getValue(), subject))
                continue;
            if (frames == null)
                frames = encoder.encode(List.of(subject), item.type, item.time, item.parent, item.contentBytes());
            entry.getKey().write(frames);
        }
    }

    private static boolean isWanted(List<byte[]> prefixes, byte[] subject) {
        for (byte[] prefix : prefixes)
            if (prefix.length <= subject.length
                    && Arrays.equals(prefix, 0, prefix.length, subject, 0, prefix.length))
                return true;
        return false;
    }

    /** A subscription, or the end of one. */
    @Override
    public void message(Server.Peer peer, List<byte[]> frames) {
        byte[] first = frames.get(0);
        if (first.length == 0 || first[0] > 1 || first[0] < 0)
            return;
        byte[] prefix = Arrays.copyOfRange(first, 1, first.length);
        List<byte[]> prefixes = new ArrayList<>(subscriptions.getOrDefault(peer, List.of()));
        if (first[0] == 1) {
            prefixes.add(prefix);
        } else {
            for (int i = 0; i < prefixes.size(); i++) {
                if (Arrays.equals(prefixes.get(i), prefix)) {
                    prefixes.remove(i);
                    break;
                }
            }
        }
        subscriptions.put(peer, List.copyOf(prefixes));
    }

    @Override
    public void closed(Server.Peer peer) {
        subscriptions.remove(peer);
    }
}
