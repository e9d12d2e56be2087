"""Charts as they leave the kernel."""

from kernel import shared
from tap import equal, test, true


def displayed(code):
    run = shared().run(code)
    if run.error:
        raise AssertionError("".join(run.error["traceback"]))
    equal(run.stderr, [])
    return run.results[-1]["e2b/chart"]


@test("floats stay floats on the wire, null stays null")
def _():
    it = displayed("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3], [1.0, float('nan'), 3])\nplt.show()")
    equal(it["elements"][0]["points"], [[1.0, 1.0], [2.0, None], [3.0, 3.0]])
    true(all(type(number) is float for number in it["x_ticks"] + it["elements"][0]["points"][0]), "floats")
    true("title" in it and it["title"] is None, "null is kept")


@test("ticks are those of the picture")
def _():
    it = displayed("plt.plot([0, 1], [0, 10]); plt.xlim(0, 1); plt.show()")
    equal(it["x_tick_labels"], ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"])
    equal(len(it["x_ticks"]), 6)


@test("a figure whose description fails is displayed with an empty chart, and without any message")
def _():
    code = "fig = plt.figure()\nax = fig.add_subplot()\nax.plot([1, 2])\nax.get_xlabel = None\nplt.show()"
    equal(displayed(code), {})


@test("a blank figure has an empty chart")
def _():
    equal(displayed("plt.figure(); plt.show()"), {})
    equal(displayed("plt.subplots(); plt.show()"), {})


@test("figures after %matplotlib inline, and with several formats, still have charts")
def _():
    equal(displayed("%matplotlib inline\nplt.plot([1, 2, 3]); plt.show()")["type"], "line")
    shared().run("from matplotlib_inline.backend_inline import set_matplotlib_formats as formats; formats('svg', 'png')")
    equal(displayed("plt.plot([1, 2, 3]); plt.show()")["type"], "line")
    shared().run("formats('png')")


@test("a figure as value, and made without pyplot")
def _():
    run = shared().run("from matplotlib.figure import Figure\nf = Figure()\nf.subplots().plot([1, 2, 4])\nf")
    equal(sorted(run.main[0]), ["e2b/chart", "image/png", "text/plain"])
    equal(run.main[0]["e2b/chart"]["type"], "line")
