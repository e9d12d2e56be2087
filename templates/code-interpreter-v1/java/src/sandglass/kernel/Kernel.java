package sandglass.kernel;

import java.net.InetAddress;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;

/** Answers the requests of Jupyter clients. One thread runs the shell channel; the control channel answers beside it. */
final class Kernel {
    private static final List<String> CLIENT_TYPES = List.of("DEALER", "REQ", "ROUTER");
    private static final byte[] NO_PARENT = null;

    private record Request(Server.Peer peer, Message message) {
    }

    private final Message.Signer signer;
    private final Message.Encoder encoder;
    private final Publisher publisher;
    private final Input input;
    private final BlockingQueue<Request> shell = new ArrayBlockingQueue<>(64);
    private final ArrayDeque<Request> aborted = new ArrayDeque<>();
    private final CompletableFuture<Evaluator> evaluator = new CompletableFuture<>();
    private final TextStream out = new TextStream(pieces -> print("stdout", pieces));
    private final TextStream err = new TextStream(pieces -> print("stderr", pieces));
    /** Header of the request that output belongs to: the execution that runs, or the last one. */
    private volatile byte[] parent = NO_PARENT;
    private int count;

    Kernel(Connection connection, String session) throws Exception {
        signer = new Message.Signer(connection.key());
        encoder = new Message.Encoder(signer, session);
        InetAddress address = InetAddress.getByName(connection.ip());
        publisher = new Publisher(address, connection.iopubPort(), encoder, session, this::isStopping);
        input = new Input(encoder, signer, address, connection.stdinPort());
        new Server("REP", List.of("REQ", "DEALER"), address, connection.heartbeatPort(), Server.Peer::send);
        new Server("ROUTER", CLIENT_TYPES, address, connection.controlPort(), (peer, frames) -> receive(peer, frames, true));
        new Server("ROUTER", CLIENT_TYPES, address, connection.shellPort(), (peer, frames) -> receive(peer, frames, false));
        System.setOut(out);
        System.setErr(err);
        System.setIn(input);
        Session.open(this);
        Server.start("start of JShell", this::startEvaluator);
        publisher.publish("status", NO_PARENT, Map.of("execution_state", "starting"));
    }

    /** Until the process ends. */
    void run() throws InterruptedException {
        while (true)
            answer(shell.take());
    }

    /** Beside the sockets, so that the kernel says early that it is there. Executions wait for the end of this. */
    private void startEvaluator() {
        try {
            evaluator.complete(new Evaluator());
        } catch (Throwable e) {
            Main.log("JShell does not start: " + e);
            evaluator.completeExceptionally(e);
        }
    }

    void interrupt() {
        Evaluator ready = evaluator.getNow(null);
        if (ready != null)
            ready.interrupt();
    }

    void display(Map<String, Object> data) {
        publisher.display("display_data", parent, Map.of("data", data, "metadata", Map.of(), "transient", Map.of()));
    }

    /** Before the process ends: what was printed goes out. */
    void finish() {
        out.finish();
        err.finish();
        publisher.drain(2000);
    }

    private boolean isStopping() {
        Evaluator ready = evaluator.getNow(null);
        return ready != null && ready.isInterrupted();
    }

    private void print(String stream, List<String> pieces) {
        publisher.stream(stream, pieces, parent);
    }

    private void receive(Server.Peer peer, List<byte[]> frames, boolean isControl) throws InterruptedException {
        Message message;
        try {
            message = Message.decode(frames, signer);
        } catch (Message.Bad e) {
            Main.log("message refused: " + e.getMessage());
            return;
        }
        Request request = new Request(peer, message);
        if (isControl)
            control(request);
        else
            shell.put(request);
    }

    private void control(Request request) {
        status(request, "busy");
        switch (request.message().type()) {
            case "kernel_info_request" -> reply(request, "kernel_info_reply", KernelInfo.content());
            case "interrupt_request" -> {
                interrupt();
                reply(request, "interrupt_reply", Map.of("status", "ok"));
            }
            case "shutdown_request" -> shutdown(request);
            default -> Main.log("control request ignored: " + request.message().type());
        }
        status(request, "idle");
    }

    private void answer(Request request) {
        Message message = request.message();
        boolean isExecution = message.type().equals("execute_request");
        if (isExecution)
            parent = message.headerBytes();
        status(request, "busy");
        try {
            switch (message.type()) {
                case "execute_request" -> execute(request);
                case "kernel_info_request" -> reply(request, "kernel_info_reply", KernelInfo.content());
                case "is_complete_request" -> isComplete(request);
                case "complete_request" -> complete(request);
                case "inspect_request" -> inspect(request);
                case "history_request" -> reply(request, "history_reply", Map.of("status", "ok", "history", List.of()));
                case "comm_info_request" -> reply(request, "comm_info_reply", Map.of("status", "ok", "comms", Map.of()));
                case "comm_open" -> publisher.publish("comm_close", message.headerBytes(),
                        Map.of("comm_id", message.text("comm_id"), "data", Map.of()));
                case "comm_msg", "comm_close" -> { }
                case "shutdown_request" -> shutdown(request);
                default -> Main.log("request ignored: " + message.type());
            }
        } catch (Throwable e) {
            /* JShell itself failed, in many ways, for example on code too deeply nested for the compiler. */
            Main.log(message.type() + ": " + e);
            fail(request, e);
        }
        status(request, "idle");
        finishAborted();
    }

