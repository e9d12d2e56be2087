"""Which forms results have."""

import base64

from kernel import Kernel, shared
from tap import equal, test, true

PNG = b"\x89PNG\r\n\x1a\n"


def value(code):
    run = shared().run(code)
    if run.error:
        raise AssertionError("".join(run.error["traceback"]))
    equal(len(run.main), 1, "number of values")
    return run.main[0]


def picture(data):
    true(base64.b64decode(data["image/png"]).startswith(PNG), "a PNG file")
    return data


@test("numbers and texts have only text")
def _():
    equal(value("2 ** 70"), {"text/plain": str(2**70)})
    equal(value("'it\\'s'"), {"text/plain": '"it\'s"'})
    equal(value("(1, 2)"), {"text/plain": "(1, 2)"})
    equal(value("{1}"), {"text/plain": "{1}"})


@test("lists and dicts have text and JSON")
def _():
    equal(value("[1, 'a', None, True, 2.5]"), {"text/plain": "[1, 'a', None, True, 2.5]", "application/json": [1, "a", None, True, 2.5]})
    equal(value("{'a': {'b': [1]}}")["application/json"], {"a": {"b": [1]}})
    equal(value("[]")["application/json"], [])
    equal(value("{}")["application/json"], {})
    equal(value("import collections; collections.OrderedDict(a=1)")["application/json"], {"a": 1})


@test("lists that are nested deeply have only text")
def _():
    code = "x = []\nfor _ in range({}):\n    x = [x]\nx"
    equal(set(value(code.format(300))), {"text/plain"})
    equal(set(value(code.format(199))), {"text/plain", "application/json"})
    equal(set(value("x = {}\nfor _ in range(300):\n    x = {'a': x}\nx")), {"text/plain"})


@test("keys that are no texts become texts")
def _():
    equal(value("{1: 'a', 2.5: 'b', None: 'c', True: 'd'}")["application/json"], {"1": "d", "2.5": "b", "null": "c"})
    equal(value("import datetime, numpy; {numpy.int64(7): 1, datetime.date(2024, 2, 3): 2}")["application/json"], {"7": 1, "2024-02-03": 2})


@test("numpy's numbers, arrays, dates and masks are JSON")
def _():
    code = "import numpy as np; {'i': np.int32(3), 'f': np.float32(0.5), 'b': np.bool_(True), 'a': np.array([[1, 2], [3, 4]]), 'd': np.datetime64('2024-01-02'), 'm': np.ma.array([1, 2], mask=[0, 1])}"
    equal(
        value(code)["application/json"],
        {"i": 3, "f": 0.5, "b": True, "a": [[1, 2], [3, 4]], "d": "2024-01-02", "m": [1, None]},
    )


@test("NaN and infinity are null in JSON")
def _():
    equal(value("[float('nan'), float('inf'), -float('inf'), 1.5]")["application/json"], [None, None, None, 1.5])
    equal(value("{'a': np.array([1.0, np.nan])}")["application/json"], {"a": [1.0, None]})


@test("dates, enums, UUIDs and data classes are JSON")
def _():
    code = """
import dataclasses, datetime, enum, uuid
@dataclasses.dataclass
class Point:
    x: int
    y: float
Colour = enum.Enum('Colour', 'red green')
[Point(1, 2.0), Colour.green, datetime.datetime(2024, 1, 2, 3, 4, 5), uuid.UUID(int=1)]"""
    equal(value(code)["application/json"], [{"x": 1, "y": 2.0}, 2, "2024-01-02T03:04:05", "00000000-0000-0000-0000-000000000001"])


@test("what JSON cannot say has only text: objects, tuples as keys, lists that contain themselves, complex numbers")
def _():
    for code in ("[object()]", "{(1, 2): 3}", "l = []; l.append(l); l", "[1j]", "[b'x']", "import numpy as np; [np.array([1j])]"):
        equal(list(value(code)), ["text/plain"], code)
    code = "class Quiet(list):\n    def __repr__(self): return 'deep'\nd = []\nfor _ in range(100000):\n    d = [d]\nQuiet([object(), d])"
    equal(value(code), {"text/plain": "deep"})


