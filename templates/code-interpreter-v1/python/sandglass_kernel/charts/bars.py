"""Bar charts."""

import re

from matplotlib.container import BarContainer

from .common import header_with_labels, number, swap_axes, tick_labels

# matplotlib's name of bars without a label.
_UNNAMED = re.compile(r"_container(\d+)$")


def describe_bars(axes):
    """One group per container of bars. Bars of equal height count as horizontal: this is how clients know them."""
    chart = header_with_labels(axes, "bar")
    for container in axes.containers:
        if not isinstance(container, BarContainer):
            continue
        values = [number(bar.get_height()) for bar in container.patches]
        axis = axes.xaxis
        if len(set(values)) == 1:
            values = [number(bar.get_width()) for bar in container.patches]
            axis = axes.yaxis
            # Once per container, so two groups of horizontal bars swap twice.
            swap_axes(chart)
        group = _group(container)
        for label, value in zip(tick_labels(axis), values):
            chart["elements"].append({"label": label, "group": group, "value": value})
    return chart


def _group(container):
    label = str(container.get_label())
    match = _UNNAMED.match(label)
    return f"Group {match.group(1)}" if match else label
