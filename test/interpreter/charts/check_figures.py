"""Whole figures: several axes, blank figures, unknown charts."""

import matplotlib.pyplot as plt
import numpy as np

from figures import chart
from tap import equal, test, true


@test("several axes are a superchart, each with its own title and with null for missing labels")
def _():
    figure, (first, second) = plt.subplots(1, 2, figsize=(10, 8))
    figure.suptitle("Multiple Charts Example", fontsize=16)
    x = np.linspace(0, 10, 100)
    first.plot(x, np.sin(x), "r")
    first.set_title("Sine Wave")
    first.grid(True)
    second.scatter(np.random.rand(5), np.random.rand(5), c="blue", label="Dataset 1")
    second.set_xlabel("X")
    second.set_ylabel("Y")
    second.set_title("Scatter Plot")
    second.grid(True)
    it = chart(figure)
    equal((it["type"], it["title"]), ("superchart", "Multiple Charts Example"))
    one, two = it["elements"]
    equal((one["type"], one["title"], one["x_label"], one["y_label"]), ("line", "Sine Wave", None, None))
    equal([len(line["points"]) for line in one["elements"]], [100])
    equal((two["type"], two["title"], two["x_label"], two["y_label"]), ("scatter", "Scatter Plot", "X", "Y"))
    equal([len(group["points"]) for group in two["elements"]], [5])


@test("a superchart without a title has an empty one; axes without anything are lines")
def _():
    figure, (first, second) = plt.subplots(2)
    first.bar(["a", "b"], [1, 2])
    it = chart(figure)
    equal(it["title"], "")
    equal([(element["type"], len(element["elements"])) for element in it["elements"]], [("bar", 2), ("line", 0)])


@test("unknown: the title stays, no elements")
def _():
    figure, axes = plt.subplots()
    axes.add_artist(plt.Circle((0, 0), 1, color="blue", fill=False, linewidth=2))
    axes.add_artist(plt.Circle((0, 0), 2, color="red", fill=False, linewidth=2))
    axes.grid(True)
    plt.title("Two Concentric Circles")
    equal(chart(figure), {"type": "unknown", "title": "Two Concentric Circles", "elements": []})


@test("a blank figure is empty: without axes, without data, with a text only")
def _():
    plt.figure()
    equal(chart(), {})
    plt.subplots()
    equal(chart(), {})
    plt.subplots(2, 2)
    equal(chart(), {})
    plt.text(0.5, 0.5, "text")
    equal(chart(), {})


@test("texts and legends do not change the kind of a chart")
def _():
    plt.plot([1, 2, 3], [1, 3, 2], label="line")
    plt.text(1, 1, "text")
    plt.annotate("here", (1, 1), xytext=(2, 2), arrowprops={})
    plt.legend()
    equal(chart()["type"], "line")


@test("axes with a common x axis are two charts")
def _():
    figure, left = plt.subplots()
    left.plot([1, 2, 3], [1, 2, 1], label="left")
    right = left.twinx()
    right.plot([1, 2, 3], [10, 30, 20], label="right")
    it = chart(figure)
    equal([element["elements"][0]["label"] for element in it["elements"]], ["left", "right"])


@test("a picture with a scale of colours is a superchart of unknown charts")
def _():
    plt.imshow(np.eye(3))
    plt.colorbar()
    it = chart()
    equal(it["type"], "superchart")
    equal(it["elements"][0], {"type": "unknown", "title": None, "elements": []})
