"""What a figure of matplotlib shows, as plain data. Loaded when the first figure is displayed."""

import warnings

from .figure import describe


def chart_of(figure):
    """The description of the figure; {} if the figure is blank or cannot be described. Never raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return describe(figure)
    except Exception:
        return {}
