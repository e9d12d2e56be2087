"""Runs functions when the user's code loads a module, so that the kernel itself need not load the module."""

import importlib.abc
import importlib.util
import sys


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.waiting = {}

    def find_spec(self, name, path=None, target=None):
        function = self.waiting.pop(name, None)
        if function is None:
            return None
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.loader is None:
            self.waiting[name] = function
            return None
        spec.loader = _Loader(spec.loader, function)
        return spec


class _Loader(importlib.abc.Loader):
    """The loader of the module, which calls the function afterwards."""

    def __init__(self, loader, function):
        self._loader = loader
        self._function = function

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # The module keeps the loader that it would have without us.
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._function(module)
        except Exception:
            # A version of the module that the function does not know must still be usable.
            pass


_finder = _Finder()


def when_loaded(name, function):
    """Calls function(module) once the module was loaded, or at once if it already is."""
    if name in sys.modules:
        function(sys.modules[name])
        return
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)
    _finder.waiting[name] = function
