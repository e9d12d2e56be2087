"""Bars, pies, boxes."""

import matplotlib.pyplot as plt
import numpy as np

from figures import chart
from tap import equal, test, true

SCORES = {"Class A": [85, 90, 78, 92, 88], "Class B": [95, 89, 76, 91, 84, 87], "Class C": [75, 82, 88, 79, 86]}


def boxes(it, key):
    return [box[key] for box in it["elements"]]


@test("bars: values, labels, group, and null for missing units")
def _():
    plt.figure(figsize=(10, 6))
    plt.bar(["Author A", "Author B", "Author C", "Author D"], [100, 200, 300, 400], label="Books Sold", color="blue")
    plt.xlabel("Authors")
    plt.ylabel("Number of Books Sold")
    plt.title("Book Sales by Authors")
    plt.legend()
    plt.tight_layout()
    equal(
        chart(),
        {
            "type": "bar",
            "title": "Book Sales by Authors",
            "x_label": "Authors",
            "y_label": "Number of Books Sold",
            "x_unit": None,
            "y_unit": None,
            "elements": [
                {"label": f"Author {letter}", "group": "Books Sold", "value": value}
                for letter, value in zip("ABCD", (100.0, 200.0, 300.0, 400.0))
            ],
        },
    )


@test("horizontal bars: widths are the values, labels and units of the axes are swapped")
def _():
    plt.barh(["a", "b"], [3, 5])
    plt.xlabel("Weight (kg)")
    plt.ylabel("Animal")
    it = chart()
    equal((it["x_label"], it["y_label"], it["x_unit"], it["y_unit"]), ("Animal", "Weight (kg)", None, "kg"))
    equal(it["elements"], [{"label": "a", "group": "Group 0", "value": 3.0}, {"label": "b", "group": "Group 0", "value": 5.0}])


@test("bars of equal height count as horizontal; two such groups swap the labels twice")
def _():
    plt.bar(["a", "b"], [4, 4], width=0.5)
    plt.xlabel("X")
    plt.ylabel("Y")
    it = chart()
    equal((it["x_label"], it["y_label"], [bar["value"] for bar in it["elements"]]), ("Y", "X", [0.5, 0.5]))
    plt.barh([1, 2], [3, 5])
    plt.barh([1, 2], [1, 1], left=[3, 5])
    plt.xlabel("X")
    it = chart()
    equal((it["x_label"], it["y_label"]), ("X", None))


@test("groups of bars: numbered without labels; labels and values up to the shorter list")
def _():
    places = np.arange(3)
    plt.bar(places, [1, 2, 3], 0.4)
    plt.bar(places + 0.4, [4, 5, 6], 0.4)
    plt.xticks(places, ["a", "b", "c"])
    it = chart()
    equal([(bar["group"], bar["label"], bar["value"]) for bar in it["elements"]][2:4], [("Group 0", "c", 3.0), ("Group 1", "a", 4.0)])
    plt.bar(places, [1, 2, 3])
    plt.xticks([0, 1], ["a", "b"])
    equal([bar["label"] for bar in chart()["elements"]], ["a", "b"])


@test("a histogram is bars; bars with a horizontal line stay bars; with error bars they are unknown")
def _():
    plt.hist([1, 1, 2, 3, 3, 3], bins=3)
    equal([bar["value"] for bar in chart()["elements"]], [2.0, 1.0, 3.0])
    plt.bar(["a", "b"], [1, 2])
    plt.axhline(1.5)
    equal(chart()["type"], "bar")
    plt.bar(["a", "b"], [1, 2], yerr=[0.1, 0.2])
    equal(chart()["type"], "unknown")


@test("bars without a value have null")
def _():
    plt.bar(["a", "b", "c"], [1, np.nan, 3])
    equal([bar["value"] for bar in chart()["elements"]], [1.0, None, 3.0])


@test("pie: angles, radius, labels")
def _():
    plt.pie([90, 10], labels=["No", "No, in blue"], colors=["r", "b"], startangle=90, autopct="%1.1f%%")
    plt.title("Will I wake up early tomorrow?")
    equal(
        chart(),
        {
            "type": "pie",
            "title": "Will I wake up early tomorrow?",
            "elements": [{"label": "No", "angle": 324.0, "radius": 1.0}, {"label": "No, in blue", "angle": 36.0, "radius": 1.0}],
        },
    )


