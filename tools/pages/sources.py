"""What the program says about itself: its commands and their usage texts, and its settings, read from the sources."""
import os
import re

COMMAND = re.compile(r'\{"(\w+)",\s*\w+_main,\s*(\w+_usage),\s*((?:"[^"]*"\s*)+)\}')
USAGE = re.compile(r"const char (\w+_usage)\[\] =(.*?);\n", re.S)
DEFINE = re.compile(r"^#define (\w+) (.+?)\s*(?:/\*.*)?$", re.M)
TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\w+)')
KEY = re.compile(r"^\s+(TEXT|BOOL|U32)\((\w+)(?:, ([^,\n]+), ([^\n]+))?\),$", re.M)
ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


class Fault(Exception):
    """The sources are not what this reader expects: better no page than a wrong one."""


class Sources:
    def __init__(self, root):
        self.root = root
        self.read_paths = []  # for the build: what the pages depend on
        self.texts = {path: self.read(path) for path in self.c_files()}
        self.defines = {}
        for text in self.texts.values():
            self.defines.update(DEFINE.findall(text))

    def c_files(self):
        """The folders that have commands and settings."""
        yield "src/main.c"
        for folder in ("src/cli", "src/serve", "src/model"):
            for place, _, names in sorted(os.walk(os.path.join(self.root, folder))):
                for name in sorted(names):
                    if name.endswith((".c", ".h")):
                        yield os.path.relpath(os.path.join(place, name), self.root)

    def read(self, path):
        full = os.path.join(self.root, path)
        self.read_paths.append(full)
        with open(full, encoding="utf-8") as f:
            return f.read()

    def string(self, tokens):
        """A C string: literals and macros, one after the other."""
        text = ""
        for literal, name in TOKEN.findall(tokens):
            if name:
                if name not in self.defines:
                    raise Fault(f"usage texts: what is {name}?")
                text += self.string(self.defines[name])
            else:
                text += re.sub(r"\\(.)", lambda m: ESCAPES[m.group(1)], literal)
        return text

    def commands(self):
        """Each command of the list, as (name, summary, usage text)."""
        usages = {name: tokens for text in self.texts.values() for name, tokens in USAGE.findall(text)}
        found = [(name, self.string(summary), self.string(usages[usage])) for name, usage, summary in COMMAND.findall(self.texts["src/main.c"])]
        if not found:
            raise Fault("src/main.c: no commands found")
        return found

    def number(self, expression):
        for name in re.findall(r"[A-Z]\w+", expression):
            value = {"UINT32_MAX": "0xffffffff"}.get(name) or self.defines.get(name)
            if value is None:
                raise Fault(f"settings: what is {name}?")
            expression = expression.replace(name, f"({value.rstrip('u')})")
        if not re.fullmatch(r"[\dxa-f+\-*() u]+", expression):
            raise Fault(f"settings: {expression} is no number")
        return int(eval(expression))  # digits and operators only, from our own source

    def settings(self):
        """Each setting of the configuration file, as {name: what its value may be}."""
        kinds = {}
        for kind, name, least, most in KEY.findall(self.texts["src/model/conf.c"]):
            if kind == "U32":
                kinds[name] = f"a whole number from {self.number(least)} to {self.number(most)}"
            else:
                kinds[name] = "text" if kind == "TEXT" else "true or false"
        if not kinds:
            raise Fault("src/model/conf.c: no settings found")
        return kinds

    def setting_rows(self):
        """The table of settings in docs/server.md, as (names, option, default, explanation)."""
        table = self.read("docs/server.md").split("| key | option | default | |", 1)[-1].split("\n\n", 1)[0]
        for line in table.splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if len(cells) != 4:
                raise Fault(f"docs/server.md: {line}: not four columns")
            yield re.findall(r"`(\w+)`", cells[0]), *cells[1:]
