"""Bandwidths, the profile, and the commands `raptors-arrow tune` and `raptors-arrow info`."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import raptors_arrow as ra
from raptors_arrow import _native, cli, tune

NAMES = ["wake_ns"] + [
    f"{kind}_{place}_{who}"
    for kind in ("read", "copy")
    for place in ("l1", "l2", "llc", "memory")
    for who in ("one", "all")
]


def measured(wake_ns: float = 30_000.0, bandwidth: float = 30.0) -> dict[str, float]:
    """Made-up measurements: two cores, each adding as much as the first."""
    values = {name: bandwidth * (2 if name.endswith("all") else 1) for name in NAMES}
    return values | {"wake_ns": wake_ns}


def command(
    *words: str,
    profile: Path | str | None = None,
    cache: Path | None = None,
    measured: dict[str, float] | None = None,
):
    """Run the console script in a process of its own, perhaps with made-up measurements."""
    variables = {k: v for k, v in os.environ.items() if k != "RAPTORS_PROFILE"}
    if profile is not None:
        variables["RAPTORS_PROFILE"] = str(profile)
    if cache is not None:
        variables |= {"XDG_CACHE_HOME": str(cache), "HOME": str(cache)}
    line = [sys.executable, "-m", "raptors_arrow", *words]
    if measured is not None:
        code = (
            "import sys; from raptors_arrow import _native, cli; "
            f"_native._measure = lambda told: {measured}; sys.exit(cli.main({list(words)}))"
        )
        line = [sys.executable, "-c", code]
    return subprocess.run(line, env=variables, capture_output=True, text=True, timeout=600)


def called(*words: str) -> int:
    """Run a command in this process."""
    return cli.main(words)


@pytest.fixture
def profile(tmp_path, monkeypatch):
    """A place for the profile: writing looks at the variable, as this process reads none."""
    path = tmp_path / "raptors-arrow" / "profile.json"
    monkeypatch.setenv("RAPTORS_PROFILE", str(path))
    return path


@pytest.mark.parametrize("kind", ["read", "copy"])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_bandwidth_is_a_positive_number(kind, threads):
    for nbytes in (threads * 1024, 100_001, 8 << 20):
        assert 0 < ra.bandwidth(kind, nbytes, threads, 0.01) < math.inf
    assert ra.bandwidth(kind, nbytes=1 << 20) > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("write", 1 << 20, 1, 0.01), "kind"),
        (("read", 1023, 1, 0.01), "nbytes"),
        (("read", 2047, 2, 0.01), "nbytes"),
        (("read", -1, 1, 0.01), "nbytes"),
        (("read", 1 << 60, 1, 0.01), "nbytes"),
        (("copy", 1 << 20, 0, 0.01), "threads"),
        (("copy", 1 << 20, -2, 0.01), "threads"),
        (("copy", 1 << 20, 1025, 0.01), "threads"),
        (("read", 1 << 20, 1, 0.0), "seconds"),
        (("read", 1 << 20, 1, -1.0), "seconds"),
        (("read", 1 << 20, 1, 61.0), "seconds"),
        (("read", 1 << 20, 1, float("nan")), "seconds"),
    ],
)
def test_bandwidth_refuses_what_cannot_be_measured(arguments, said):
    with pytest.raises(ValueError, match=f"bandwidth: option {said}: expected"):
        ra.bandwidth(*arguments)


def test_the_profile_is_off_in_tests():
    status = ra.profile_status()
    assert (status["state"], status["path"], status["measured"]) == ("off", None, None)
    assert "RAPTORS_PROFILE" in status["reason"]


@pytest.mark.parametrize("steps", [1, 2])
def test_a_callback_that_raises_ends_the_measurement(steps):
    told = []

    def stop(done, of, name):
        told.append(name)
        if len(told) == steps:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _native._measure(stop)
    assert told == NAMES[:steps]


def test_a_measurement_goes_round_all_names_and_tells_each_step():
    told = []
    values = _native._measure(lambda *step: told.append(step))
    assert list(values) == NAMES and all(0 <= value < math.inf for value in values.values())
    steps = told[0][1]
    assert steps % len(NAMES) == 0
    expected = [(i, steps, NAMES[i % len(NAMES)]) for i in range(steps)]
    assert told == [*expected, (steps, steps, "")]


@pytest.mark.timing
def test_tune_takes_ten_seconds_at_most_and_answers_ctrl_c_in_half_of_one(tmp_path):
    begun = time.perf_counter()
    assert command("tune", "--dry-run", "--json", cache=tmp_path).returncode == 0
    assert time.perf_counter() - begun < 10
    line = [sys.executable, "-u", "-m", "raptors_arrow", "tune", "--dry-run"]
    for after in (0.3, 0.9, 1.7, 2.6, 3.4):
        running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(after)
        running.send_signal(signal.SIGINT)
        asked = time.perf_counter()
        running.communicate(timeout=60)
        assert time.perf_counter() - asked < 0.5 and running.returncode in (130, -signal.SIGINT)


def test_plans_follow_the_measurements():
    work = tune._Work("sum", 4096, 256, "float32")
    slow, quick = measured(wake_ns=1e8), measured(wake_ns=200.0)
    assert tune._moves(work) == (4 << 20, 4, False)
    (change,) = tune.plan_changes(slow, before=quick, works=[work])
    assert change["work"] == "sum 4,096 x 256 float32"
    assert change["after"] == {"threads": 1, "store": "cached"}
    assert 1 <= change["before"]["threads"] <= ra.build_info()["num_threads"]
    assert change["changed"] == (change["before"] != change["after"])
    assert not any(c["changed"] for c in tune.plan_changes(slow, before=slow))
    (write,) = tune.plan_changes(slow, works=[tune._Work("scale", 1000, 8, "float64")])
    assert (write["before"]["store"], write["after"]["threads"]) == ("cached", 1)
    with pytest.raises(ValueError, match="read_l1_one is missing"):
        _native._plan(1, 0, False, {"wake_ns": 1e4})


def test_tune_shows_what_changes_and_writes(profile, monkeypatch, capsys):
    monkeypatch.setattr(_native, "_measure", lambda told: measured(wake_ns=1e8))
    for words, code in ((["--dry-run"], 0), (["--dry-run", "--force"], 0), ([], 1)):
        assert called("tune", *words) == code
        shown = capsys.readouterr().out
        assert not profile.exists() and "Nothing was written." in shown
    assert called("tune", "--force") == 0
    shown = capsys.readouterr().out
    for part in ("wake_ns", "100,000,000", "near_bandwidth", "typical plans change", str(profile)):
        assert part in shown
    assert "Tune again" in shown
    if ra.build_info()["num_threads"] > 1:
        assert "sum 2,048 x 2,048 float64" in shown
    kept = json.loads(profile.read_text())
    assert kept["version"] == 1 and kept["measured"] == measured(wake_ns=1e8)
    assert called("tune", "--json", "--force") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["written"] == str(profile) and report["busy"] is True
    assert report["model"]["wake_ns"]["after"] == 1e8
    assert report["measured"]["wake_ns"] == {"before": None, "after": 1e8}
    assert len(report["plans"]) == len(tune._TYPICAL)
    monkeypatch.setattr(_native, "_measure", lambda told: measured())
    assert called("tune") == 0 and "Tune again" not in capsys.readouterr().out
    assert called("tune", "--reset") == 0
    assert not profile.exists() and "removed" in capsys.readouterr().out
    assert called("tune", "--reset", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"path": str(profile), "removed": False}


def test_tune_without_a_place_says_so(monkeypatch, capsys):
    monkeypatch.setattr(_native, "_measure", lambda told: measured())
    assert called("tune") == 1
    assert "RAPTORS_PROFILE" in capsys.readouterr().err
    assert called("tune", "--dry-run") == 0


def test_progress_without_rich(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with tune._progress(quiet=False) as told:
        for step, name in enumerate(NAMES):
            told(step, len(NAMES), name)
    assert capsys.readouterr().out == f"measuring: 0 of {len(NAMES)} steps done\n"


@pytest.mark.skipif(sys.platform != "linux", reason="the cache directory is another one")
def test_a_tuned_machine_is_read_by_the_next_process(tmp_path):
    before = int(time.time())
    # Made up: what is measured on a machine that is busy may be refused.
    run = command("tune", "--json", cache=tmp_path, measured=measured())
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    path = tmp_path / "raptors-arrow" / "profile.json"
    assert report["written"] == str(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]
    after = {name: change["after"] for name, change in report["measured"].items()}
    assert after == measured()
    about = json.loads(command("info", "--json", cache=tmp_path).stdout)
    assert about["profile"]["state"] == "used"
    assert about["profile"]["measured"] == after and list(after) == NAMES
    assert before <= about["profile"]["measured_at"] <= time.time()
    text = command("info", cache=tmp_path).stdout
    assert f"{path}, measured 20" in text and "UTC, used" in text
    # Another machine's profile is no reason to warn; a damaged one is, and changes no result.
    sound = path.read_text()
    cores = ra.build_info()["cores"]
    path.write_text(sound.replace(f'"cores": {cores}', '"cores": 999'))
    run = command("info", cache=tmp_path)
    assert "other machine: it was measured where cores is 999" in run.stdout
    assert run.stderr == ""
    path.write_text(sound[:-20])
    run = command("info", cache=tmp_path)
    assert "ignored: not JSON" in run.stdout and run.returncode == 0
    assert run.stderr.count("RaptorsWarning") == 1 and str(path) in run.stderr


def test_a_profile_that_is_off_is_not_read(tmp_path):
    path = tmp_path / "raptors-arrow" / "profile.json"
    path.parent.mkdir()
    path.write_text("damaged")
    for off in ("off", ""):
        run = command("info", "--json", profile=off, cache=tmp_path)
        assert json.loads(run.stdout)["profile"]["state"] == "off"
        assert run.stderr == ""
    run = command("info", "--json", profile=path)
    assert json.loads(run.stdout)["profile"]["state"] == "ignored"
    assert "RaptorsWarning" in run.stderr


def test_info_says_what_there_is(capsys):
    assert called("info") == 0
    shown = capsys.readouterr().out
    build = ra.build_info()
    assert build["target"].startswith(build["arch"]) and build["features"] == ["python"]
    for part in (ra.__version__, build["simd"], build["target"], "profile", "pool", "numpy"):
        assert part in shown
    assert called("info", "--json") == 0
    about = json.loads(capsys.readouterr().out)
    assert about["build"] == build
    assert about["libraries"]["numpy"] and "held_bytes" in about["pool"]
    assert about["profile"]["state"] == "off"
