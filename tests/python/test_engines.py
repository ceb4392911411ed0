"""Engines are imported when they are used, and their absence is said clearly."""

import subprocess
import sys

import pytest

import raptors_arrow as ra

NEEDED = {
    "duckdb": "duckdb",
    "datafusion": "datafusion",
    "ray": "ray",
    "spark": "pyspark",
    "daft": "daft",
}


@pytest.mark.parametrize("engine", NEEDED)
def test_an_engine_that_is_not_there(engine, monkeypatch):
    monkeypatch.delitem(sys.modules, f"raptors_arrow.engines.{engine}", raising=False)
    monkeypatch.setitem(sys.modules, NEEDED[engine], None)
    with pytest.raises(ImportError, match=rf'ra\.{engine} needs .*"raptors-arrow\[{engine}\]"'):
        getattr(ra, engine)


def test_importing_the_package_imports_no_engine():
    check = (
        "import sys, raptors_arrow\n"
        f"found = sorted(sys.modules.keys() & {{*{list(NEEDED.values())}, 'pyarrow', 'polars'}})\n"
        "assert not found, found\n"
        "from raptors_arrow import *\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


def test_they_are_listed():
    assert NEEDED.keys() <= set(dir(ra))
    assert not NEEDED.keys() & set(ra.__all__)


def test_first_and_last_are_refused_where_a_shuffle_keeps_no_order() -> None:
    from raptors_arrow.engines._group_states import GroupedRows

    class Shuffled(GroupedRows):
        _engine = "ray"

    class Ordered(Shuffled):
        _is_ordered = True

    pairs = [("price", "first"), ("price", "max")]
    grouped = Shuffled(None, "k", None)
    assert repr(grouped) == "<raptors_arrow.ray.GroupBy: k>"
    with pytest.raises(ra.RaptorsValueError, match="got price_first: the shuffle of ray"):
        grouped._states(pairs, {})
    assert set(Ordered(None, "k", None)._states(pairs, {}).expressions) == {
        "price_first",
        "price_max",
    }
    assert set(grouped._states(pairs[1:], {}).expressions) == {"price_max"}
