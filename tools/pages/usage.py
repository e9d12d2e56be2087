"""A usage text in parts: synopses, explanation, options."""
import re
from dataclasses import dataclass, field

ENTRY = re.compile(r"^  (\S+(?: \S+)*)  +(\S.*)$")
VALUE = r"[A-Z]+(?:[:=][A-Z]+|\[:[A-Z]+\])*"
OPTION = re.compile(rf"(?<![\w-])(--?[a-z][a-z-]*)(?:[ =]({VALUE}))?")
COMMON = {"--data": "data directory of the server", "--json": "print JSON", "--help": "explain the command"}


@dataclass
class Option:
    name: str  # the long form, or the only one
    short: str = ""
    value: str = ""  # "": takes none
    what: str = ""


@dataclass
class Usage:
    name: str
    summary: str
    synopses: list = field(default_factory=list)
    lines: list = field(default_factory=list)  # of the explanation
    entries: list = field(default_factory=list)  # (option or word, explanation)
    options: dict = field(default_factory=dict)  # by name

    def words(self):
        """What may stand first after the command: `restore` in "sandglass lost restore ID"."""
        found = []
        for line in self.synopses:
            first = (line.split() + ["", ""])[2]
            found += [word for word in first.split("|") if re.fullmatch(r"[a-z]+", word)]
        return list(dict.fromkeys(found))

    def arguments(self):
        """Names of what follows the options: SANDBOX, SNAPSHOT, COMMAND."""
        text = " ".join(OPTION.sub(" ", line) for line in self.synopses)
        return list(dict.fromkeys(re.findall(r"\b[A-Z]{2,}\b", text)))


def add_options(usage, text, what=""):
    found = OPTION.findall(text)
    names = [name for name, _ in found]
    value = next((value for _, value in found if value), "")
    longs = [name for name in names if name.startswith("--") and len(name) > 2]
    shorts = [name for name in names if not name.startswith("--")]
    name = (longs or shorts)[0]
    known = usage.options.setdefault(name, Option(name))
    known.short = known.short or (shorts[0] if longs and shorts else "")
    known.value = known.value or value
    known.what = known.what or what or COMMON.get(name, "")


def parse(name, summary, text):
    usage = Usage(name, summary)
    for line in text.splitlines():
        entry = ENTRY.match(line)
        if line.startswith(("usage: ", "       sandglass ")) and not usage.lines and not usage.entries:
            usage.synopses.append(line.removeprefix("usage: ").strip())
        elif entry:
            usage.entries.append((entry.group(1), entry.group(2)))
        elif usage.entries and line.startswith("    "):
            head, what = usage.entries[-1]
            usage.entries[-1] = (head, f"{what} {line.strip()}")
        else:
            usage.lines.append(line)
    for head, what in usage.entries:
        if head.startswith("-"):
            add_options(usage, head, what)
    known = {option.short for option in usage.options.values() if option.short}
    for line in usage.synopses:
        for match in OPTION.finditer(line):
            if match.group(1) not in known and match.group(1) != "--":
                add_options(usage, match.group(0))
    add_options(usage, "--help")
    return usage
