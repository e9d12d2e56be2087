"""Manual pages, in the man macros of roff."""
import re


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("µ", "\\(mc").replace("…", "...")
    return "\n".join("\\&" + line if line.startswith((".", "'")) else line for line in text.split("\n"))


def bold_names(text):
    """Options and `quoted` words in bold."""
    text = re.sub(r"`([^`]*)`", lambda m: f"\\fB{m.group(1)}\\fP", text)
    return re.sub(r"(?<![\w\\-])(\\-(?:\\-)?[a-z](?:[a-z]|\\-)*)", r"\\fB\1\\fP", text)


def prose(text):
    """Sentences begin on lines of their own, as roff wants it for the space between them."""
    return bold_names(re.sub(r"(?<=[.:])  +", "\n", escape(text.strip())))


def plain(markdown):
    """Links become their text."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", markdown)


def synopsis(line):
    words = escape(line).split(" ")
    return f".RS 0\n.nh\n.B {' '.join(words[:2])}\n{bold_names(' '.join(words[2:]))}\n.hy\n.RE"


def entry(head, what):
    return f".TP\n{bold_names(escape(head)) if head.startswith('-') else '.B ' + escape(head)}\n{prose(what)}"


def section(title, code):
    """Declarations of C, as they stand."""
    code = re.sub(r"^SG_API ", "", code.strip("\n"), flags=re.M)
    return f".SS {escape(title[0].upper() + title[1:])}\n.nf\n{escape(code)}\n.fi"


def paragraphs(lines):
    """The explanation of a usage text; an indented line stays a line of its own."""
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        if block.startswith("  "):
            yield ".PP\n.nf\n" + escape(block) + "\n.fi"
        elif block:
            yield ".PP\n" + prose(" ".join(block.split("\n")))


def command(usage, title=True):
    parts = [f".SS {usage.name}"] if title else []
    parts += [".PP\n" + "\n.PP\n".join(synopsis(line) for line in usage.synopses)] if title else []
    parts += paragraphs(usage.lines)
    parts += [entry(head, what) for head, what in usage.entries]
    return "\n".join(parts)


def setting(names, kinds, option, default, what):
    """One row of the table of settings; several names may share it."""
    parts = [".TP\n" + "\n.TQ\n".join(f".B {name}" for name in names)]
    parts.append(prose(plain(what[:1].upper() + what[1:].rstrip(".")) + "."))
    parts.append(".br\n" + prose(f"Value: {kinds}."))
    parts.append(prose(f"Default: {plain(default)}."))
    if option:
        parts.append(prose(f"Option of serve: {plain(option)}."))
    return "\n".join(parts)