@test("long lists are not shortened, and JSON of a million numbers arrives")
def _():
    data = value("list(range(100000))")
    true("..." not in data["text/plain"], "no dots")
    equal(data["application/json"], list(range(100000)))
    equal(len(value("[0.5] * 1000000")["application/json"]), 1000000)


@test("display() of a list has the same forms, and is no main result")
def _():
    run = shared().run("display([1])")
    equal(run.results, [{"text/plain": "[1]", "application/json": [1]}])
    equal(run.main, [])


@test("display(raw=True) has exactly the given types")
def _():
    equal(shared().run("display({'text/latex': '$x$'}, raw=True)").results, [{"text/latex": "$x$"}])
    equal(shared().run("display({'application/x-own': {'a': [1]}}, raw=True)").results, [{"application/x-own": {"a": [1]}}])


@test("NaN in raw data is null on the wire")
def _():
    equal(shared().run("display({'application/json': {'a': float('nan')}}, raw=True)").results, [{"application/json": {"a": None}}])


@test("a DataFrame has text, HTML and data by column")
def _():
    data = value("import pandas as pd; pd.DataFrame({'a': [1, 2, 3], 'b': ['x', None, 'z'], 'c': [1.5, float('nan'), float('inf')]})")
    equal(sorted(data), ["e2b/data", "text/html", "text/plain"])
    equal(data["e2b/data"], {"a": [1, 2, 3], "b": ["x", None, "z"], "c": [1.5, None, None]})


@test("times in a DataFrame are ISO texts; missing values null; other objects their text")
def _():
    code = """pd.DataFrame({
'time': pd.to_datetime(['2024-01-02 03:04:05', None]), 'zone': pd.to_datetime(['2024-01-02', '2024-01-03']).tz_localize('UTC'),
'int': pd.array([1, None], dtype='Int64'), 'object': [{'k': np.int64(1)}, 1j], 'category': pd.Categorical(['u', 'v']),
'delta': pd.to_timedelta([1, 2], unit='s'), 'period': pd.period_range('2024-01', periods=2, freq='M'), 7: [True, False]})"""
    equal(
        value("import numpy as np\n" + code)["e2b/data"],
        {
            "time": ["2024-01-02T03:04:05", None],
            "zone": ["2024-01-02T00:00:00+00:00", "2024-01-03T00:00:00+00:00"],
            "int": [1, None],
            "object": [{"k": 1}, "1j"],
            "category": ["u", "v"],
            "delta": ["P0DT0H0M1S", "P0DT0H0M2S"],
            "period": ["2024-01", "2024-02"],
            "7": [True, False],
        },
    )


@test("DataFrames without rows, without columns, with equal columns, with several levels")
def _():
    equal(value("pd.DataFrame({'a': []})")["e2b/data"], {"a": []})
    equal(value("pd.DataFrame()")["e2b/data"], {})
    equal(value("pd.DataFrame([[1, 2]], columns=['a', 'a'])")["e2b/data"], {"a": [2]})
    equal(value("pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([('a', 'b')]))")["e2b/data"], {"('a', 'b')": [1]})
    equal("e2b/data" in value("pd.Series([1])"), False)


@test("objects say their data and their chart themselves")
def _():
    code = """
class Own:
    def _repr_e2b_data_(self): return {'a': [1]}
    def _repr_e2b_chart_(self): return {'type': 'line', 'n': float('nan')}
    def __repr__(self): return 'own'
Own()"""
    equal(value(code), {"text/plain": "own", "e2b/data": {"a": [1]}, "e2b/chart": {"type": "line", "n": None}})


@test("a figure that is left open is displayed with text, PNG and chart, and then closed")
def _():
    run = shared().run("import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\n'value'")
    equal(run.stderr, [])
    equal(len(run.results), 2, "results")
    equal(run.main, [{"text/plain": "'value'"}])
    figure = picture(run.results[1])
    equal(sorted(figure), ["e2b/chart", "image/png", "text/plain"])
    equal(figure["text/plain"], "<Figure size 640x480 with 1 Axes>")
    equal(figure["e2b/chart"]["type"], "line")
    equal(shared().run("plt.get_fignums()").main[0]["application/json"], [])


