package sandglass.kernel;

import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.regex.Pattern;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.Diag;
import jdk.jshell.EvalException;
import jdk.jshell.JShellException;
import jdk.jshell.UnresolvedReferenceException;

/** Why a cell failed, in the words of Jupyter's error messages. */
record Failure(String name, String value, String traceback) {
    /** Of a long trace only so many frames are shown. */
    private static final int FRAMES_FIRST = 30, FRAMES_LAST = 10;
    /** JShell compiles declarations as members of classes with such names. */
    private static final Pattern WRAPPERS = Pattern.compile("REPL\\.\\$JShell\\$\\w+\\$");

    static Failure interrupted(boolean leftBehind) {
        String value = "the execution was interrupted";
        if (leftBehind)
            value += "; its thread did not stop and goes on in the background";
        return new Failure("java.lang.InterruptedException", value, "java.lang.InterruptedException: " + value);
    }

    /** The compiler refused a snippet that begins at the given place of the cell. */
    static Failure rejected(List<Diag> diags, String code, int at, String cell) {
        StringBuilder traceback = new StringBuilder();
        String first = null;
        for (Diag diag : diags) {
            if (!diag.isError())
                continue;
            if (first == null)
                first = message(diag);
            else
                traceback.append('\n');
            describe(traceback, diag, code, at, cell);
        }
        if (first == null)
            first = "the code is not valid";
        return new Failure("CompilationException", first, traceback.isEmpty() ? first : traceback.toString());
    }

    static String message(Diag diag) {
        StringBuilder message = new StringBuilder();
        for (String line : diag.getMessage(null).split("\\R"))
            if (!line.stripLeading().startsWith("location:"))
                message.append(message.isEmpty() ? "" : "\n").append(line);
        return message.toString();
    }

    /** The place, the message, the line of code, and marks below what is wrong. */
    private static void describe(StringBuilder text, Diag diag, String code, int at, String cell) {
        int start = clamp(at + diag.getStartPosition(), code);
        int end = Math.max(start, clamp(at + diag.getEndPosition(), code));
        if (diag.getPosition() == Diag.NOPOS) {
            text.append(cell).append(": ").append(message(diag));
            return;
        }
        int lineStart = code.lastIndexOf('\n', start - 1) + 1;
        int lineEnd = code.indexOf('\n', start);
        if (lineEnd < 0)
            lineEnd = code.length();
        long line = 1 + code.substring(0, start).chars().filter(c -> c == '\n').count();
        text.append(cell).append(", line ").append(line).append(": ").append(message(diag)).append('\n');
        text.append(code, lineStart, lineEnd).append('\n');
        for (int i = lineStart; i < start; i++)
            text.append(code.charAt(i) == '\t' ? '\t' : ' ');
        text.append("^".repeat(Math.max(1, Math.min(end, lineEnd) - start)));
    }

    private static int clamp(long at, String code) {
        return (int) Math.max(0, Math.min(at, code.length()));
    }

    /** The user's code threw an exception. */
    static Failure thrown(JShellException e, Map<String, Evaluator.Place> places, Function<DeclarationSnippet, String> missing) {
        StringBuilder traceback = new StringBuilder();
        String name = name(e);
        String value = value(e, missing);
        int depth = 0;
        for (Throwable at = e; at instanceof JShellException part && depth < 20; at = at.getCause(), depth++) {
            traceback.append(depth > 0 ? "\nCaused by: " : "").append(name(part));
            if (!value(part, missing).isEmpty())
                traceback.append(": ").append(value(part, missing));
            frames(traceback, part.getStackTrace(), places);
        }
        return new Failure(name, value, traceback.toString());
    }

    private static String name(JShellException e) {
        if (e instanceof EvalException thrown)
            return WRAPPERS.matcher(thrown.getExceptionClassName()).replaceAll("");
        return e instanceof UnresolvedReferenceException ? "UnresolvedReferenceException" : e.getClass().getName();
    }

    private static String value(JShellException e, Function<DeclarationSnippet, String> missing) {
        if (e instanceof UnresolvedReferenceException unresolved)
            return unresolved.getSnippet().name() + " cannot be used until this is declared: "
                    + missing.apply(unresolved.getSnippet());
        return e.getMessage() != null ? e.getMessage() : "";
    }

    /** The frames down to the last one of the user's code; what called that one is the kernel. */
    private static void frames(StringBuilder text, StackTraceElement[] frames, Map<String, Evaluator.Place> places) {
        int count = frames.length;
        while (count > 0 && place(frames[count - 1], places) == null)
            count--;
        for (int i = 0; i < count; i++) {
            if (i == FRAMES_FIRST && count > FRAMES_FIRST + FRAMES_LAST) {
                text.append("\n    ... ").append(count - FRAMES_FIRST - FRAMES_LAST).append(" more");
                i = count - FRAMES_LAST;
            }
            StackTraceElement frame = frames[i];
            Evaluator.Place place = place(frame, places);
            text.append("\n    at ");
            if (place == null) {
                text.append(frame);
                continue;
            }
            String method = frame.getMethodName().startsWith("do_it$") ? "" : frame.getMethodName();
            String owner = WRAPPERS.matcher(frame.getClassName()).replaceAll("");
            if (!method.isEmpty())
                text.append(owner.isEmpty() ? "" : owner + ".").append(method).append(' ');
            text.append('(').append(place.cell());
            if (frame.getLineNumber() > 0)
                text.append(", line ").append(place.line() + frame.getLineNumber() - 1);
            text.append(')');
        }
    }

    private static Evaluator.Place place(StackTraceElement frame, Map<String, Evaluator.Place> places) {
        String file = frame.getFileName();
        return file != null && file.startsWith("#") ? places.get(file.substring(1)) : null;
    }
}
