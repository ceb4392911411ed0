"""The console script: its commands, its errors, and what it does not import."""

import importlib.metadata
import subprocess
import sys

import pytest

import raptors_arrow as ra
from raptors_arrow.cli import main


def python(code: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_version(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out == f"raptors-arrow {ra.__version__}\n"


def test_help_names_the_commands(capsys):
    with pytest.raises(SystemExit) as exit:
        main(["--help"])
    assert exit.value.code == 0
    shown = capsys.readouterr().out
    assert all(f"\n    {name}" in shown for name in ("bench", "tune", "info"))


@pytest.mark.parametrize("words", [[], ["fly"]])
def test_no_command_or_an_unknown_one_is_an_error(words, capsys):
    with pytest.raises(SystemExit) as exit:
        main(words)
    assert exit.value.code == 2
    assert "usage: raptors-arrow" in capsys.readouterr().err


def test_module_is_the_console_script():
    ran = subprocess.run(
        [sys.executable, "-m", "raptors_arrow", "bench", "--list", "--filter", "sum/float64/512"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[0] == "seed  sum/float64/512x512"
    assert "peer  numpy" in ran.stdout


def test_console_script_is_installed():
    scripts = importlib.metadata.entry_points(group="console_scripts", name="raptors-arrow")
    assert [script.load() for script in scripts] == [main]


def test_help_imports_no_command():
    code = """
import sys
from raptors_arrow.cli import main
try:
    main(["--help"])
except SystemExit:
    pass
loaded = {"raptors_arrow.bench", "numpy", "pyarrow", "rich"} & sys.modules.keys()
assert not loaded, loaded
"""
    ran = python(code)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("package", ["rich", "numpy", "pyarrow"])
def test_a_missing_package_is_named_with_its_extra(package):
    code = f"""
import sys
sys.modules[{package!r}] = None
from raptors_arrow.cli import main
sys.exit(main(["bench", "--list"]))
"""
    ran = python(code)
    assert ran.returncode == 2
    assert f"expected the package {package}" in ran.stderr
    assert "pip install 'raptors-arrow[bench]'" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--suite", "none"], "--suite: expected some of seed, shapes"),
        (["--peers", "numpy,nobody"], "--peers: expected some of numpy"),
        (["--filter", "nothing"], "--filter: expected a part of a cell's name"),
        (["--rounds", "3"], "expected at least 7 rounds"),
        (["--filter", "sum", "--report", "nowhere"], "--report: expected whole suites"),
        (["--seconds", "-1"], "a time of 0 or more"),
        (["--threads", "0"], "--threads: expected"),
    ],
)
def test_mistakes_are_named(words, says, capsys):
    assert main(["bench", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("raptors-arrow bench: ")
    assert says in error