@test("pie: clockwise, without labels, a ring, thirds")
def _():
    plt.pie([1, 1, 1], counterclock=False, radius=0.5, wedgeprops={"width": 0.2})
    it = chart()
    equal([wedge["radius"] for wedge in it["elements"]], [0.5] * 3)
    true(all(abs(wedge["angle"] - 120) < 0.001 for wedge in it["elements"]), "thirds")
    equal([wedge["label"] for wedge in it["elements"]], [""] * 3)


@test("boxes: quartiles, whiskers, outliers, also if they were drawn twice")
def _():
    figure, axes = plt.subplots(figsize=(10, 6))
    axes.boxplot(SCORES.values(), tick_labels=SCORES.keys())
    axes.set_title("Exam Scores Distribution")
    axes.set_xlabel("Class")
    axes.set_ylabel("Score")
    axes.boxplot(SCORES.values(), tick_labels=SCORES.keys(), patch_artist=True)
    plt.tight_layout()
    it = chart()
    equal((it["type"], it["title"]), ("box_and_whisker", "Exam Scores Distribution"))
    equal((it["x_label"], it["y_label"], it["x_unit"], it["y_unit"]), ("Class", "Score", None, None))
    equal(boxes(it, "label"), ["Class A", "Class B", "Class C"])
    equal(boxes(it, "outliers"), [[], [76.0], []])
    equal(boxes(it, "min"), [78.0, 84.0, 75.0])
    equal(boxes(it, "first_quartile"), [85.0, 84.75, 79.0])
    equal(boxes(it, "median"), [88.0, 88.0, 82.0])
    equal(boxes(it, "third_quartile"), [90.0, 90.5, 86.0])
    equal(boxes(it, "max"), [92.0, 95.0, 88.0])


@test("horizontal boxes: the same values, with the axes swapped")
def _():
    figure, axes = plt.subplots()
    axes.boxplot(list(SCORES.values()), tick_labels=list(SCORES), patch_artist=True, orientation="horizontal")
    axes.set_xlabel("Score [points]")
    it = chart()
    equal((it["x_label"], it["y_label"], it["y_unit"]), (None, "Score [points]", "points"))
    equal(boxes(it, "label"), ["Class A", "Class B", "Class C"])
    equal(boxes(it, "median"), [88.0, 88.0, 82.0])
    equal(boxes(it, "outliers"), [[], [76.0], []])


@test("one box, boxes of equal height, notches, several outliers, whiskers of no length")
def _():
    plt.boxplot([1, 2, 3, 4, 5], patch_artist=True)
    equal(boxes(chart(), "median"), [3.0])
    plt.boxplot([[1, 2, 3, 4, 5], [11, 12, 13, 14, 15]], patch_artist=True)
    equal(boxes(chart(), "first_quartile"), [2.0, 12.0])
    plt.boxplot([list(range(20)) + [100, 120], list(range(30))], patch_artist=True, notch=True)
    it = chart()
    equal(boxes(it, "outliers"), [[100.0, 120.0], []])
    equal(boxes(it, "median"), [10.5, 14.5])
    plt.boxplot([[1, 1, 1, 1, 9], [5, 5, 5, 6, 6]], patch_artist=True)
    it = chart()
    equal((boxes(it, "min"), boxes(it, "median")), ([1.0, 5.0], [1.0, 5.0]))


@test("boxes without patches are lines")
def _():
    plt.boxplot([[1, 2, 3], [2, 3, 5]])
    equal(chart()["type"], "line")


@test("boxes: a vertical line of the user is no outlier, several points without a line are")
def _():
    plt.boxplot([[1, 2, 3, 4, 5, 6, 7, 100, 120], [2, 3, 4, 5]], patch_artist=True)
    plt.axvline(1)
    plt.plot([2, 2], [1, 6], "--")
    equal(boxes(chart(), "outliers"), [[100.0, 120.0], []])
