"""Turns values of Python into values that JSON has."""

import dataclasses
import datetime
import enum
import json
import math
import uuid


class NotPlain(TypeError):
    """A value that JSON cannot say."""


def plain(value):
    """The value as dict, list, str, int, float, bool or None; raises NotPlain if there is no such value.

    Numbers that JSON does not have (NaN, infinities) become None. Keys become strings. Numpy's scalars and arrays, dates, enums,
    UUIDs and data classes are understood.
    """
    if is_plain(value):
        return value
    try:
        return _convert(value, set())
    except RecursionError:
        raise NotPlain("nested too deeply") from None


def is_plain(value):
    """Whether the value can be sent as it is. Much faster than a conversion, and most values are plain."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _convert(value, parents):
    if value is None or isinstance(value, (str, bool)):
        return value if type(value) in (str, bool, type(None)) else str(value)
    if isinstance(value, enum.Enum):
        return _convert(value.value, parents)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, (dict, list, tuple)):
        return _convert_container(value, parents)
    if isinstance(value, (datetime.date, datetime.time)):
        return _moment(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _convert_container(fields, parents)
    if is_numpy(value):
        return _convert_numpy(value, parents)
    raise NotPlain(f"a value of type {type(value).__name__} cannot be written as JSON")


def _convert_container(value, parents):
    if id(value) in parents:
        raise NotPlain("a value contains itself")
    parents.add(id(value))
    if isinstance(value, dict):
        result = {_key(key): _convert(item, parents) for key, item in value.items()}
    else:
        result = [_convert(item, parents) for item in value]
    parents.discard(id(value))
    return result


def _key(key):
    if isinstance(key, enum.Enum):
        return _key(key.value)
    if isinstance(key, str):
        return str(key)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "null"
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return float.__repr__(key)
    if isinstance(key, (datetime.date, datetime.time)):
        return str(_moment(key))
    if isinstance(key, uuid.UUID):
        return str(key)
    if is_numpy(key):
        key = _convert_numpy(key, set())
        if not isinstance(key, (list, dict)):
            return _key(key)
    raise NotPlain(f"a key of type {type(key).__name__} cannot be written as JSON")


def _moment(value):
    # pandas' missing time is a datetime that equals nothing, not even itself.
    return value.isoformat() if value == value else None


def is_numpy(value):
    """Whether numpy made the type of the value; never loads numpy."""
    return type(value).__module__.split(".")[0] == "numpy"


def _convert_numpy(value, parents):
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    if kind in ("M", "m"):
        return _numpy_moments(value)
    if kind in ("b", "i", "u", "f", "U", "O"):
        # A masked array gives None for what is masked.
        return _convert(value.tolist(), parents)
    raise NotPlain(f"numpy's {type(value).__name__} cannot be written as JSON")


def _numpy_moments(value):
    texts = value.astype(str).tolist()

    def clean(item):
        if isinstance(item, list):
            return [clean(inner) for inner in item]
        return None if item in ("NaT", "None") else item

    return clean(texts)
