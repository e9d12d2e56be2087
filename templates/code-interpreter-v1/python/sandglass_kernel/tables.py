"""Tables of pandas as lists of values by column."""

import math

from .plain import NotPlain, plain


def columns_of(frame):
    """{"column": [value, ...]} for a DataFrame. Times are ISO texts, missing values None, other objects their text."""
    return {_name(frame.columns[place]): _values(frame.iloc[:, place]) for place in range(len(frame.columns))}


def _name(column):
    return column if isinstance(column, str) else str(column)


def _values(series):
    kind = getattr(series.dtype, "kind", "O")
    if kind in ("i", "u", "b", "f") and not hasattr(series.dtype, "na_value"):
        values = series.tolist()
        return [value if math.isfinite(value) else None for value in values] if kind == "f" else values
    return [_value(value) for value in series]


def _value(value):
    if hasattr(value, "isoformat"):
        return value.isoformat() if value == value else None
    if type(value).__module__.startswith("pandas.") and type(value).__name__ in ("NAType", "NaTType"):
        return None
    try:
        return plain(value)
    except NotPlain:
        return str(value)
