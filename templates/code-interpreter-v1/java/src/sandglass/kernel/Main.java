package sandglass.kernel;

import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.PrintStream;
import java.nio.file.Path;
import java.util.HexFormat;

/** A Jupyter kernel for Java on the JShell of the JDK. The argument is the connection file. */
public final class Main {
    /** Threads of the kernel are apart from threads of the user's code. */
    static final ThreadGroup KERNEL_THREADS = Thread.currentThread().getThreadGroup();
    /** The log of the kernel: the real standard error, not that of the user's code. */
    private static final PrintStream LOG = new PrintStream(new FileOutputStream(FileDescriptor.err), true);

    private Main() {
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 1 && arguments[0].equals("--train")) {
            Training.run();
            return;
        }
        if (arguments.length != 1) {
            LOG.println("usage: java -jar kernel.jar CONNECTION_FILE");
            System.exit(2);
        }
        Kernel kernel;
        try {
            kernel = new Kernel(Connection.read(Path.of(arguments[0])), random());
        } catch (IOException e) {
            LOG.println("java kernel: " + e.getMessage());
            System.exit(1);
            return;
        }
        sun.misc.Signal.handle(new sun.misc.Signal("INT"), signal -> kernel.interrupt());
        Runtime.getRuntime().addShutdownHook(new Thread(KERNEL_THREADS, kernel::finish));
        kernel.run();
    }

    /** Ends the process, also when the user's code refuses to. */
    static void exit(int status) {
        Server.start("exit", () -> {
            pause(3000);
            Runtime.getRuntime().halt(status);
        });
        System.exit(status);
    }

    static void log(String line) {
        LOG.println("java kernel: " + line);
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Random digits without the random generators of the JDK, which would make the start slower. */
    private static String random() throws IOException {
        try (InputStream in = new FileInputStream("/dev/urandom")) {
            return HexFormat.of().formatHex(in.readNBytes(16));
        }
    }
}
