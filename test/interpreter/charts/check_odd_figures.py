"""Everything that matplotlib can draw: never an error, always a valid chart."""

import datetime
import decimal
import random
import warnings

import matplotlib.pyplot as plt
import numpy as np

from figures import chart, check
from sandglass_kernel.charts import chart_of
from tap import equal, test, true

ONE = np.linspace(0.1, 2, 12)
DRAW = {
    "plot": lambda a: a.plot(ONE, ONE**2),
    "plot of one point": lambda a: a.plot([1], [2], "o"),
    "plot of nothing": lambda a: a.plot([], []),
    "plot of None": lambda a: a.plot([1, 2, 3], [1, None, 3]),
    "plot of decimals": lambda a: a.plot([decimal.Decimal(1), decimal.Decimal(2)], [3, 5]),
    "plot of complex": lambda a: a.plot([1 + 2j, 2 + 1j]),
    "plot of booleans": lambda a: a.plot([True, False, True]),
    "plot of objects": lambda a: a.plot(np.array([1, 2.5, 3], dtype=object)),
    "plot of huge numbers": lambda a: a.plot([1e200, 1e250, -1e250]),
    "step": lambda a: a.step(ONE, ONE),
    "stairs": lambda a: a.stairs([1, 2, 3]),
    "stem": lambda a: a.stem([1, 2, 3]),
    "fill": lambda a: a.fill([0, 1, 1], [0, 0, 1]),
    "fill_between": lambda a: a.fill_between(ONE, ONE, 0),
    "stackplot": lambda a: a.stackplot([1, 2, 3], [[1, 2, 3], [3, 2, 1]]),
    "errorbar": lambda a: a.errorbar([1, 2, 3], [1, 2, 3], yerr=0.5),
    "scatter": lambda a: a.scatter(ONE, ONE, s=ONE * 10, c=ONE),
    "scatter of masked": lambda a: a.scatter(np.ma.array([1, 2, 3], mask=[1, 1, 1]), [1, 2, 3]),
    "hexbin": lambda a: a.hexbin(ONE, ONE, gridsize=4),
    "bar": lambda a: a.bar([1, 2], [3, 4]),
    "bar of nothing": lambda a: a.bar([], []),
    "bar of one": lambda a: a.bar(["a"], [1]),
    "barh": lambda a: a.barh([1, 2], [3, 4]),
    "stacked bars": lambda a: (a.bar([1, 2], [3, 4]), a.bar([1, 2], [1, 1], bottom=[3, 4])),
    "bars with labels": lambda a: a.bar_label(a.bar([1, 2], [3, 4])),
    "hist": lambda a: a.hist(ONE),
    "hist of steps": lambda a: a.hist(ONE, histtype="step"),
    "hist2d": lambda a: a.hist2d(ONE, ONE, bins=3),
    "pie": lambda a: a.pie([1, 2, 3]),
    "pie of nothing": lambda a: a.pie([]),
    "boxes": lambda a: a.boxplot([ONE, ONE * 2], patch_artist=True),
    "boxes of nothing": lambda a: a.boxplot([[], []], patch_artist=True),
    "boxes with missing values": lambda a: a.boxplot([[1, np.nan, 2]], patch_artist=True),
    "boxes of one value": lambda a: a.boxplot([[5, 5, 5]], patch_artist=True),
    "boxes with means": lambda a: a.boxplot([ONE, ONE * 2], patch_artist=True, showmeans=True, meanline=True),
    "boxes without ends": lambda a: a.boxplot([ONE, ONE * 3], patch_artist=True, showcaps=False, showfliers=False),
    "violins": lambda a: a.violinplot([ONE, ONE * 2]),
    "image": lambda a: a.imshow(np.eye(4)),
    "contour": lambda a: a.contour(np.outer(ONE, ONE)),
    "contourf": lambda a: a.contourf(np.outer(ONE, ONE)),
    "pcolormesh": lambda a: a.pcolormesh(np.eye(3)),
    "quiver": lambda a: a.quiver([1, 2], [1, 2], [1, 0], [0, 1]),
    "streamplot": lambda a: a.streamplot(np.arange(4), np.arange(4), np.ones((4, 4)), np.eye(4)),
    "table": lambda a: a.table([["a", "b"]]),
    "eventplot": lambda a: a.eventplot([1, 2, 3]),
    "spy": lambda a: a.spy(np.eye(3)),
    "spans": lambda a: (a.axhspan(1, 2), a.axvspan(1, 2)),
    "a line without end": lambda a: a.axline((0, 0), (1, 1)),
    "categories with numbers": lambda a: a.plot(["a", "b"], ["c", "d"]),
    "dates far away": lambda a: a.plot([datetime.date(1000, 1, 1), datetime.date(3000, 12, 31)], [1, 2]),
    "no ticks": lambda a: (a.plot([1, 2]), a.set_xticks([]), a.set_yticks([])),
    "axis off": lambda a: (a.plot([1, 2, 3]), a.axis("off")),
    "log of negative": lambda a: (a.plot([-1, -2, -3]), a.set_yscale("log")),
    "mathematics": lambda a: (a.plot([1, 2, 3], label=r"$\alpha$"), a.set_title(r"$x^2$ (m)"), a.set_xlabel("日本 [円]")),
}


