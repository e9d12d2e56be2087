"""Values of points: numbers as floats, moments as ISO texts, everything else as text."""

import datetime
import decimal
import math
import numbers

import numpy


def listed(data):
    """The data of one axis of a line as a list of floats, strings and None."""
    if isinstance(data, numpy.ma.MaskedArray) and data.dtype.kind in "biuf":
        data = numpy.ma.filled(data.astype(float), numpy.nan)
    data = numpy.atleast_1d(_array(data))
    kind = data.dtype.kind
    if kind in "biuf":
        return floats(data)
    if kind == "M":
        return [None if text == "NaT" else text for text in numpy.datetime_as_string(data, unit="s").tolist()]
    return [_value(value) for value in data.tolist()]


def _array(data):
    # Objects of pandas give objects where numpy has no type for their values, for example for times with a zone.
    if hasattr(data, "to_numpy"):
        return data.to_numpy()
    return numpy.asarray(data)


def floats(data):
    """An array of numbers as floats; None for what JSON cannot say."""
    data = data.astype(float)
    if numpy.isfinite(data).all():
        return data.tolist()
    return [value if math.isfinite(value) else None for value in data.tolist()]


def _value(value):
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat() if value == value else None
    if isinstance(value, numpy.datetime64):
        return None if numpy.isnat(value) else str(numpy.datetime_as_string(value, unit="s"))
    if isinstance(value, (numbers.Real, decimal.Decimal)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, numbers.Complex):
        return float(value.real) if math.isfinite(value.real) else None
    return str(value)
