"""The result of `make bench` as a page, a chart and the figures in README.md."""
import re

import svg

BEGIN, END = "<!-- figures: from docs/benchmarks.json, by tools/draw -->", "<!-- end of figures -->"

# Sections of the page, and which rows they have: the first that matches takes a row.
SECTIONS = [
    ("Create and run", r"mounts|create →|POST|exec|commands\.run|kill,|podman run|crun|buildah|floor: (sandbox|vfork)"),
    ("Pause, resume, snapshots, forks", r".*(pause|resume|\bfork|snapshot|criu|podman)"),
    ("Many sandboxes", r".*(alive|idle sandboxes|creates at once|full lives)"),
    ("Proxy", r".*(proxied|HTTP/2|percentile|WebSocket|over TLS)"),
    ("Files and output", r".*(upload|download|output|meanwhile|streams)"),
    ("Code interpreter", r"code:"),
    ("The server", r""),
]
# Panels of the chart: title, whether more is better, and bars: (label, row, "value" or "floor" of it).
PANELS = [
    ("A new sandbox says hello", False, [
        ("Sandglass", r"create → first output, raw HTTP", "value"),
        ("crun run", r"crun run", "value"),
        ("podman run", r"podman run", "value"),
        ("buildah run", r"buildah run", "value")]),
    ("Resume a Python server of 50 MB", False, [
        ("Sandglass, warm", r"resume from the warm tier", "value"),
        ("Sandglass", r"resume → first command answered", "value"),
        ("plain CRIU", r"resume → first command answered", "floor"),
        ("podman", r"podman container restore", "value")]),
    ("Pause a Python server of 50 MB", False, [
        ("Sandglass", r"pause, envd \+ python of 50 MB", "value"),
        ("plain CRIU", r"pause, envd \+ python of 50 MB", "floor"),
        ("podman", r"podman container checkpoint", "value")]),
    ("Upload of a large file", True, [
        ("Sandglass", r"upload of \d+ MiB", "value"),
        ("nginx", r"upload of \d+ MiB", "floor")]),
    ("Small requests to a port, one core", True, [
        ("Sandglass", r"proxied small requests, one core", "value"),
        ("nginx", r"proxied small requests, one core", "floor")]),
    ("The same over HTTP/2, 100 streams", True, [
        ("Sandglass", r"HTTP/2, requests/s, 1 connection, 100 streams", "value"),
        ("nginx", r"HTTP/2, requests/s, 1 connection, 100 streams", "floor")]),
]
# What README says: sentences with figures of rows; left out where one of them was not measured.
CLAIMS = [
    ("A new sandbox has run its first command after {0}.", [("create → first output, raw HTTP", "value")]),
    ("`podman run` takes {0} as long for the same, `crun run` {1}.", [("podman run", "ratio"), ("crun run", "ratio")]),
    ("A command in a running sandbox takes {0}, with the HTTP request.", [("exec /bin/true, raw HTTP", "value")]),
    ("A paused sandbox with 50 MB in use has resumed and run a command after {0}, or {1} while it is kept warm.",
     [("resume → first command answered", "value"), ("resume from the warm tier", "value")]),
    ("An idle sandbox takes {0} of memory.", [(r"memory of each of \d+ idle sandboxes", "value")]),
    ("Requests to a port of a sandbox pass the proxy at {0} the rate of nginx, on one core each.", [("proxied small requests, one core", "ratio")]),
]


def three_digits(value):
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


def figure(value, unit):
    if unit == "us":
        scale, name = (1e6, "s") if value >= 1e6 else (1e3, "ms") if value >= 1e3 else (1, "µs")
        return f"{three_digits(value / scale) if scale > 1 else round(value)} {name}"
    if unit == "kib":
        return f"{three_digits(value / 1024)} MiB" if value >= 1024 else f"{value:.0f} KiB"
    if unit == "rate":
        return f"{value:,.0f}/s" if value >= 1000 else f"{three_digits(value)}/s"
    return {"mbs": "{:.0f} MB/s", "percent": "{:.2f} %", "count": "{:g}"}[unit].format(value)


def times(ratio):
    return f"{ratio:.2f}×" if ratio < 10 else f"{ratio:.0f}×"


def shown(row, part):
    """"value", "floor" or "ratio" of a row as people read it; None: not measured."""
    if row is None or row.get(part) is None:
        return None
    return times(row[part]) if part == "ratio" else figure(row[part], row["unit"])


def find(result, pattern):
    return next((row for row in result["rows"] if re.match(pattern, row["name"])), None)


def is_whole(result):
    return not result.get("quick") and not result.get("parts")


