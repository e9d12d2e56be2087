"""Loads ipykernel without the parts that this kernel never uses: a third less memory, and a quicker start.

No client of the code interpreter can reach the debugger (debugpy) or a terminal (prompt_toolkit), and completion works without
jedi. Code of the user can import all of them afterwards.
"""

import sys
import types
from contextlib import contextmanager


@contextmanager
def light():
    """While this lasts, the parts look as if they were not installed."""
    terminal = types.ModuleType("IPython.terminal.embed")
    terminal.embed = _embed
    absent = {"debugpy": None, "jedi": None, "IPython.terminal.embed": terminal}
    sys.modules.update(absent)
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)
        # A later import finds the real module.
        package = sys.modules.get("IPython.terminal")
        if package is not None and getattr(package, "embed", None) is terminal:
            del package.embed


def _embed(*args, **kwargs):
    """IPython.embed: loads the terminal when somebody asks for it."""
    from IPython.terminal.embed import embed

    return embed(*args, **kwargs)
