"""Every function of the registry is a Python function with signature, docs and stub."""

import builtins
import doctest
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from calls import calls, numbers

import raptors_arrow as ra

ROOT = Path(__file__).resolve().parents[2]
FUNCTIONS = ra.list_functions()


def examples(text: str, name: str) -> doctest.TestResults:
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert test.examples, f"{name} has no example"
    return doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_is_a_function_of_the_package(name):
    function = getattr(ra, name)
    about = ra.get_function(name)
    parameters = inspect.signature(function).parameters
    assert tuple(parameters)[: len(about.arguments)] == about.arguments
    assert len(about.argument_kinds) == len(about.arguments)
    assert about.option_kinds.keys() == about.options.keys()
    for option, default in about.options.items():
        must = parameters[option].default is inspect.Parameter.empty
        assert default is None if must else parameters[option].default == default
        assert f"\n{option} : " in function.__doc__
    assert parameters["width"].kind is inspect.Parameter.KEYWORD_ONLY
    assert str(inspect.signature(function)) == about.signature
    assert function.__name__ == function.__qualname__ == name
    assert function.__module__ == "raptors_arrow"
    assert pickle.loads(pickle.dumps(function)) is function
    assert pickle.loads(pickle.dumps(about)).name == name
    assert name in dir(ra)
    assert examples(function.__doc__, name).failed == 0
    assert f"ra.{name}(" in function.__doc__.split("Examples")[1]
    assert about.doc == function.__doc__


def test_each_example_belongs_to_a_function():
    page = ROOT / "src" / "python" / "examples.txt"
    if not page.exists():
        pytest.skip("not in a source tree")
    names = [line[2:] for line in page.read_text().splitlines() if line.startswith("# ")]
    assert len(names) == len(set(names))
    assert set(names) == set(FUNCTIONS)


@pytest.mark.parametrize("name", [n for n in dir(ra) if n[:2] != "__" and n not in FUNCTIONS])
def test_everything_else_is_documented_with_examples_that_run(name):
    try:
        thing = getattr(ra, name)
    except ImportError as error:
        assert f"raptors-arrow[{name}]" in str(error)  # an engine that is not here
        return
    if inspect.ismodule(thing):
        assert doctest.testmod(thing).failed == 0
        for own in thing.__all__:
            assert ">>> " in getattr(thing, own).__doc__, f"{name}.{own} has no example"
    else:
        assert examples(thing.__doc__, name).failed == 0


def test_the_package_is_documented_with_examples_that_run():
    assert doctest.testmod(ra).failed == 0


def test_a_star_import_leaves_builtins_alone():
    assert not set(ra.__all__) & set(vars(builtins))
    own: dict[str, object] = {}
    exec("from raptors_arrow import *", own)
    assert {"mean", "top_k", "RaptorsError"} <= own.keys()
    assert not {"sum", "min", "max", "abs", "round"} & own.keys()


def test_nothing_public_is_missing():
    public = {name for name in vars(ra._native) if not name.startswith("_")}
    assert public <= set(dir(ra))
    assert set(FUNCTIONS) <= public


@pytest.mark.skipif(not (ROOT / "scripts" / "stubs.py").exists(), reason="not in a source tree")
def test_the_stub_is_what_the_registry_says():
    stubs = [sys.executable, ROOT / "scripts" / "stubs.py", "--check"]
    subprocess.run(stubs, check=True)


@pytest.mark.skipif(not (ROOT / "scripts" / "functions.py").exists(), reason="not in a source tree")
def test_the_page_of_functions_is_what_the_registry_says():
    page = [sys.executable, ROOT / "scripts" / "functions.py", "--check"]
    subprocess.run(page, check=True)


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if ra.get_function(name).gives == "named"]
)
def test_several_results_are_a_named_tuple_that_pickles(name):
    made = getattr(ra, "".join(word.capitalize() for word in name.split("_")))
    one = made(*range(len(made._fields)))
    again = pickle.loads(pickle.dumps(one))
    assert again == one and type(again) is made and made.__module__ == "raptors_arrow"
    assert made.__name__ in ra.__all__ and name in made.__doc__


