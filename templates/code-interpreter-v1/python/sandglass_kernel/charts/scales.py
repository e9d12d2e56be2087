"""Ticks and scales of the two axes of a chart."""

from matplotlib import dates

from .common import number, tick_labels


def describe_axis(axis, name):
    """The keys x_ticks, x_tick_labels and x_scale, or the same for y."""
    labels = tick_labels(axis)
    places = axis.get_ticklocs()
    ticks = [moment(place) for place in places] if has_dates(axis) else [number(place) for place in places]
    return {f"{name}_ticks": ticks, f"{name}_tick_labels": labels, f"{name}_scale": scale_of(axis, ticks, labels)}


def has_dates(axis):
    converter = axis.get_converter() if hasattr(axis, "get_converter") else axis.converter
    return isinstance(converter, (dates.DateConverter, dates.ConciseDateConverter, dates._SwitchableDateConverter))


def moment(place):
    """The number of a day, as matplotlib counts, as an ISO text."""
    return dates.num2date(place).isoformat()


def scale_of(axis, ticks, labels):
    if has_dates(axis):
        return "datetime"
    scale = axis.get_scale()
    if scale != "linear":
        return scale
    return "categorical" if _are_categories(ticks, labels) else "linear"


def _are_categories(ticks, labels):
    """Whether the ticks count from zero, and no label is just the number of its tick."""
    return all(tick == index and label != str(index) for index, (tick, label) in enumerate(zip(ticks, labels)))
