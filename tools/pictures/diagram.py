"""Boxes and arrows: a .diagram file becomes an SVG.

A line is a word and its arguments, as in a shell; # begins a comment.  All places are given, none is computed:
  size WIDTH HEIGHT
  title TEXT                                  about TEXT     for readers who do not see the picture
  frame X Y WIDTH HEIGHT TEXT                 a dashed frame with its name in the upper left corner
  box NAME X Y WIDTH HEIGHT LOOK HEAD TEXT... LOOK: plain, or a colour for the border: first, second, third
  tag NAME TEXT                               in the upper right corner of that box; filled where TEXT begins with "root"
  arrow KIND POINT POINT...                   KIND: a key of KINDS.  POINT: X,Y or BOX.SIDE or BOX.SIDE@PLACE on that side
  note X Y ALIGN TEXT...                      ALIGN: start, mid or end
  key X Y KIND TEXT                           a line of the legend; KIND as of an arrow, or the LOOK of a box
"""
import shlex

import svg

KINDS = {  # colour, classes of the line, where arrow heads are
    "command": ("first", "line", "end"),
    "traffic": ("second", "line thick", "end"),
    "fact": ("third", "line dashed", "end"),
    "part": ("third", "line", ""),
    "step": ("soft", "line", "end"),
    "there-and-back": ("soft", "line", "both"),
    "copy": ("soft", "line dashed", "end"),
}
LINE = 18  # from one line of text to the next
MARGIN = 14


class Diagram:
    def __init__(self, name, source):
        self.boxes, self.back, self.front = {}, [], []
        self.title, self.about = "", []
        for number, line in enumerate(source.splitlines(), 1):
            words = shlex.split(line, comments=True)
            try:
                if words:
                    getattr(self, "do_" + words[0])(*words[1:])
            except (AttributeError, KeyError, TypeError, ValueError) as e:
                raise ValueError(f"{name}:{number}: {line.strip()}: {e}") from e

    def svg(self):
        return svg.picture(self.width, self.height, self.title, " ".join(self.about), self.back + self.front)

    def do_size(self, width, height):
        self.width, self.height = int(width), int(height)

    def do_title(self, words):
        self.title = words

    def do_about(self, words):
        self.about.append(words)

    def do_frame(self, x, y, width, height, name):
        x, y = float(x), float(y)
        self.back.append(svg.rect(x, y, float(width), float(height), "line dashed s-border", 12))
        self.front.append(svg.text(x + MARGIN, y + 24, name, "f-soft"))

    def do_box(self, name, x, y, width, height, look, head, *lines):
        x, y, width, height = map(float, (x, y, width, height))
        self.boxes[name] = (x, y, width, height)
        self.front.append(svg.rect(x, y, width, height, f"f-panel {box_border(look)}"))
        base = y + (height - len(lines) * LINE) / 2 + 5
        self.front.append(svg.text(x + MARGIN, base, head, "head f-ink"))
        self.front += [svg.text(x + MARGIN, base + i * LINE + 2, line, "f-soft") for i, line in enumerate(lines, 1)]

    def do_tag(self, name, words):
        x, y, width, height = self.boxes[name]
        size = 6.8 * len(words) + 18  # as the widest of the fonts needs it
        look = ("f-soft", "f-page") if words.startswith("root") else ("f-panel s-third", "f-soft")
        self.front.append(svg.rect(x + width - size - 10, y + 10, size, 20, look[0], 10))
        self.front.append(svg.text(x + width - size / 2 - 10, y + 24, words, f"small mid {look[1]}"))

    def point(self, words):
        """Where `edge.left@140` is: on the left side of the box `edge`, at y = 140."""
        if "," in words:
            return tuple(map(float, words.split(",")))
        name, _, side = words.partition(".")
        side, _, place = side.partition("@")
        x, y, width, height = self.boxes[name]
        if side in ("left", "right"):
            return x + (width if side == "right" else 0), float(place) if place else y + height / 2
        if side in ("top", "bottom"):
            return float(place) if place else x + width / 2, y + (height if side == "bottom" else 0)
        raise ValueError(f"no side {side}")

    def do_arrow(self, kind, *points):
        colour, classes, heads = KINDS[kind]
        points = [self.point(p) for p in points]
        if any(a[0] != b[0] and a[1] != b[1] for a, b in zip(points, points[1:])):
            raise ValueError("a piece of the line is neither level nor upright")
        tips = [(points[-1], points[-2])] * (heads != "") + [(points[0], points[1])] * (heads == "both")
        # the line ends inside the head, so that a thick one does not show beside the tip
        line = [svg.towards(points[0], points[1], 6) if heads == "both" else points[0], *points[1:-1],
                svg.towards(points[-1], points[-2], 6) if heads else points[-1]]
        self.back.append(svg.path(line, f"{classes} s-{colour}"))
        self.back += [svg.arrow_head(tip, before, colour) for tip, before in tips]

    def do_note(self, x, y, align, *lines):
        for i, line in enumerate(lines):
            self.front.append(svg.text(float(x), float(y) + i * LINE, line, f"f-soft {align}"))

    def do_key(self, x, y, kind, words):
        x, y = float(x), float(y)
        if kind in KINDS:
            self.do_arrow(kind, f"{x},{y}", f"{x + 36},{y}")
        else:
            self.front.append(svg.rect(x, y - 9, 36, 18, f"f-panel {box_border(kind)}", 4))
        self.front.append(svg.text(x + 46, y + 4.5, words, "f-soft"))


def box_border(look):
    return "s-border" if look == "plain" else f"edge s-{look}"
