"""Lines and scatter."""

import datetime

import matplotlib.pyplot as plt
import numpy as np

from figures import chart
from tap import equal, test, true


@test("lines with dates: units, scales, ticks, labels and points")
def _():
    dates = [datetime.date(2023, 9, 1) + datetime.timedelta(seconds=i) for i in range(100)]
    x = np.linspace(0, 2 * np.pi, 100)
    plt.figure(figsize=(10, 6))
    plt.plot(dates, np.sin(x), label="sin(x)")
    plt.plot(dates, np.cos(x), label="cos(x)")
    plt.xlabel("Time (s)")
    plt.ylabel("Acceleration [Hz]")
    plt.title("Plot of sin(x) and cos(x)")
    plt.legend()
    plt.grid(True)
    it = chart()
    equal((it["type"], it["title"]), ("line", "Plot of sin(x) and cos(x)"))
    equal((it["x_label"], it["y_label"], it["x_unit"], it["y_unit"]), ("Time (s)", "Acceleration [Hz]", "s", "Hz"))
    equal((it["x_scale"], it["y_scale"]), ("datetime", "linear"))
    equal(datetime.datetime.fromisoformat(it["x_ticks"][0]).utcoffset(), datetime.timedelta(0))
    true(all(isinstance(tick, float) for tick in it["y_ticks"]), "y ticks are floats")
    true(it["y_tick_labels"] and all(isinstance(label, str) for label in it["y_tick_labels"]), "y labels are texts")
    equal([line["label"] for line in it["elements"]], ["sin(x)", "cos(x)"])
    equal([len(line["points"]) for line in it["elements"]], [100, 100])
    equal(it["elements"][0]["points"][0], ["2023-09-01", 0.0])


@test("points of integers are floats; lines without labels are numbered")
def _():
    plt.plot([1, 2, 3], [4, 5, 6])
    plt.plot([1, 2, 3], [6, 5, 4], label="named")
    plt.plot(np.array([7, 8], dtype=np.uint8))
    it = chart()
    equal([line["label"] for line in it["elements"]], ["Line 0", "named", "Line 2"])
    equal(it["elements"][0]["points"], [[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]])
    equal(it["elements"][2]["points"], [[0.0, 7.0], [1.0, 8.0]])
    equal((it["title"], it["x_label"], it["y_label"], it["x_unit"], it["y_unit"]), (None,) * 5)


@test("lines of two points that are horizontal or vertical are left out, others are not")
def _():
    plt.axhline(3)
    plt.axvline(4)
    plt.plot([1, 2], [5, 5], label="flat")
    plt.plot([1, 2], [5, 6], label="rising")
    plt.plot([1, 1, 1], [5, 6, 7], label="long")
    equal([line["label"] for line in chart()["elements"]], ["rising", "long"])


@test("moments of every kind are ISO texts")
def _():
    moments = [datetime.datetime(2024, 1, 2, 3, 4, 5), datetime.datetime(2024, 1, 3)]
    plt.plot(moments, [1, 2])
    it = chart()
    equal((it["x_scale"], it["elements"][0]["points"][0][0]), ("datetime", "2024-01-02T03:04:05"))
    plt.plot(np.array(["2024-01-02T03:04:05.678", "2024-01-03"], dtype="datetime64[ms]"), [1, 2])
    it = chart()
    equal((it["x_scale"], it["elements"][0]["points"][0][0]), ("datetime", "2024-01-02T03:04:05"))
    plt.plot([1, 2], np.array(["2024-01-02", "2024-01-03"], dtype="datetime64[D]"))
    it = chart()
    equal((it["x_scale"], it["y_scale"], it["elements"][0]["points"][0]), ("linear", "datetime", [1.0, "2024-01-02T00:00:00"]))


@test("ticks of dates are ISO texts with an offset")
def _():
    plt.plot([datetime.date(2023, 9, 1), datetime.date(2023, 9, 30)], [1, 2])
    plt.gca().set_xticks([datetime.date(2023, 9, 1), datetime.date(2023, 9, 15)])
    equal(chart()["x_ticks"], ["2023-09-01T00:00:00+00:00", "2023-09-15T00:00:00+00:00"])


