"""The manual pages: a page written by hand, with `@NAME@` lines where a generated part belongs."""
import re

from . import roff
from .sources import Fault


def settings(sources):
    kinds = sources.settings()
    parts = []
    for names, option, default, what in sources.setting_rows():
        names = [name for name in names if name in kinds]
        if names:
            values = dict.fromkeys(kinds.pop(name) for name in names)
            parts.append(roff.setting(names, "; ".join(values), option, default, what))
    if kinds:
        raise Fault(f"docs/server.md: no row for {', '.join(kinds)}")
    return "\n".join(parts)


SECTION = re.compile(r"^/\* ---- (.*?) ---- \*/$", re.M)
LIBRARY = "include/sandglass.h"


def declarations(sources):
    """The public header as it stands, a section for each of its own; without what only the compiler needs."""
    head, *rest = SECTION.split(sources.read(LIBRARY).split("#ifdef __cplusplus\n}")[0])
    parts = [roff.section("Versions, memory", head.split("#endif\n\n", 1)[1])]
    parts += [roff.section(title, text) for title, text in zip(rest[::2], rest[1::2])]
    return "\n".join(parts)


def page(sources, usages, template, version):
    serve = next(usage for usage in usages if usage.name == "serve")
    parts = {
        "@COMMANDS@": lambda: "\n".join(roff.command(usage) for usage in usages),
        "@LIST@": lambda: "\n".join(roff.entry(usage.name, usage.summary) for usage in usages),
        "@OPTIONS@": lambda: roff.command(serve, title=False),
        "@SETTINGS@": lambda: settings(sources),
        "@DECLARATIONS@": lambda: declarations(sources),
    }
    lines = [parts[line]() if line in parts else line for line in sources.read(template).splitlines()]
    return "\n".join(lines).replace("@VERSION@", version) + "\n"
