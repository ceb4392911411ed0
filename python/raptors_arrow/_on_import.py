"""Imports one module when another has been imported, without importing either now."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType


def when_imported(name: str, then: str) -> None:
    """Import ``then`` as soon as ``name`` is imported: now, if it is already."""
    module = sys.modules.get(name)
    if module is None:
        sys.meta_path.insert(0, _Watch(name, then))
    elif not getattr(module.__spec__, "_initializing", False):
        import_module(then)


class _Watch(MetaPathFinder):
    """Finds nothing itself; lets the others find ``name`` and goes away."""

    def __init__(self, name: str, then: str) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None, /
    ) -> ModuleSpec | None:
        if fullname != self.name or self not in sys.meta_path:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Then(spec, spec.loader, self.then)
        return spec


class _Then(Loader):
    """Loads as the real loader does, and then imports one more module."""

    def __init__(self, spec: ModuleSpec, loader: Loader, then: str) -> None:
        self.spec = spec
        self.loader = loader
        self.then = then

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        # From here on the module has its own loader, which resources and reloads ask for.
        self.spec.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        import_module(self.then)