@test("plt.show() displays at once, once, in the order of the output")
def _():
    shared().run("import matplotlib.pyplot as plt")
    request = shared().start("print('a'); plt.plot([1]); plt.show(); print('b')")
    kinds = []
    while True:
        message = shared().next_message(request)
        kinds.append(message["content"].get("text") or message["msg_type"])
        if message["content"].get("execution_state") == "idle":
            break
    equal(kinds, ["status", "execute_input", "a\n", "display_data", "b\n", "status"])


@test("several figures are several displays; a figure without axes has an empty chart")
def _():
    run = shared().run("plt.figure(); plt.plot([1, 2]); plt.figure(); plt.bar(['a', 'b'], [1, 2]); plt.figure(); None")
    equal([result["e2b/chart"].get("type") for result in run.results], ["line", "bar", None])


@test("savefig does not display the picture a second time")
def _():
    run = shared().run("plt.plot([1, 2]); plt.savefig('/tmp/figure.png'); plt.show()")
    equal(run.error, None)
    equal(len(run.results), 1)


@test("a figure after an error in the same code is displayed too, and the error arrives")
def _():
    run = shared().run("import matplotlib.pyplot as plt; plt.plot([1, 2]); 1 / 0")
    equal(run.error["ename"], "ZeroDivisionError")
    equal(len(run.results), 1)


@test("a fresh kernel displays the very first figure")
def _():
    kernel = Kernel()
    run = kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()")
    equal(run.error, None)
    equal(sorted(picture(run.results[0])), ["e2b/chart", "image/png", "text/plain"])
    families = kernel.run("import os; plt.rcParams['font.family'][0], len(plt.rcParams['font.family']) - os.path.exists('/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc')")
    equal(families.main, [{"text/plain": "('sans-serif', 1)"}])
    kernel.end()


@test("Chinese, Japanese and Korean letters in a figure find a font, if there is one")
def _():
    run = shared().run("plt.title('漢字 かな 한글'); plt.plot([1, 2]); plt.show()")
    equal(run.error, None)
    has_font = shared().run("import os; os.path.exists('/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc')").main[0]["text/plain"]
    if has_font == "True":
        equal(run.stderr, [], "warnings about missing letters")
    equal(run.results[0]["e2b/chart"]["title"], "漢字 かな 한글")


@test("a program that the code starts can use matplotlib too")
def _():
    run = shared().run("""!python3 -c 'import matplotlib.pyplot as plt; plt.plot([1]); plt.savefig("/tmp/child.png"); print("drawn")'""")
    true("drawn" in run.out(), run.out())


@test("a picture of PIL is text and PNG as a value")
def _():
    data = picture(value("from PIL import Image; Image.new('RGB', (3, 2), 'red')"))
    equal(sorted(data), ["image/png", "text/plain"])


@test("pictures in every mode are PNG")
def _():
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F", "La", "RGBa", "I;16"):
        picture(value(f"Image.new('{mode}', (3, 2))"))


@test("show() displays without a screen")
def _():
    run = shared().run("Image.new('RGB', (3, 2)).show()")
    equal(run.error, None)
    equal(len(run.results), 1)
    picture(run.results[0])
    equal(len(shared().run("Image.new('RGB', (3, 2)).show('title')").results), 1)


@test("save() into a named file displays and saves; into other files it only saves")
def _():
    run = shared().run("Image.new('RGB', (3, 2)).save('/tmp/saved.png'); open('/tmp/saved.png', 'rb').read(4)")
    equal(len(run.results), 2)
    picture(run.results[0])
    equal(run.main, [{"text/plain": "b'\\x89PNG'"}])
    run = shared().run("import io, pathlib; Image.new('L', (3, 2)).save(io.BytesIO(), 'PNG'); Image.new('L', (3, 2)).save(pathlib.Path('/tmp/p.png'))")
    equal(run.error, None)
    equal(run.results, [])
    equal(shared().run("Image.new('RGB', (3, 2)).save('/tmp/x.nosuch')").error["ename"], "ValueError")


@test("HTML, Markdown, SVG, LaTeX, JavaScript and JPEG displays keep their types")
def _():
    run = shared().run(
        "from IPython.display import *\ndisplay(HTML('<b>x</b>'), Markdown('*x*'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'), Latex('$x$'), Javascript('1'))"
    )
    kinds = [sorted(set(result) - {"text/plain"}) for result in run.results]
    equal(kinds, [["text/html"], ["text/markdown"], ["image/svg+xml"], ["text/latex"], ["application/javascript"]])
