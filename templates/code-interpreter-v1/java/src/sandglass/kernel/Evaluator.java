package sandglass.kernel;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import jdk.jshell.DeclarationSnippet;
import jdk.jshell.JShell;
import jdk.jshell.Snippet;
import jdk.jshell.SnippetEvent;
import jdk.jshell.SourceCodeAnalysis;
import jdk.jshell.SourceCodeAnalysis.Completeness;
import jdk.jshell.SourceCodeAnalysis.CompletionInfo;

/** Evaluates cells: splits a cell into snippets and gives them to JShell one after the other, until one fails. */
final class Evaluator {
    private static final List<String> IMPORTS = List.of("java.io.*", "java.math.*", "java.net.*", "java.nio.file.*", "java.util.*",
            "java.util.concurrent.*", "java.util.function.*", "java.util.prefs.*", "java.util.regex.*", "java.util.stream.*",
            "sandglass.Display", "static sandglass.Display.display");

    /** What became of a cell: a value by MIME type, a failure, or neither. */
    record Outcome(Map<String, Object> value, Failure failure) {
    }

    /** What a snippet needs to name its lines: the cell and the place in the cell. */
    record Place(String cell, int line) {
    }

    private final Engine engine = new Engine();
    private final JShell shell;
    private final SourceCodeAnalysis analysis;
    private final Map<String, Place> places = new HashMap<>();

    Evaluator() {
        shell = JShell.builder().executionEngine(engine, Map.of()).compilerOptions("-proc:none").build();
        analysis = shell.sourceCodeAnalysis();
        for (String name : IMPORTS)
            shell.eval("import " + name + ";");
        String classPath = System.getenv("CLASSPATH");
        if (classPath != null)
            for (String entry : classPath.split(":"))
                if (!entry.isEmpty())
                    shell.addToClasspath(entry);
    }

    void interrupt() {
        engine.interrupt();
    }

    boolean isInterrupted() {
        return engine.isInterrupted();
    }

    /** cell: what the cell is called in error messages. */
    Outcome run(String code, String cell, boolean wantsValue) {
        engine.begin();
        List<DeclarationSnippet> declared = new ArrayList<>();
        Map<String, Object> value = null;
        int at = 0;
        while (true) {
            at = skipSpace(code, at);
            String rest = code.substring(at);
            CompletionInfo info = analysis.analyzeCompletion(rest);
            if (info.completeness() == Completeness.EMPTY)
                break;
            boolean whole = info.completeness().isComplete();
            String source = whole ? info.source() : rest;
            int next = whole ? code.length() - info.remaining().length() : code.length();
            if (engine.isInterrupted())
                return new Outcome(null, Failure.interrupted(false));
            boolean isLast = isBlank(code.substring(next));
            engine.prepare(wantsValue && isLast);
            for (SnippetEvent event : shell.eval(source)) {
                Snippet snippet = event.snippet();
                if (event.causeSnippet() == null)
                    places.put(snippet.id(), new Place(cell, lineOf(code, at)));
                Failure failure = failure(event, code, at, cell);
                if (failure != null)
                    return new Outcome(null, failure);
                if (event.causeSnippet() == null && snippet instanceof DeclarationSnippet declaration)
                    declared.add(declaration);
                if (event.causeSnippet() == null && isLast && isExpression(snippet))
                    value = engine.value();
            }
            if (next <= at)
                break;
            at = next;
        }
        if (engine.isInterrupted())
            return new Outcome(null, Failure.interrupted(engine.isLeftBehind()));
        warn(declared);
        return new Outcome(value, null);
    }

    private Failure failure(SnippetEvent event, String code, int at, String cell) {
        if (engine.isInterrupted())
            return Failure.interrupted(engine.isLeftBehind());
        if (event.exception() != null)
            return Failure.thrown(event.exception(), places, this::missing);
        if (event.causeSnippet() != null || event.status() == Snippet.Status.VALID)
            return null;
        Snippet snippet = event.snippet();
        boolean waits = snippet instanceof DeclarationSnippet declaration
                && shell.unresolvedDependencies(declaration).findAny().isPresent();
        if (waits)
            return null;
        Failure failure = Failure.rejected(shell.diagnostics(snippet).toList(), code, at, cell);
        if (event.status() != Snippet.Status.REJECTED)
            forget(snippet);
        return failure;
    }