@test("times of pandas, also with a zone, with gaps, and as the index of a Series that plots itself")
def _():
    import pandas as pd

    zoned = pd.date_range("2024-01-01", periods=3, tz="UTC")
    plt.plot(zoned, [1, 2, 3])
    it = chart()
    equal((it["x_scale"], it["elements"][0]["points"][0][0]), ("datetime", "2024-01-01T00:00:00+00:00"))
    plt.plot(pd.to_datetime(["2024-01-01", None, "2024-01-03"]), [1, 2, 3])
    equal(chart()["elements"][0]["points"][1], [None, 2.0])
    pd.Series([1, 2, 3], index=pd.date_range("2024-01-01", periods=3)).plot()
    it = chart()
    equal((it["type"], len(it["elements"][0]["points"])), ("line", 3))
    pd.DataFrame({"a": [1, 2, 3], "b": [3.5, 2, 1]}).plot(title="frame")
    it = chart()
    equal((it["title"], [line["label"] for line in it["elements"]]), ("frame", ["a", "b"]))


@test("missing, masked and infinite points are null, and stay in their places")
def _():
    plt.plot([1, 2, 3, 4], [1.0, np.nan, np.inf, 2.0])
    plt.plot(np.ma.array([1, 2, 3], mask=[0, 1, 0]), [1, 2, 3])
    it = chart()
    equal(it["elements"][0]["points"], [[1.0, 1.0], [2.0, None], [3.0, None], [4.0, 2.0]])
    equal(it["elements"][1]["points"], [[1.0, 1.0], [None, 2.0], [3.0, 3.0]])


@test("a million points")
def _():
    plt.plot(np.arange(1_000_000), np.zeros(1_000_000))
    points = chart()["elements"][0]["points"]
    equal((len(points), points[-1]), (1_000_000, [999999.0, 0.0]))


@test("scatter: groups of points, their labels as they are")
def _():
    plt.scatter(np.random.rand(5), np.random.rand(5), c="blue", label="Dataset 1")
    plt.scatter(range(10), range(10))
    plt.xlabel("A")
    plt.ylabel("B")
    plt.grid(True)
    it = chart()
    equal((it["type"], it["title"], it["x_label"], it["y_label"], it["x_unit"]), ("scatter", None, "A", "B", None))
    equal([(group["label"], len(group["points"])) for group in it["elements"]], [("Dataset 1", 5), ("_child1", 10)])
    equal((it["x_scale"], it["y_scale"]), ("linear", "linear"))
    equal(it["elements"][1]["points"][3], [3.0, 3.0])


@test("scatter with dates: points are moments where the axis has dates")
def _():
    days = [datetime.date(2023, 9, 1), datetime.date(2023, 9, 2)]
    plt.scatter(days, [1, 2])
    it = chart()
    equal((it["type"], it["x_scale"], it["y_scale"]), ("scatter", "datetime", "linear"))
    equal(it["elements"][0]["points"], [["2023-09-01T00:00:00+00:00", 1.0], ["2023-09-02T00:00:00+00:00", 2.0]])
    true(isinstance(it["x_ticks"][0], str), "ticks are moments, too")
    plt.scatter([1, 2], np.array(["2024-01-02T03:04:05", "NaT"], dtype="datetime64[s]"))
    equal(chart()["elements"][0]["points"], [[1.0, "2024-01-02T03:04:05+00:00"], [None, None]])


@test("scatter with a horizontal line stays scatter; with a curve it is unknown")
def _():
    plt.scatter([1, 2], [3, 4])
    plt.axhline(3.5)
    equal(chart()["type"], "scatter")
    plt.scatter([1, 2], [3, 4])
    plt.plot([1, 2, 3], [3, 4, 3])
    plt.title("both")
    equal(chart(), {"type": "unknown", "title": "both", "elements": []})


@test("scatter with missing points, with none, and with categories")
def _():
    plt.scatter([1, 2, np.nan], [1, np.nan, 3])
    points = chart()["elements"][0]["points"]
    true([1.0, 1.0] in points, "the complete point is there")
    plt.scatter([], [])
    equal(chart()["elements"][0]["points"], [])
    plt.scatter(["a", "b"], [1, 2])
    equal(chart()["x_scale"], "categorical")
