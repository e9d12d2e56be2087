"""The visual language of all pictures in docs/: colours for light and dark, text, boxes, lines.

A picture has a background of its own, so it is legible on any page; where a viewer asks for dark, the colours change.
"""
from xml.sax.saxutils import escape

FONT = "system-ui, -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif"
# name: (light, dark)
COLOURS = {
    "page": ("#ffffff", "#0d1117"),
    "panel": ("#f6f8fa", "#161b22"),
    "border": ("#d0d7de", "#30363d"),
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9198a1"),
    "first": ("#0969da", "#4493f8"),
    "second": ("#bc4c00", "#f0883e"),
    "third": ("#8c959f", "#6e7681"),
}
FIXED = f"""text {{ font-family: {FONT}; font-size: 13px }}
.head {{ font-size: 16px; font-weight: 600 }}
.small {{ font-size: 12px }}
.mid {{ text-anchor: middle }}
.end {{ text-anchor: end }}
.line {{ fill: none; stroke-width: 1.5 }}
.thick {{ stroke-width: 3 }}
.edge {{ stroke-width: 2 }}
.dashed {{ stroke-dasharray: 5 4 }}"""


def style():
    def rules(which):
        return " ".join(f".f-{name} {{ fill: {both[which]} }} .s-{name} {{ stroke: {both[which]} }}" for name, both in COLOURS.items())
    return f"<style>\n{FIXED}\n{rules(0)}\n@media (prefers-color-scheme: dark) {{ {rules(1)} }}\n</style>"


def text(x, y, words, classes="f-ink"):
    return f'<text x="{x:g}" y="{y:g}" class="{classes}">{escape(words)}</text>'


def rect(x, y, width, height, classes, radius=8):
    return f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" class="{classes}"/>'


def towards(a, b, most):
    """The point on the way from a to b that is `most` away from a, or half way."""
    length = abs(b[0] - a[0]) + abs(b[1] - a[1])
    part = min(most / length, 0.5) if length else 0
    return a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part


def path(points, classes, radius=10):
    """Straight pieces, with round corners."""
    steps = ["M{:g} {:g}".format(*points[0])]
    for before, corner, after in zip(points, points[1:], points[2:]):
        near, far = towards(corner, before, radius), towards(corner, after, radius)
        steps.append("L{:g} {:g}Q{:g} {:g} {:g} {:g}".format(*near, *corner, *far))
    steps.append("L{:g} {:g}".format(*points[-1]))
    return f'<path d="{"".join(steps)}" class="{classes}"/>'


def arrow_head(tip, before, colour, size=9):
    dx, dy = tip[0] - before[0], tip[1] - before[1]
    length = (dx * dx + dy * dy) ** 0.5
    ux, uy = dx / length * size, dy / length * size
    left = (tip[0] - ux - uy * 0.5, tip[1] - uy + ux * 0.5)
    right = (tip[0] - ux + uy * 0.5, tip[1] - uy - ux * 0.5)
    return '<path d="M{:g} {:g}L{:g} {:g}L{:g} {:g}Z" class="f-{}"/>'.format(*tip, *left, *right, colour)


def picture(width, height, title, description, parts):
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>", f"<desc>{escape(description)}</desc>", style(),
        rect(0.5, 0.5, width - 1, height - 1, "f-page s-border", 12), *parts, "</svg>", ""])