def machine(result):
    m = result["machine"]
    return f"{m['cpus']} cores ({m['cpu']}), {m['memoryMB'] / 1024:.0f} GiB of memory, Linux {m['kernel']}"


# ---- docs/benchmarks.md

def table(rows):
    yield "| what | measured | compared with | ratio | goal | |"
    yield "|---|---:|---|---:|---|---|"
    for row in rows:
        beside = f"{shown(row, 'floor')} {row['floorName']}" if row.get("floor") is not None else ""
        met = {True: "met", False: "**not met**", None: ""}[row.get("met")]
        cells = [row["name"], shown(row, "value") or "not measured", beside, shown(row, "ratio") or "", f"{row.get('goal') or ''} {met}".strip(), row.get("note") or ""]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def page(result):
    yield "# Benchmarks"
    yield ""
    yield "Made by `make bench`; the figures of the last run are in [benchmarks.json](benchmarks.json). Times are medians. A ratio of 1.5× says"
    yield "that the measured figure is one and a half times the figure that it is compared with. A *floor* is the least that the"
    yield "kernel needs for the same: plain system calls, or plain CRIU. Other programs get the same file system, on the same machine."
    yield ""
    yield "![Sandglass beside other programs](benchmarks.svg)"
    yield ""
    if not is_whole(result):
        yield "This was a quick or partial run: fewer rounds, more noise."
        yield ""
    yield "| | |"
    yield "|---|---|"
    yield f"| date | {result['when'][:10]} |"
    yield f"| machine | {machine(result)} |"
    yield f"| system | {result['machine'].get('system', '?')}, cgroups {result['machine'].get('cgroups', '?')} |"
    peers = [f"{name} {version}" if version else f"{name}: not installed" for name, version in result.get("peers", {}).items()]
    yield f"| compared with | {', '.join(peers)} |"
    rest = list(result["rows"])
    for title, pattern in SECTIONS:
        rows = [row for row in rest if re.match(pattern, row["name"])]
        rest = [row for row in rest if row not in rows]
        if rows:
            yield from ("", f"## {title}", *table(rows))
    yield ""


# ---- docs/benchmarks.svg

WIDTH, COLUMN, LABEL, VALUE, BAR = 924, 446, 126, 90, 18


def panel(result, x, y, title, is_rate, bars):
    found = [(label, find(result, pattern), part) for label, pattern, part in bars]
    found = [(label, row, part) for label, row, part in found if shown(row, part)]
    if not found:
        return []
    most = max(row[part] for _, row, part in found)
    room = COLUMN - 32 - LABEL - VALUE
    parts = [svg.text(x, y, title, "head f-ink"), svg.text(x, y + 20, "more is better" if is_rate else "less is better", "small f-soft")]
    for i, (label, row, part) in enumerate(found):
        top = y + 34 + i * (BAR + 10)
        is_ours = label.startswith("Sandglass")
        length = max(2, room * row[part] / most)
        parts.append(svg.text(x, top + 13, label, "f-ink" if is_ours else "f-soft"))
        parts.append(svg.rect(x + LABEL, top, length, BAR, "f-first" if is_ours else "f-third", min(3, length / 2)))
        parts.append(svg.text(x + LABEL + length + 8, top + 13, shown(row, part), "f-ink" if is_ours else "f-soft"))
    return parts


def chart(result):
    parts, y = [], 44
    for left, right in zip(PANELS[::2], PANELS[1::2]):
        for x, (title, is_rate, bars) in ((32, left), (32 + COLUMN, right)):
            parts += panel(result, x, y, title, is_rate, bars)
        y += 34 + max(len(left[2]), len(right[2])) * (BAR + 10) + 38
    parts.append(svg.text(32, y - 6, f"{result['when'][:10]}; {machine(result)}", "small f-soft"))
    return svg.picture(WIDTH, y + 18, "Benchmarks", "Bars: Sandglass beside other programs on the same machine; docs/benchmarks.md has the figures.", parts)


# ---- README.md

def claims(result):
    yield BEGIN
    yield "![Sandglass beside crun, podman, buildah, plain CRIU and nginx](docs/benchmarks.svg)"
    yield ""
    for sentence, wanted in CLAIMS:
        figures = [shown(find(result, pattern), part) for pattern, part in wanted]
        if all(figures) and is_whole(result):  # nothing is claimed from a quick run
            yield "- " + sentence.format(*figures)
    yield END


def readme(text, result):
    """README.md with the figures of this result."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md has no {BEGIN} and {END}")
    return before + "\n".join(claims(result)) + after
