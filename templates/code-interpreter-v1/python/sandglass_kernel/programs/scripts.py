"""Scripts inside code: %%bash, %%sh, %%script and the like."""

import subprocess
import sys

from IPython.core import magic_arguments
from IPython.core.magic import cell_magic, magics_class
from IPython.core.magics.script import ScriptMagics, script_args
from IPython.utils.process import arg_split

from .transfer import transfer


@magics_class
class Scripts(ScriptMagics):
    """IPython's magics, which read output in larger pieces, keep letters of several bytes whole, and end with the code."""

    @magic_arguments.magic_arguments()
    @script_args
    @cell_magic("script")
    def shebang(self, line, cell):
        """Run a cell via a shell command: the `%%script` line names the program, the rest of the cell is its input."""
        args, command = self.shebang.parser.parse_known_args(arg_split(line, posix=True))
        if args.bg:
            return super().shebang(line, cell)
        if not cell.endswith("\n"):
            cell += "\n"
        self._run(args, command, cell.encode("utf-8", "replace"))

    def _run(self, args, command, script):
        sys.stdout.flush()
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
            )
        except FileNotFoundError:
            print(f"Couldn't find program: {command[0]!r}")
            return
        kept_output, kept_errors = [], []
        with process.stdout, process.stderr:
            outputs = {
                process.stdout.fileno(): kept_output.append if args.out else sys.stdout.write,
                process.stderr.fileno(): kept_errors.append if args.err else sys.stderr.write,
            }
            transfer(process, outputs, process.stdin, script)
        process.wait()
        for name, texts in ((args.out, kept_output), (args.err, kept_errors)):
            if name:
                self.shell.user_ns[name] = "".join(texts)
        if args.proc:
            self.shell.user_ns[args.proc] = process
        if args.raise_error and process.returncode:
            raise subprocess.CalledProcessError(process.returncode, script)