def test_calling_by_name_is_calling():
    x = np.arange(6.0).reshape(3, 2)
    assert ra.call_function("sum", [x]) == ra.sum(x) == ra.get_function("sum")(x) == 15.0
    by_name = ra.call_function("sum", (x,), {"axis": 0, "min_count": 1})
    assert by_name.tolist() == ra.get_function("sum")(x, axis=0).tolist() == [6.0, 9.0]
    assert repr(ra.get_function("scale")).startswith("<raptors_arrow.Function: scale(x, factor")


def test_explain_says_how_a_call_would_run():
    small = ra.explain("scale", np.ones((4, 2), "f4"), 2.0)
    assert (small.function, small.threads, small.store) == ("scale", 1, "cached")
    assert (small.bytes_read, small.bytes_written) == (32, 32)
    assert small.view == "4 x 2 float32, row by row, in 1 chunk, no nulls"
    assert small.backend in ("native", "vdsp")
    assert small.simd in ra.build_info()["simd_available"]
    assert small.task_bytes > 0
    for word in ("view", "copied    nothing", "backend", "simd", "threads", "chunk", "store"):
        assert word in str(small)
    assert repr(small) == str(small)
    columns = ra.explain("sum", np.asfortranarray(np.ones((4, 2))), axis=0)
    assert "column by column" in columns.view


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_call_can_be_explained(name):
    values = numbers((6, 4), "f4", name)
    for rest, options in calls(name, values):
        plan = ra.explain(name, values, *rest, **options)
        assert plan.function == name and plan.copied is None
        # To count, or to ask for nulls, is to look at validity, of which there is none here.
        least = 0 if name in ("count", "is_null") else values.nbytes
        assert plan.bytes_read >= least and plan.threads == 1
        strided = [np.repeat(y, 2, axis=0)[::2] if isinstance(y, np.ndarray) else y for y in rest]
        if any(isinstance(y, np.ndarray) for y in rest):
            named = zip(ra.get_function(name).arguments[1:], rest, strict=False)
            first = next(argument for argument, y in named if isinstance(y, np.ndarray))
            assert ra.explain(name, values, *strided, **options).copied.startswith(f"{first}: ")


def test_build_info_threads_and_pool():
    info = ra.build_info()
    assert info["version"] == ra.__version__
    assert info["functions"] == len(FUNCTIONS)
    before = ra.get_num_threads()
    try:
        ra.set_num_threads(1)
        assert ra.get_num_threads() == ra.build_info()["num_threads"] == 1
    finally:
        ra.set_num_threads(before)
    ra.scale(np.ones((512, 512)), 2)
    stats = ra.pool_stats()
    assert stats.held_bytes > 0 and stats.held_buffers > 0 and "held_bytes" in repr(stats)
    assert ra.release_unused() >= stats.held_bytes - stats.limit_bytes
    assert ra.pool_stats().held_bytes == 0


def test_importing_imports_no_other_library():
    check = (
        "import sys, raptors_arrow as ra; "
        "assert not {'numpy', 'polars', 'pyarrow'} & set(sys.modules), sys.modules; "
        "import array; assert ra.sum(array.array('d', [1, 2])) == 3.0; "
        "assert not {'numpy', 'polars', 'pyarrow'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", check], check=True)


@pytest.mark.parametrize("variable", ["RAPTORS_NUM_THREADS", "RAPTORS_SIMD", "RAPTORS_POOL_BYTES"])
def test_a_setting_that_cannot_be_honoured_is_an_error_of_the_call(variable):
    check = (
        "import array, raptors_arrow as ra\n"
        "try:\n    ra.sum(array.array('d', [1]))\n"
        f"except ValueError as error:\n    assert '{variable}=many' in str(error)\n"
        "else:\n    raise AssertionError"
    )
    subprocess.run([sys.executable, "-c", check], check=True, env={variable: "many"})
