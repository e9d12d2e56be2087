package sandglass.kernel;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import jdk.jshell.execution.LocalExecutionControl;
import jdk.jshell.spi.ExecutionControl;
import jdk.jshell.spi.ExecutionControlProvider;
import jdk.jshell.spi.ExecutionEnv;

/**
 * Runs compiled snippets in this process. JShell's own local engine is underneath: it puts a check into every loop of the
 * user's code, so loops can be stopped. Different from that engine: a snippet is done when its own thread is done, threads
 * that it started may go on; the value is kept as an object; a thread that does not stop is left behind.
 */
final class Engine extends LocalExecutionControl implements ExecutionControlProvider {
    /** So long an interrupted snippet may take to stop. */
    private static final long STOP_MS_MAX = 2000;

    /** One call of a snippet. */
    private static final class Run {
        final Method method;
        final boolean wantsValue;
        boolean isEntered;
        boolean isDone;
        Throwable failure;
        Map<String, Object> value;

        Run(Method method, boolean wantsValue) {
            this.method = method;
            this.wantsValue = wantsValue;
        }
    }

    /** The run that the next thread of JShell's engine takes. */
    private static volatile Run next;
    private static final Method ENTRY;
    private static volatile Engine instance;

    static {
        try {
            ENTRY = Engine.class.getDeclaredMethod("entry");
            ENTRY.setAccessible(true);
        } catch (NoSuchMethodException e) {
            throw new ExceptionInInitializerError(e);
        }
    }

    private boolean wantsValue;
    private Map<String, Object> value;
    private boolean isInterrupted;
    private boolean isLeftBehind;

    Engine() {
        instance = this;
    }

    @Override
    public String name() {
        return "sandglass";
    }

    @Override
    public ExecutionControl generate(ExecutionEnv env, Map<String, String> parameters) {
        return this;
    }

    /** Before a cell. */
    synchronized void begin() {
        isInterrupted = false;
        isLeftBehind = false;
    }

    /** Before a snippet: whether its value shall be kept. */
    void prepare(boolean wantsValue) {
        this.wantsValue = wantsValue;
        value = null;
    }

    /** The value of the last snippet by MIME type; null when it has none. */
    Map<String, Object> value() {
        return value;
    }

    synchronized boolean isInterrupted() {
        return isInterrupted;
    }

    /** The cell was interrupted, and a thread of it did not stop. */
    synchronized boolean isLeftBehind() {
        return isLeftBehind;
    }

    /** Stops the cell. May be called by any thread, also when nothing runs. */
    synchronized void interrupt() {
        isInterrupted = true;
        notifyAll();
    }

    @Override
    protected String invoke(Method method) throws Exception {
        Run run = new Run(method, wantsValue);
        synchronized (this) {
            if (isInterrupted)
                throw new StoppedException();
        }
        next = run;
        /* JShell's engine also waits for threads that the snippet starts, so it waits in a thread of its own. */
        Server.start("snippet", () -> {
            try {
                super.invoke(ENTRY);
            } catch (Exception e) {
                finish(run, e);
            } finally {
                finish(run, null);
            }
        });
        await(run);
        if (run.failure instanceof ThreadDeath)
            throw new StoppedException();
        if (run.failure != null)
            throw new InvocationTargetException(run.failure);
        value = run.value;
        return "";
    }

    private synchronized void await(Run run) throws Exception {
        long deadline = 0;
        while (!run.isDone) {
            if (!isInterrupted) {
                wait();
                continue;
            }
            long now = System.nanoTime() / 1_000_000;
            if (deadline == 0)
                deadline = now + STOP_MS_MAX;
            if (now >= deadline) {
                isLeftBehind = true;
                throw new StoppedException();
            }
            if (run.isEntered)
                super.stop();
            wait(20);
        }
    }

    private synchronized void finish(Run run, Throwable failure) {
        if (run.isDone)
            return;
        run.failure = failure;
        run.isDone = true;
        notifyAll();
    }

    /** What JShell's engine calls, in a new thread of the group that it can stop. */
    static void entry() {
        Run run = next;
        Engine engine = instance;
        Thread.setDefaultUncaughtExceptionHandler(Engine::threadFailed);
        synchronized (engine) {
            run.isEntered = true;
        }
        Throwable failure = null;
        try {
            Object result = run.method.invoke(null);
            if (run.wantsValue && result != null)
                run.value = Values.bundle(result);
        } catch (InvocationTargetException e) {
            failure = e.getCause();
        } catch (Throwable e) {
            failure = e;
        }
        engine.finish(run, failure);
    }

    /** A value as JShell shows it. */
    static String text(Object value) {
        return valueString(value);
    }

    private static void threadFailed(Thread thread, Throwable e) {
        if (e instanceof ThreadDeath)
            return;
        StringWriter trace = new StringWriter();
        e.printStackTrace(new PrintWriter(trace));
        System.err.print("Exception in thread \"" + thread.getName() + "\" " + trace);
    }

    @Override
    public void stop() {
        interrupt();
    }
}
