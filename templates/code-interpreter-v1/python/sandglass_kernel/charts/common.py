"""What charts have in common: titles, labels, units, numbers."""

import math
import re

# The first of " (text)" or "[text]" in a label.
_UNIT = re.compile(r" \((.*?)\)|\[(.*?)\]")


def header(axes, kind):
    """The keys that every chart has."""
    return {"type": kind, "title": axes.get_title() or None, "elements": []}


def header_with_labels(axes, kind):
    """The keys of charts with two axes."""
    chart = header(axes, kind)
    x_label, y_label = axes.get_xlabel() or None, axes.get_ylabel() or None
    chart.update(x_label=x_label, y_label=y_label, x_unit=unit_of(x_label), y_unit=unit_of(y_label))
    return chart


def swap_axes(chart):
    """Exchanges labels and units of the two axes."""
    chart["x_label"], chart["y_label"] = chart["y_label"], chart["x_label"]
    chart["x_unit"], chart["y_unit"] = chart["y_unit"], chart["x_unit"]


def unit_of(label):
    match = _UNIT.search(label or "")
    if match is None:
        return None
    return match.group(1) or match.group(2) or None


def number(value):
    """The value as a float; None for what JSON cannot say."""
    value = float(value)
    return value if math.isfinite(value) else None


def rounded(value, noise=0.0):
    """The value with about 8 digits after its first, to hide the noise of floats.

    With noise, a value that is so near to a number of 6 digits becomes that number.
    """
    value = float(value)
    if not math.isfinite(value):
        return None
    if value == 0.0:
        return 0.0
    short = float(f"{value:.6g}")
    if abs(short - value) <= noise:
        return short
    return float(round(value, 8 - math.floor(math.log10(abs(value)))))


def tick_labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]
