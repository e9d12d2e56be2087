"""Box-and-whisker charts: what each line beside a box means follows from its place."""

import math

import numpy
from matplotlib.patches import PathPatch

from .common import header_with_labels, rounded, swap_axes, tick_labels


def describe_boxes(axes):
    chart = header_with_labels(axes, "box_and_whisker")
    patches = [patch for patch in axes.patches if isinstance(patch, PathPatch)]
    boxes = [_Box(patch.get_path().get_extents()) for patch in patches]
    lines = _lines_of(axes)
    axis = axes.xaxis
    if _are_horizontal(boxes, lines):
        boxes = [box.turned() for box in boxes]
        lines = [(y, x, is_drawn) for x, y, is_drawn in lines]
        axis = axes.yaxis
        swap_axes(chart)
    labels = tick_labels(axis)
    for index, box in enumerate(boxes):
        label = labels[index] if index < len(labels) else ""
        chart["elements"].append(_describe_box(box, lines, label))
    return chart


class _Box:
    def __init__(self, extents):
        self.left, self.bottom, self.right, self.top = extents.x0, extents.y0, extents.x1, extents.y1

    def turned(self):
        box = object.__new__(_Box)
        box.left, box.bottom, box.right, box.top = self.bottom, self.left, self.top, self.right
        return box

    def has_x(self, x):
        return all(self.left <= value <= self.right for value in x)


def _lines_of(axes):
    """(x, y, whether the points are joined) of each line. Lines that were drawn twice count once."""
    lines = []
    for line in axes.lines:
        x, y = (numpy.atleast_1d(numpy.ma.filled(numpy.ma.asarray(data, dtype=float), numpy.nan)).tolist() for data in line.get_data())
        found = (x, y, line.get_linestyle() not in ("None", "none", "", " "))
        if x and len(x) == len(y) and found not in lines:
            lines.append(found)
    return lines


def _are_horizontal(boxes, lines):
    """Boxes of equal height count as horizontal, unless whiskers show that the boxes stand."""
    height = boxes[0].top - boxes[0].bottom
    if not all(math.isclose(box.top - box.bottom, height, rel_tol=1e-9) for box in boxes):
        return False
    return not any(_is_whisker(box, x, y) for box in boxes for x, y, _ in lines)


def _is_whisker(box, x, y):
    if len(x) != 2 or x[0] != x[1] or y[0] == y[1] or not box.has_x(x):
        return False
    return math.isclose(max(y), box.bottom) or math.isclose(min(y), box.top)


def _describe_box(box, lines, label):
    low, high, median, outliers = box.bottom, box.top, None, []
    widest = -1.0
    for x, y, is_drawn in lines:
        if not box.has_x(x):
            continue
        if len(x) == 1:
            outliers += y
        elif len(x) == 2 and x[0] == x[1] and math.isclose(max(y), box.bottom):
            low = min(y)
        elif len(x) == 2 and x[0] == x[1] and math.isclose(min(y), box.top):
            high = max(y)
        elif len(x) == 2 and y[0] == y[1] and box.bottom <= y[0] <= box.top:
            # The end of a whisker may lie on the edge of the box, but it is shorter than the median.
            if abs(x[1] - x[0]) > widest:
                widest, median = abs(x[1] - x[0]), y[0]
        elif min(x) == max(x) and not is_drawn:
            # Several outliers of one box are one line without a style. Others are lines of the user, such as axvline().
            outliers += y
    return {
        "label": label,
        "min": rounded(low),
        "first_quartile": rounded(box.bottom),
        "median": rounded(median) if median is not None else None,
        "third_quartile": rounded(box.top),
        "max": rounded(high),
        "outliers": [rounded(value) for value in outliers],
    }
