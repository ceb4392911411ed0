"""`raptors-arrow run`: its grammar, its files, and that nothing half-written is left."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from test_expressions import same, table

import raptors_arrow as ra
from raptors_arrow._parse import ParseError, parse
from raptors_arrow.cli import main

WHOLE = table(2000, 300)
EMB = ra.col("emb")


def no_file(path, column):
    raise AssertionError("no file is named")


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("emb.mean(axis=0)", {"emb_mean": EMB.mean(axis=0)}),
        ("a = emb.mean(axis = 0), emb.std(0)", {"a": EMB.mean(axis=0), "emb_std": EMB.std(0)}),
        ("n = len();", {"n": ra.len()}),
        ("x = (emb * 2 + 1).clip(0, max=1e-1)", {"x": (EMB * 2 + 1).clip(0, max=0.1)}),
        ("x = 1 - -emb / 2", {"x": 1 - (-EMB) / 2}),
        ("x = 2 * emb", {"x": EMB * 2}),
        ("x = emb.scale(2 * 3 - .5)", {"x": EMB.scale(5.5)}),
        ("x = emb.add([1, -2.5, 1_000])", {"x": EMB.add(pa.array([1, -2.5, 1000]))}),
        ("x = emb.norm(axis=1, ord='inf')", {"x": EMB.norm(axis=1, ord="inf")}),
        ("x = emb.mean(skip_nulls=False, axis=None)", {"x": EMB.mean(skip_nulls=False, axis=None)}),
        ("`odd name, with; signs`.sum()", {"odd name, with; signs_sum": None}),
        ("`x y` = emb.sum()", {"x y": EMB.sum()}),
        ("emb.multiply(w)", {"emb_multiply": EMB.multiply(ra.col("w"))}),
        ("größe.sum()", {"größe_sum": ra.col("größe").sum()}),
    ],
)
def test_what_a_text_means(text, means):
    made = parse(text, no_file)
    assert list(made) == list(means)
    for name, expr in means.items():
        assert expr is None or repr(made[name]) == repr(expr)


@pytest.mark.parametrize(
    ("text", "says", "at"),
    [
        ("", "expected a column, a number, a list or @file, got the end", 0),
        ("emb.mean(axis=0", "expected ',' or '\\)', got the end", 15),
        ("emb.meen()", "meen", 4),
        ("emb.mean(axes=0)", "mean: .*its signature is", 4),
        ("emb.mean(axis=7)", "axis", 4),
        ("emb.mean(axis=0) emb", "expected ';' or ',', got 'emb'", 17),
        ("emb.norm(ord=inf)", "expected a value for ord; a word is written in quotes", 13),
        ("a = 3", "expected an expression of a column, got a value", 4),
        ("mean(emb)", r"expected a column before mean\(…\)", 0),
        ("x = (3).mean()", "expected a column before a function, got a value", 4),
        ("emb.mean", "expected '\\(' after mean, got the end", 8),
        ("emb.scale(2) ? 3", "expected an expression, got '\\?'", 13),
        ("emb.scale('a", "expected an end of this text", 10),
        ("a = emb.sum(), a = emb.sum()", "a is there twice", 15),
        ("emb.scale(1/0)", "division by zero", 11),
        ("emb.add([emb])", "in a list", 9),
        ("emb.dot(@nowhere.parquet)", "no such file or directory: nowhere.parquet", 8),
        ("__import__('os').system('true')", "expected a column before __import__", 0),
        ("emb.__class__()", "no function", 4),
    ],
)
def test_mistakes_are_pointed_at(text, says, at):
    from raptors_arrow.run import _operand

    with pytest.raises(ParseError, match=says) as caught:
        parse(text, _operand)
    _, line, caret = str(caught.value).rsplit("\n", 2)
    assert line == f"  {text}" and caret == " " * (at + 2) + "^"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pq.write_table(WHOLE[:700], "a.parquet")
    pq.write_table(WHOLE[700:], "b.parquet")
    query = pa.array([[1.0, 2.0, 3.0]], pa.list_(pa.float32(), 3))
    pq.write_table(pa.table({"q": query}), "q.parquet")
    return tmp_path


def test_rows_are_written_beside_the_columns(folder):
    query = pa.array([1.0, 2.0, 3.0], pa.float32())
    expected = ra.with_columns(WHOLE, unit=EMB.normalize(), score=EMB.dot(query))
    text = "unit = emb.normalize(); score = emb.dot(@q.parquet)"
    for name in ("out.parquet", "out.arrow", "out.arrows"):
        assert main(["run", text, "a.parquet", "b.parquet", "-o", name]) == 0
        again = ra.select(name, n=ra.len())
        assert again["n"].to_pylist() == [2000]
        made = ra.with_columns(name, copy=ra.col("score")).read_all().drop_columns("copy")
        assert same(made.cast(expected.schema), expected)
    assert main(["run", text, "[ab].parquet", "-o", "out.parquet", "--only"]) == 0
    assert pq.read_schema("out.parquet").names == ["unit", "score"]
    assert not list(folder.glob(".*partial"))


def test_statistics_are_shown(folder, capsys):
    assert main(["run", "emb.mean(axis=0), n = len()", "a.parquet", "b.parquet", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == {"emb_mean": ra.mean(WHOLE["emb"], axis=0).to_pylist(), "n": 2000}
    assert main(["run", "emb.mean(axis=0), n = len()", "a.parquet", "b.parquet"]) == 0
    shown = capsys.readouterr().out
    assert "emb_mean" in shown and "2000" in shown
    assert main(["run", "emb.std(axis=0)", "a.parquet", "-o", "std.parquet"]) == 0
    assert pq.read_table("std.parquet").num_rows == 1
    odd = pa.table({"odd name": [1.0, None, float("inf")]})
    pa.csv.write_csv(odd, "odd.csv")
    assert main(["run", "`odd name`.max(), least = `odd name`.min()", "odd.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"odd name_max": "Infinity", "least": 1.0}


def test_what_needs_two_passes_takes_them(folder):
    assert main(["run", "c = emb.center()", "a.parquet", "b.parquet", "-o", "out.parquet"]) == 0
    made = pq.read_table("out.parquet")["c"].combine_chunks()
    assert made.equals(ra.center(WHOLE["emb"]).combine_chunks().cast(made.type))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["emb.scale(2)", "a.parquet"], "write it to a file with -o FILE"),
        (["emb.scale(2)", "a.parquet", "-o", "out.txt"], "expected an output of .parquet"),
        (["emb.scale(2)", "a.parquet", "-o", "no/out.parquet"], "no such folder to write to: no"),
        (["emb.sum()", "nowhere.parquet"], "no such file or directory: nowhere.parquet"),
        (["nope.sum()", "a.parquet"], "'nope' is not there; the columns are id, emb, w"),
        (["emb.dot(@a.parquet)", "a.parquet", "-o", "o.arrow"], "got id, emb, w; name one: @a.par"),
        (["emb.dot(@a.parquet[emb])", "a.parquet", "-o", "o.arrow"], "which lines up with rows"),
        (["emb.dot(@q.parquet[x])", "a.parquet", "-o", "o.arrow"], "no column 'x'; it has q"),
    ],
)
def test_mistakes_are_named_and_leave_nothing(folder, words, says, capsys):
    before = sorted(os.listdir())
    assert main(["run", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("raptors-arrow run: ") and says in error
    assert sorted(os.listdir()) == before


def test_a_damaged_file_is_an_error_in_one_line(folder, capsys):
    (folder / "damaged.parquet").write_bytes(b"PAR1 this is none PAR1")
    assert main(["run", "emb.sum()", "damaged.parquet"]) == 1
    assert capsys.readouterr().err.startswith("raptors-arrow run: ")


PROGRAM = """
import sys
from raptors_arrow.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def started(folder, *words, code=""):
    """The command in a process of its own, after some code."""
    command = [sys.executable, "-c", code + PROGRAM, "run", *words]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_leaves_the_output_as_it_was(folder):
    (folder / "out.parquet").write_text("what was there")
    # A producer that has just been asked for its second batch, and never gives it.
    code = """
import time
import raptors_arrow.sources as sources
from raptors_arrow import _files
plain = _files.dataset_batches
def slow(dataset):
    batches, again = plain(dataset)
    def given(columns):
        for batch in batches(columns):
            yield batch
            print("waits", flush=True, file=__import__("sys").stderr)
            time.sleep(600)
    return given, again
_files.dataset_batches = slow
"""
    words = ["x = emb.scale(2)", "a.parquet", "-o", "out.parquet"]
    with started(folder, *words, code=code) as ran:
        assert ran.stderr.readline() == "waits\n"
        while not list(folder.glob(".out.parquet.*.partial")):
            assert ran.poll() is None
            time.sleep(0.01)
        ran.send_signal(signal.SIGINT)
        assert "interrupted" in ran.stderr.read()
        assert ran.wait() == 130
    assert (folder / "out.parquet").read_text() == "what was there"
    assert not list(folder.glob(".out*"))


@pytest.mark.skipif(os.name != "posix", reason="limits of POSIX")
@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_a_full_disk_leaves_the_output_as_it_was(folder, name):
    (folder / name).write_text("what was there")
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))"
    words = ["x = emb.scale(2)", "a.parquet", "b.parquet", "-o", name]
    with started(folder, *words, code=code) as ran:
        error = ran.stderr.read()
        assert ran.wait() == 1
    assert error.startswith("raptors-arrow run: ") and "Traceback" not in error
    assert (folder / name).read_text() == "what was there"
    assert not list(folder.glob(".out*"))


def test_progress_goes_to_the_other_stream(folder, capsys):
    assert main(["run", "emb.sum()", "a.parquet", "--json", "--progress"]) == 0
    out, err = capsys.readouterr()
    assert "700 of 700 (100%) rows" in err
    assert json.loads(out)["emb_sum"] == pytest.approx(np.nansum(ra.sum(WHOLE["emb"][:700])))
