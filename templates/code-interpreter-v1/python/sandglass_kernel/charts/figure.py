"""A whole figure: one chart, or several."""

from .bars import describe_bars
from .boxes import describe_boxes
from .common import header
from .kinds import kind_of
from .pies import describe_pie
from .points import describe_lines, describe_scatter

_DESCRIBE = {
    "line": describe_lines,
    "scatter": describe_scatter,
    "bar": describe_bars,
    "pie": describe_pie,
    "box_and_whisker": describe_boxes,
}


def describe(figure):
    all_axes = figure.axes
    if not any(axes.has_data() for axes in all_axes):
        return {}
    if len(all_axes) > 1:
        title = figure.get_suptitle()
        return {"type": "superchart", "title": title, "elements": [describe_axes(axes) for axes in all_axes]}
    return describe_axes(all_axes[0])


def describe_axes(axes):
    kind = kind_of(axes)
    if kind == "unknown":
        return header(axes, kind)
    return _DESCRIBE[kind](axes)
