"""Scales, ticks, units."""

import matplotlib.pyplot as plt
import numpy as np

from figures import chart
from sandglass_kernel.charts.common import rounded, unit_of
from tap import equal, test, true


@test("log scale: unit from the label, floats everywhere")
def _():
    x = np.linspace(1, 100, 100)
    plt.figure(figsize=(10, 6))
    plt.plot(x, np.exp(x / 20), label="y = e^x")
    plt.yscale("log")
    plt.xlabel("X-axis")
    plt.ylabel("Y-axis (log scale)")
    plt.title("Chart with Log Scale on Y-axis")
    plt.grid(True, which="both")
    it = chart()
    equal((it["x_scale"], it["y_scale"]), ("linear", "log"))
    equal((it["x_unit"], it["y_unit"]), (None, "log scale"))
    equal(len(it["elements"][0]["points"]), 100)


@test("names of scales: symlog, logit, asinh, function, functionlog")
def _():
    for name, options in (
        ("symlog", {}),
        ("logit", {}),
        ("asinh", {}),
        ("function", {"functions": (np.sqrt, np.square)}),
        ("functionlog", {"functions": (np.sqrt, np.square)}),
    ):
        plt.plot([0.1, 0.5, 0.9], [1, 2, 3])
        plt.xscale(name, **options)
        equal(chart()["x_scale"], name)


@test("categories are found on either axis; numbers are not categories")
def _():
    plt.plot([1, 2, 3, 4, 5], ["A", "B", "C", "D", "E"])
    it = chart()
    equal((it["x_scale"], it["y_scale"]), ("linear", "categorical"))
    equal(it["y_tick_labels"], ["A", "B", "C", "D", "E"])
    equal(it["y_ticks"], [0.0, 1.0, 2.0, 3.0, 4.0])
    equal(it["elements"][0]["points"][0], [1.0, "A"])
    plt.plot([0, 1, 2], [0, 1, 2])
    plt.xticks([0, 1, 2])
    equal(chart()["x_scale"], "linear")
    plt.plot([0, 1, 2], [0, 1, 2])
    plt.xticks([0, 1, 2], ["none", "one", "two"])
    equal(chart()["x_scale"], "categorical")
    plt.plot([0, 1, 2], [0, 1, 2])
    plt.xticks([0, 1, 2], ["none", "1", "two"])
    equal(chart()["x_scale"], "linear")


@test("ticks and their labels are as many, and fit")
def _():
    plt.plot([0, 10], [0, 0.5])
    plt.xticks([0, 5, 10], ["low", "middle", "high"])
    it = chart()
    equal((it["x_ticks"], it["x_tick_labels"]), ([0.0, 5.0, 10.0], ["low", "middle", "high"]))
    equal(len(it["y_ticks"]), len(it["y_tick_labels"]))


@test("units: in parentheses after a space, or in brackets; the first one")
def _():
    for label, unit in (
        ("Time (s)", "s"),
        ("Time(s)", None),
        ("Speed [m/s]", "m/s"),
        ("Speed[m/s]", "m/s"),
        ("Price (EUR) [gross]", "EUR"),
        ("[gross] Price (EUR)", "gross"),
        ("f(x) (V)", "V"),
        ("Nothing", None),
        ("Empty ()", None),
        ("Open (s", None),
        ("", None),
        (None, None),
    ):
        equal(unit_of(label), unit, label)


@test("rounding hides the noise of floats, not digits")
def _():
    for value, expected in ((0.1 + 0.2, 0.3), (84.75, 84.75), (1e-12, 1e-12), (123456.789, 123456.789), (-0.30000000000000004, -0.3), (0, 0.0), (1e300, 1e300)):
        equal(rounded(value), expected)
    equal(rounded(323.99999141693115, 1.6e-5), 324.0)
    equal(rounded(float("nan")), None)