    private void execute(Request request) {
        Message message = request.message();
        String code = message.text("code");
        boolean silent = message.flag("silent", false);
        boolean counts = !silent && message.flag("store_history", true);
        byte[] header = message.headerBytes();
        if (counts)
            count++;
        if (!silent)
            publisher.publish("execute_input", header, Map.of("code", code, "execution_count", count));
        input.begin(request.peer().identity, message.flag("allow_stdin", false), header);
        Evaluator.Outcome outcome = evaluator.join().run(code, silent ? "cell" : "cell " + count, !silent);
        out.finish();
        err.finish();
        Map<String, Object> content = new LinkedHashMap<>();
        content.put("execution_count", count);
        content.put("payload", List.of());
        Failure failure = outcome.failure();
        if (failure != null)
            abortWaiting(message);
        if (failure == null) {
            if (outcome.value() != null)
                publisher.publish("execute_result", header,
                        Map.of("execution_count", count, "data", outcome.value(), "metadata", Map.of()));
            content.put("status", "ok");
            content.put("user_expressions", expressions(message));
        } else {
            content.put("status", "error");
            content.putAll(describe(failure));
            if (!silent)
                publisher.publish("error", header, describe(failure));
        }
        reply(request, "execute_reply", content);
    }

    private static Map<String, Object> describe(Failure failure) {
        return Map.of("ename", failure.name(), "evalue", failure.value(), "traceback", List.of(failure.traceback()));
    }

    private void fail(Request request, Throwable e) {
        Failure failure = new Failure(e.getClass().getName(), String.valueOf(e.getMessage()), e.toString());
        Map<String, Object> content = new LinkedHashMap<>(describe(failure));
        content.put("status", "error");
        if (request.message().type().equals("execute_request")) {
            abortWaiting(request.message());
            content.put("execution_count", count);
            if (!request.message().flag("silent", false))
                publisher.publish("error", request.message().headerBytes(), describe(failure));
        }
        reply(request, request.message().type().replace("_request", "_reply"), content);
    }

    private Map<String, Object> expressions(Message message) {
        Map<String, Object> results = new LinkedHashMap<>();
        if (message.content().get("user_expressions") instanceof Map<?, ?> asked) {
            asked.forEach((name, code) -> {
                Evaluator.Outcome outcome = evaluator.join().run(String.valueOf(code), "expression", true);
                Map<String, Object> result = new LinkedHashMap<>();
                if (outcome.failure() == null) {
                    result.put("status", "ok");
                    result.put("data", outcome.value() != null ? outcome.value() : Map.of());
                    result.put("metadata", Map.of());
                } else {
                    result.put("status", "error");
                    result.putAll(describe(outcome.failure()));
                }
                results.put(String.valueOf(name), result);
            });
        }
        return results;
    }

    /** When a cell failed, and before anybody knows: what waits by now was sent without a look at the result. */
    private void abortWaiting(Message failed) {
        if (failed.flag("stop_on_error", true))
            shell.drainTo(aborted);
    }

    /** Executions that were taken by a failed cell do not run; other requests are answered. */
    private void finishAborted() {
        Request request;
        while ((request = aborted.poll()) != null) {
            if (!request.message().type().equals("execute_request")) {
                answer(request);
                continue;
            }
            status(request, "busy");
            reply(request, "execute_reply", Map.of("status", "aborted", "execution_count", count));
            status(request, "idle");
        }
    }

    private void isComplete(Request request) {
        String status = evaluator.join().completeness(request.message().text("code"));
        Map<String, Object> content = new LinkedHashMap<>();
        content.put("status", status);
        if (status.equals("incomplete"))
            content.put("indent", "    ");
        reply(request, "is_complete_reply", content);
    }

    private void complete(Request request) {
        String code = request.message().text("code");
        int cursor = cursor(request.message(), code);
        Evaluator.Completion completion = evaluator.join().complete(code, cursor);
        reply(request, "complete_reply",
                Map.of("status", "ok", "matches", completion.matches(), "cursor_start",
                        code.codePointCount(0, completion.from()), "cursor_end", code.codePointCount(0, cursor), "metadata",
                        Map.of()));
    }

    private void inspect(Request request) {
        String code = request.message().text("code");
        String text = evaluator.join().inspect(code, cursor(request.message(), code));
        reply(request, "inspect_reply", Map.of("status", "ok", "found", !text.isEmpty(), "data",
                text.isEmpty() ? Map.of() : Map.of("text/plain", text), "metadata", Map.of()));
    }

    /** Jupyter counts code points, Java counts halves of surrogate pairs. */
    private static int cursor(Message message, String code) {
        long points = message.content().get("cursor_pos") instanceof Long given ? given : Long.MAX_VALUE;
        int all = code.codePointCount(0, code.length());
        return points < 0 || points >= all ? code.length() : code.offsetByCodePoints(0, (int) points);
    }

    private void shutdown(Request request) {
        reply(request, "shutdown_reply", Map.of("status", "ok", "restart", request.message().flag("restart", false)));
        status(request, "idle");
        Main.exit(0);
    }

    private void reply(Request request, String type, Map<String, Object> content) {
        Message message = request.message();
        request.peer().send(encoder.encode(message.envelope(), type, Instant.now(), message.headerBytes(), Json.write(content)));
    }

    private void status(Request request, String state) {
        publisher.publish("status", request.message().headerBytes(), Map.of("execution_state", state));
    }
}
