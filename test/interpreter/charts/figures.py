"""Figures for the tests."""

import json

import matplotlib.pyplot as plt

from sandglass_kernel.charts import chart_of
from tap import equal, true

LABELS = ["x_label", "y_label", "x_unit", "y_unit"]
TICKS = ["x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale"]
KEYS = {
    "line": ["type", "title", "elements"] + LABELS + TICKS,
    "scatter": ["type", "title", "elements"] + LABELS + TICKS,
    "bar": ["type", "title", "elements"] + LABELS,
    "box_and_whisker": ["type", "title", "elements"] + LABELS,
    "pie": ["type", "title", "elements"],
    "unknown": ["type", "title", "elements"],
    "superchart": ["type", "title", "elements"],
}
ELEMENT_KEYS = {
    "line": ["label", "points"],
    "scatter": ["label", "points"],
    "bar": ["label", "group", "value"],
    "box_and_whisker": ["label", "min", "first_quartile", "median", "third_quartile", "max", "outliers"],
    "pie": ["label", "angle", "radius"],
}


def chart(figure=None):
    """The chart of the figure, after a drawing as for a display. Checks what is true for every chart, and closes all figures."""
    figure = figure or plt.gcf()
    figure.canvas.draw()
    described = chart_of(figure)
    plt.close("all")
    check(described)
    return described


def check(described):
    if described == {}:
        return
    equal(sorted(described), sorted(KEYS[described["type"]]), "keys")
    text = json.dumps(described, allow_nan=False)
    equal(json.loads(text), described, "the chart as JSON")
    if described["type"] == "superchart":
        true(isinstance(described["title"], str), "a superchart has a title")
        for element in described["elements"]:
            check(element)
        return
    if described["type"] == "unknown":
        equal(described["elements"], [])
    for element in described["elements"]:
        equal(sorted(element), sorted(ELEMENT_KEYS[described["type"]]), "keys of an element")
    numbers_are_floats(described)


def numbers_are_floats(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            numbers_are_floats(item)
    else:
        true(value is None or type(value) in (str, float), f"{value!r} is a float or a text")
