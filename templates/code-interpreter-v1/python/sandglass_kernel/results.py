"""Which forms a value has as a result: JSON, data, chart, picture."""

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

from . import pictures
from .plain import NotPlain, plain

# Nobody reads JSON that is nested deeper, and many parsers refuse it.
_LEVELS_MAX = 200


class DataFormatter(BaseFormatter):
    """Values as data: e2b/data. A class of the user has a method _repr_e2b_data_."""

    format_type = Unicode("e2b/data")
    print_method = ObjectName("_repr_e2b_data_")
    _return_type = (dict, list, str)


class ChartFormatter(BaseFormatter):
    """Figures as descriptions of what they show: e2b/chart. A class of the user has a method _repr_e2b_chart_."""

    format_type = Unicode("e2b/chart")
    print_method = ObjectName("_repr_e2b_chart_")
    _return_type = (dict, str)

    def __call__(self, obj):
        # Not registered as a type: matplotlib's backend takes back everything that is registered for figures.
        if any(cls.__module__ == "matplotlib.figure" and cls.__name__ == "Figure" for cls in type(obj).__mro__):
            return _chart(obj) if self.enabled else None
        return super().__call__(obj)


def install(shell):
    """Adds our formatters to the shell. Types of packages are named, so that no package is loaded before the user loads it."""
    display = shell.display_formatter
    display.formatters["e2b/data"] = data = DataFormatter(parent=display)
    display.formatters["e2b/chart"] = ChartFormatter(parent=display)
    for mime in ("e2b/data", "e2b/chart"):
        if mime not in display.active_types:
            display.active_types = display.active_types + [mime]

    json = display.formatters["application/json"]
    json.for_type(list, _json)
    json.for_type(dict, _json)
    data.for_type_by_name("pandas.core.frame", "DataFrame", _data)
    pictures.install(shell)


def _json(value):
    try:
        value = plain(value)
    except NotPlain:
        return None
    return None if _is_deeper(value, _LEVELS_MAX) else value


def _is_deeper(value, levels):
    """Whether lists and dicts are in each other more than so many levels deep."""
    level = [value]
    for _ in range(levels):
        insides = (outer.values() if isinstance(outer, dict) else outer for outer in level)
        level = [item for inside in insides for item in inside if isinstance(item, (dict, list, tuple))]
        if not level:
            return False
    return True


def _data(frame):
    from .tables import columns_of

    return columns_of(frame)


def _chart(figure):
    from .charts import chart_of

    return chart_of(figure)
