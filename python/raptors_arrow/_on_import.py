"""Imports one module when another has been imported, without importing either now.

Nobody's import may fail because of this: the module that is waited for may be another one of the
same name, or break on its own, and what comes after it is only an addition.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from raptors_arrow._warn import warn


def when_imported(name: str, then: str, has: Sequence[str]) -> None:
    """Import ``then`` as soon as ``name`` is imported: now, if it is already.

    ``has`` are attributes by which the module is known from others of the same name.
    """
    watch = _Watch(name, then, has)
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, watch)
        return
    spec = getattr(module, "__spec__", None)
    if getattr(spec, "_initializing", False):
        _follow(spec, watch)
        if getattr(spec, "_initializing", False):
            return
    watch.end()  # also if the other thread's import ended before it was followed


class _Watch(MetaPathFinder):
    """Finds nothing itself; lets the others find the module, and goes away once it is there."""

    def __init__(self, name: str, then: str, has: Sequence[str]) -> None:
        self.name = name
        self.then = then
        self.has = has
        self.is_finding = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != self.name or self.is_finding:
            return None
        self.is_finding = True
        try:
            spec = find_spec(fullname)
        finally:
            self.is_finding = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Then(spec, spec.loader, self)
        return spec

    def end(self) -> None:
        """Import the other module, if the first one is there and is the one that was meant."""
        module = sys.modules.get(self.name)
        if module is None:  # its import failed, and may be tried again
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
            return
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        if not all(hasattr(module, name) for name in self.has):
            return
        try:
            import_module(self.then)
        except Exception as error:
            warn(f"{self.then} could not be imported after {self.name}: {error}")


class _Then(Loader):
    """Loads as the real loader does, and then imports one more module."""

    def __init__(self, spec: ModuleSpec, loader: Any, watch: _Watch) -> None:
        self.spec = spec
        self.loader = loader
        self.watch = watch

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        create = getattr(self.loader, "create_module", lambda spec: None)
        module: ModuleType | None = create(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module has its own loader, which resources and reloads ask for.
        self.spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.watch.end()


def _follow(spec: Any, watch: _Watch) -> None:
    """End the watch when an import ends that is under way, in this thread or another.

    Its loader runs already and can no longer be wrapped. But the import system says at the end, in
    an attribute of the spec, that the module is initialised.
    """
    original = type(spec)

    class Followed(original):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_initializing" and not value:
                self.__class__ = original
                watch.end()

    spec.__class__ = Followed