@test("every kind of drawing gives a valid chart")
def _():
    for name, draw in DRAW.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure, axes = plt.subplots()
            try:
                draw(axes)
            except Exception as error:
                raise AssertionError(f"the test itself: {name}: {error!r}")
            try:
                chart(figure)
            except Exception as error:
                raise AssertionError(f"{name}: {error!r}") from error


@test("ordinary drawings are described, not given up")
def _():
    for name in ("plot of decimals", "plot of None", "boxes with missing values", "boxes of one value", "log of negative", "no ticks", "dates far away", "boxes of nothing", "plot of huge numbers"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure, axes = plt.subplots()
            DRAW[name](axes)
            true(chart(figure) != {}, name)


@test("any two drawings in one axes, and in two, give a valid chart")
def _():
    chance = random.Random(7)
    names = [name for name in DRAW if name not in ("categories with numbers", "dates far away", "streamplot", "plot of huge numbers", "log of negative")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(60):
            one, two = chance.choice(names), chance.choice(names)
            figure, axes = plt.subplots(1, chance.choice([1, 2]), squeeze=False)
            DRAW[one](axes[0][0])
            try:
                DRAW[two](axes[0][-1])
            except Exception:
                # matplotlib itself refuses the mixture; what is there is described.
                pass
            it = chart_of(figure)
            plt.close("all")
            try:
                check(it)
            except AssertionError as error:
                raise AssertionError(f"{one} + {two}: {error}")


@test("polar axes, three dimensions, maps, insets and figures in figures")
def _():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plt.subplot(projection="polar").plot(ONE, ONE)
        equal(chart()["type"], "line")
        plt.subplot(projection="polar").bar(ONE, ONE, width=0.1)
        equal(chart()["type"], "bar")
        for draw in ("plot", "scatter"):
            getattr(plt.figure().add_subplot(projection="3d"), draw)(ONE, ONE, ONE)
            chart()
        axes = plt.figure().add_subplot(projection="3d")
        axes.plot_surface(*np.meshgrid(ONE, ONE), np.outer(ONE, ONE))
        equal(chart()["type"], "unknown")
        axes = plt.figure().add_subplot(projection="3d")
        axes.bar3d([1], [1], [0], 1, 1, 1)
        chart()
        plt.subplot(projection="hammer").plot(ONE, ONE)
        chart()
        axes = plt.subplots()[1]
        axes.plot(ONE)
        axes.inset_axes([0.5, 0.5, 0.4, 0.4]).plot(ONE)
        chart()
        for part in plt.figure().subfigures(1, 2):
            part.subplots().plot(ONE)
        equal(chart()["type"], "superchart")


@test("a figure that cannot be described is empty, not an error; nothing is printed")
def _():
    class Broken:
        @property
        def axes(self):
            raise RuntimeError("broken")

    equal(chart_of(Broken()), {})
    equal(chart_of(None), {})
    # matplotlib itself cannot draw these.
    for values in ([datetime.date(1, 1, 1), datetime.date(9999, 12, 31)], [1e300, -1e308]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            figure, axes = plt.subplots()
            axes.plot(values, [1, 2])
            check(chart_of(figure))
            plt.close("all")


@test("seaborn's and pandas' own plots, as far as they are installed")
def _():
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2, 3, 9], "b": [3, 1, 2, 2], "c": ["u", "v", "u", "v"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kinds = {"line": "line", "bar": "bar", "barh": "bar", "hist": "bar", "area": "unknown"}
        for kind, expected in kinds.items():
            frame[["a", "b"]].plot(kind=kind)
            equal(chart()["type"], expected, kind)
        frame.plot.scatter("a", "b")
        equal(chart()["type"], "scatter")
        frame["a"].plot.pie()
        equal(chart()["type"], "pie")
        frame[["a", "b"]].plot.box(patch_artist=True)
        equal(chart()["type"], "box_and_whisker")
        try:
            import seaborn
        except ImportError:
            return
        for draw in (seaborn.barplot, seaborn.boxplot, seaborn.lineplot, seaborn.scatterplot, seaborn.violinplot):
            draw(data=frame, x="c", y="a")
            chart()