    /**
     * A declaration that was accepted and that the compiler could not write, like one with a text too long for a class file. JShell
     * would keep it, and the compiler would fail with all that follows. A change of the class path makes JShell take a new compiler.
     */
    private void forget(Snippet snippet) {
        shell.drop(snippet);
        shell.addToClasspath(System.getProperty("java.class.path"));
    }

    /** JShell accepts declarations that need names which come later. Names that never came are told of. */
    private void warn(List<DeclarationSnippet> declared) {
        for (DeclarationSnippet snippet : declared) {
            Snippet.Status status = shell.status(snippet);
            if (status != Snippet.Status.RECOVERABLE_DEFINED && status != Snippet.Status.RECOVERABLE_NOT_DEFINED)
                continue;
            System.err.print(snippet.name() + " cannot be used until this is declared: " + missing(snippet) + "\n");
        }
    }

    private String missing(DeclarationSnippet snippet) {
        return shell.unresolvedDependencies(snippet).collect(Collectors.joining(", "));
    }

    /** Of the last snippet: whether the cell shows its value. */
    private static boolean isExpression(Snippet snippet) {
        return snippet.kind() == Snippet.Kind.EXPRESSION
                || snippet.subKind() == Snippet.SubKind.TEMP_VAR_EXPRESSION_SUBKIND;
    }

    private boolean isBlank(String code) {
        return code.isBlank() || analysis.analyzeCompletion(code).completeness() == Completeness.EMPTY;
    }

    private static int skipSpace(String code, int at) {
        while (at < code.length() && Character.isWhitespace(code.charAt(at)))
            at++;
        return at;
    }

    private static int lineOf(String code, int at) {
        return 1 + (int) code.substring(0, at).chars().filter(c -> c == '\n').count();
    }

    /** "complete", "incomplete" or "invalid", as Jupyter asks. */
    String completeness(String code) {
        int at = 0;
        while (true) {
            CompletionInfo info = analysis.analyzeCompletion(code.substring(at));
            switch (info.completeness()) {
                case EMPTY:
                    return "complete";
                case UNKNOWN:
                    return "invalid";
                case DEFINITELY_INCOMPLETE:
                    return "incomplete";
                default:
                    int next = code.length() - info.remaining().length();
                    if (next <= at || info.remaining().isBlank())
                        return "complete";
                    at = next;
            }
        }
    }

    /** Where the snippet with the cursor begins. */
    private int snippetStart(String code, int cursor) {
        int at = 0;
        while (true) {
            String rest = code.substring(at, cursor);
            CompletionInfo info = analysis.analyzeCompletion(rest);
            if (!info.completeness().isComplete() || info.remaining().isBlank())
                return at;
            int next = cursor - info.remaining().length();
            if (next <= at)
                return at;
            at = next;
        }
    }

    record Completion(List<String> matches, int from) {
    }

    Completion complete(String code, int cursor) {
        int start = snippetStart(code, cursor);
        int[] anchor = {cursor - start};
        List<String> matches = analysis.completionSuggestions(code.substring(start), cursor - start, anchor).stream()
                .map(SourceCodeAnalysis.Suggestion::continuation).distinct().toList();
        return new Completion(matches, start + anchor[0]);
    }

    /** What is known of the thing at the cursor; empty if nothing is. */
    String inspect(String code, int cursor) {
        int end = cursor;
        while (end < code.length() && Character.isJavaIdentifierPart(code.charAt(end)))
            end++;
        String upToName = code.substring(0, end);
        int start = snippetStart(upToName, end);
        List<SourceCodeAnalysis.Documentation> found = new ArrayList<>();
        for (String suffix : List.of("", "(")) {
            String asked = upToName.substring(start) + suffix;
            found.addAll(analysis.documentation(asked, asked.length(), true));
        }
        return found.stream().map(d -> d.signature() + (d.javadoc() != null ? "\n" + d.javadoc() : "")).distinct()
                .collect(Collectors.joining("\n\n"));
    }
}
