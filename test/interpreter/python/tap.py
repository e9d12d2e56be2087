"""Tests that print TAP. A test is a function with @test("what must be true"); run() runs them all."""

import os
import sys
import time
import traceback

_tests = []
# Called after the last test.
at_end = []


def test(name):
    def register(function):
        _tests.append((name, function))
        return function

    return register


def equal(actual, expected, what=""):
    if actual != expected:
        raise AssertionError(f"{what + ': ' if what else ''}{_short(actual)} is not {_short(expected)}")


def true(condition, what="it"):
    if not condition:
        raise AssertionError(f"not true: {what}")


def _short(value):
    text = repr(value)
    return text if len(text) <= 600 else text[:400] + " … " + text[-180:]


def run():
    """Runs all tests, or those with a word of the command line in their names. Exits with 1 if one failed."""
    words = sys.argv[1:]
    chosen = [(name, function) for name, function in _tests if not words or any(word in name for word in words)]
    failed = 0
    for number, (name, function) in enumerate(chosen, 1):
        began = time.monotonic()
        try:
            function()
            print(f"ok {number} - {name} # {time.monotonic() - began:.1f} s", flush=True)
        except BaseException as error:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exception(error):
                print("# " + line.rstrip().replace("\n", "\n# "), flush=True)
    print(f"1..{len(chosen)}", flush=True)
    for function in at_end:
        function()
    sys.stdout.flush()
    nothing_is_fine = bool(words and os.environ.get("SANDGLASS_NO_TEST_IS_FINE"))
    os._exit(1 if failed or not (chosen or nothing_is_fine) else 0)
