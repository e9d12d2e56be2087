"""Charts that are made of points: lines and scatter."""

import re

import numpy
from matplotlib.collections import PathCollection

from .common import header_with_labels
from .kinds import is_grid_like
from .scales import describe_axis, has_dates, moment
from .values import floats, listed

# matplotlib's name of a line without a label.
_UNNAMED = re.compile(r"_child(\d+)$")


def describe_lines(axes):
    chart = _header(axes, "line")
    for line in axes.lines:
        if not is_grid_like(line):
            x, y = line.get_data(orig=True)
            chart["elements"].append({"label": _line_label(line), "points": _pairs(listed(x), listed(y))})
    return chart


def describe_scatter(axes):
    chart = _header(axes, "scatter")
    for collection in axes.collections:
        if isinstance(collection, PathCollection):
            offsets = numpy.ma.filled(numpy.ma.asarray(collection.get_offsets(), dtype=float), numpy.nan)
            points = _pairs(_along(axes.xaxis, offsets[:, 0]), _along(axes.yaxis, offsets[:, 1]))
            chart["elements"].append({"label": str(collection.get_label()), "points": points})
    return chart


def _along(axis, places):
    """Places of markers on an axis. matplotlib keeps numbers of days where it was given dates; lines keep the dates."""
    if has_dates(axis):
        return [None if place is None else moment(place) for place in floats(places)]
    return floats(places)


def _header(axes, kind):
    chart = header_with_labels(axes, kind)
    chart.update(describe_axis(axes.xaxis, "x"))
    chart.update(describe_axis(axes.yaxis, "y"))
    return chart


def _line_label(line):
    label = str(line.get_label())
    match = _UNNAMED.match(label)
    return f"Line {match.group(1)}" if match else label


def _pairs(x, y):
    return [list(pair) for pair in zip(x, y)]
