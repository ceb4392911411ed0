"""The console script: its commands, its errors, and what it does not import."""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

import raptors_arrow as ra
from raptors_arrow.cli import main


def python(code: str, *flags: str, **variables) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *flags, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=600,
    )


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


@pytest.mark.parametrize("command", ["info", "tune --dry-run", "bench --list"])
@pytest.mark.parametrize("variable", ["NUM_THREADS", "SIMD", "BACKEND", "POOL_BYTES"])
def test_settings_that_are_junk_are_named(variable, command):
    variable = f"RAPTORS_{variable}"
    code = f"import sys; from raptors_arrow.cli import main; sys.exit(main({command.split()}))"
    ran = python(code, **{variable: "junk"})
    if command == "bench --list":  # which computes nothing
        assert ran.returncode == 0, ran.stderr
        return
    assert ran.returncode == 2
    name = command.split()[0]
    assert ran.stderr.startswith(f"raptors-arrow {name}: {variable}=junk: "), ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.skipif(os.name != "posix", reason="variables are text elsewhere")
@pytest.mark.parametrize("variable", ["NUM_THREADS", "SIMD", "BACKEND", "POOL_BYTES"])
def test_settings_that_are_not_utf_8_are_errors_that_name_them(variable):
    variable = f"RAPTORS_{variable}"
    code = f"""
import raptors_arrow as ra
try:
    ra.sum(memoryview(b"ab"))
except ra.RaptorsValueError as error:
    assert str(error).startswith("{variable}=2") and "UTF-8" in str(error), error
else:
    raise SystemExit("no error")
"""
    ran = python(code, **{variable: os.fsdecode(b"2\xff")})
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("flags", [[], ["-W", "error"]])
def test_a_damaged_profile_is_no_reason_not_to_import(flags, tmp_path):
    damaged = tmp_path / "profile.json"
    damaged.write_text("damaged")
    code = "import raptors_arrow as ra; print(ra.profile_status()['state'])"
    ran = python(code, *flags, RAPTORS_PROFILE=str(damaged))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "ignored\n"
    assert ran.stderr.count("RaptorsWarning") == 1 and str(damaged) in ran.stderr


def test_the_guide_says_the_defaults_once_and_as_they_are():
    guide = Path(__file__).resolve().parents[2] / "docs" / "guide"
    rows = [
        (page.name, line)
        for page in sorted(guide.glob("*.md"))
        for line in page.read_text().splitlines()
        if line.startswith("| `RAPTORS_")
    ]
    assert {name for name, _ in rows} == {"settings.md"}
    assert sum("the smaller of 2 GiB and 1/8 of memory" in line for _, line in rows) == 1
    code = (
        "import raptors_arrow as ra; "
        "assert ra.pool_stats().limit_bytes == min(2 << 30, ra.build_info()['memory_bytes'] // 8)"
    )
    ran = python(code, RAPTORS_POOL_BYTES="")
    assert ran.returncode == 0, ran.stderr


def test_dir_shows_what_is_for_people():
    shown = dir(ra)
    assert {*ra.__all__, "__doc__", "__version__"} <= set(shown)
    more = [name for name in shown if not name.startswith("__") and name not in ra.__all__]
    engines = {"daft", "datafusion", "duckdb", "ray", "spark"}
    builtins = {"abs", "len", "max", "min", "round", "sum"}  # which a star import leaves to Python
    assert set(more) == engines | builtins
    assert not {"Any", "TYPE_CHECKING", "warnings", "when_imported", "warn"} & set(shown)


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
