"""The table of kernels in docs/hosts.md: one row for each kernel, init and kind of control groups that the core suite ran on."""
import re
import time

BEGIN, END = "<!-- written by tools/test-kernels -->", "<!-- end -->"
GROUPS = ["start", "create", "commands", "files", "preview", "limits", "network", "pause", "snapshot", "fork", "rollback", "files only", "kill -9", "end"]
HEAD = ["kernel", "distribution", "init", "cgroups", *GROUPS, "date"]


def row(kernel, options, count):
    marks = ["yes" if count.groups.get(group) else "**no**" if group in count.groups else "–" for group in GROUPS]
    return [kernel["version"], kernel["distribution"], "systemd" if options["init"] == "systemd" else "none", options["cgroups"], *marks,
            time.strftime("%Y-%m-%d", time.gmtime())]


def series(version):
    """6.1 of 6.1.0-42-amd64: a newer kernel of the same series takes the row of the older one."""
    return re.match(r"\d+\.\d+", version).group(0)


def identity(cells):
    return series(cells[0]), cells[1], cells[2], cells[3]


def order(cells):
    return [int(part) for part in series(cells[0]).split(".")] + cells[1:4]


def merge(text, cells):
    """The page with this row in its table, in place of the row about the same kind of host."""
    head, rest = text.split(BEGIN, 1)
    old, tail = rest.split(END, 1)
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in old.strip().splitlines()[2:]]
    rows = [found for found in rows if len(found) == len(HEAD) and identity(found) != identity(cells)] + [cells]
    lines = ["| " + " | ".join(found) + " |" for found in [HEAD, ["---"] * len(HEAD), *sorted(rows, key=order)]]
    return head + BEGIN + "\n" + "\n".join(lines).replace("| --- ", "|---").replace("--- |", "---|") + "\n" + END + tail


def write(path, cells):
    with open(path, encoding="utf-8") as page:
        text = page.read()
    with open(path, "w", encoding="utf-8") as page:
        page.write(merge(text, cells))
