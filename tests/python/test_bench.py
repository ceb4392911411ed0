"""The comparison: cells, statistics, checks and timing, and small real runs."""

import json
import random
import statistics
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

import raptors_arrow as ra
from raptors_arrow import _native
from raptors_arrow.bench import memory, runner, stats, timing
from raptors_arrow.bench.cells import SUITES, Cell, cells_of, select
from raptors_arrow.bench.check import MismatchError, as_values, check
from raptors_arrow.bench.functions import FUNCTIONS, Answer
from raptors_arrow.bench.inputs import Inputs
from raptors_arrow.bench.peers import PEERS, Peer, by_name
from raptors_arrow.bench.results import Ratio, from_json
from raptors_arrow.bench.roofline import bound, kinds_of
from raptors_arrow.cli import main


def test_seed_has_36_cells():
    cells = cells_of("seed")
    assert len({cell.name for cell in cells}) == len(cells) == 36
    assert {cell.shape for cell in cells} == {"512x512", "1024x1024", "2048x2048"}
    assert {cell.function for cell in cells} == {
        *("sum", "mean", "mean_axis0", "mean_axis1", "broadcast_add", "scale")
    }


@pytest.mark.parametrize("suite", SUITES)
def test_every_cell_has_a_function_and_a_name_of_its_own(suite):
    cells = cells_of(suite)
    assert len({cell.name for cell in cells}) == len(cells) > 0
    assert {cell.function for cell in cells} <= FUNCTIONS.keys()


def test_select_by_text_and_glob():
    cells = cells_of("seed")
    assert len(select(cells, "mean_axis0/float32")) == 3
    assert [cell.name for cell in select(cells, "sum/*64/5*")] == ["sum/float64/512x512"]
    assert select(cells, "sum*/512") == []


def test_median_quartiles_and_interval_of_known_data():
    values = random.Random(1).sample(range(1, 102), 101)
    assert stats.median(values) == 51
    assert stats.quartiles(values) == (26, 76)
    # Of 101 values the 41st and the 61st: P(41 <= Bin(101, 1/2) <= 60) = 95.4 %.
    assert stats.median_interval(values) == (41, 61)
    assert stats.median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)


def test_the_interval_holds_the_median_as_often_as_it_says():
    rng = random.Random(2)
    inside = 0
    for _ in range(2000):
        low, high = stats.median_interval([rng.expovariate(1) for _ in range(25)])
        inside += low <= 0.6931471805599453 <= high
    # At least 95 %, less three standard deviations of the 2000 trials.
    assert inside / 2000 >= 0.95 - 3 * (0.95 * 0.05 / 2000) ** 0.5


@pytest.mark.parametrize(
    ("low", "high", "says"),
    [(1.01, 1.2, "faster"), (0.8, 0.99, "slower"), (0.9, 1.1, "tie"), (1.0, 1.5, "tie")],
)
def test_an_interval_that_holds_one_is_a_tie(low, high, says):
    assert stats.verdict(low, high) == says


def test_ratios_are_taken_round_by_round():
    # The machine becomes ten times slower half way; the ratio of each round stays 2.
    ours = [1.0] * 5 + [10.0] * 5
    ratio = Ratio.of("numpy", [2 * time for time in ours], ours)
    assert (ratio.ratio, ratio.low, ratio.high, ratio.verdict) == (2.0, 2.0, 2.0, "faster")


def test_contestants_take_turns():
    seen = []
    contestants = [
        timing.Contestant(name, lambda name=name: seen.append(name)) for name in ("a", "b")
    ]
    times = timing.take_turns(contestants, seconds=0, rounds=100)
    assert [len(times[name]) for name in ("a", "b")] == [stats.MIN_ROUNDS] * 2
    changes = sum(one != other for one, other in pairwise(seen))
    assert changes >= stats.MIN_ROUNDS
    assert all(time > 0 for one in times.values() for time in one)


def test_what_bounds_a_call():
    assert kinds_of(100, 0) == ("read",)
    assert bound(10**9, 0, {"read": 20.0}) == pytest.approx(0.05)
    assert bound(10**9, 10**9, {"copy": 20.0}) == pytest.approx(0.1)
    assert bound(10**9, 5 * 10**8, {"copy": 20.0, "read": 10.0}) == pytest.approx(0.1)


@pytest.mark.parametrize(
    "result",
    [
        np.float32([1, 2, 3, 4]),
        pa.array([1.0, 2, 3, 4]),
        pa.array([[1.0, 2], [3, 4]], pa.list_(pa.float32(), 2)),
        pa.chunked_array([[1.0, 2], [3, 4]]),
        pa.table({"v": [1.0, 2, 3, 4]}),
        [1, 2, 3, 4],
    ],
)
def test_results_of_all_kinds_become_values(result):
    assert as_values(result).ravel().tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_our_own_results_are_right(name):
    cell = Cell("vectors", name, "float32", 200, 24)
    function, inputs = FUNCTIONS[name], Inputs(cell)
    check(cell, "raptors-arrow", function.ours(inputs)(), function.answer(inputs), "float64")


def test_a_wrong_result_names_cell_and_contestant():
    cell = Cell("seed", "sum", "float32", 10, 10)
    right = Answer(np.float64(3.0), 1, 100, 3.0)
    check(cell, "numpy", 3.0 + 8 * 10 * 2**-24 * 3, right, "float32")
    with pytest.raises(MismatchError, match=r"sum/float32/10x10: expected 3.0 within .* numpy"):
        check(cell, "numpy", 3.001, right, "float32")
    with pytest.raises(MismatchError, match="got nan"):
        check(cell, "numpy", float("nan"), right, "float32")
    with pytest.raises(MismatchError, match="expected 1 values from numpy, got 2"):
        check(cell, "numpy", [3.0, 3.0], right, "float32")


def test_a_single_operation_must_be_rounded_correctly():
    cell = Cell("seed", "scale", "float32", 4, 4)
    inputs = Inputs(cell)
    right = FUNCTIONS["scale"].answer(inputs)
    product = np.multiply(inputs.x, np.float32(inputs.factor))
    check(cell, "numpy", product, right, "float32")
    with pytest.raises(MismatchError):
        check(cell, "numpy", np.nextafter(product, np.float32(9)), right, "float32")


def test_inputs_are_one_memory_and_repeat():
    inputs = Inputs(Cell("seed", "sum", "float64", 5, 3))
    address = inputs.x.ctypes.data
    assert address % 64 == 0
    assert (
        inputs.flat.buffers()[1].address == inputs.arrow.flatten().buffers()[1].address == address
    )
    assert (Inputs(Cell("seed", "mean", "float64", 5, 3)).x == inputs.x).all()


@pytest.mark.parametrize(
    "peer",
    [
        pytest.param(peer, id=peer.name, marks=[pytest.mark.slow] * (peer.name == "jax"))
        for peer in PEERS
        if peer.checked
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peers_give_the_right_results(peer, dtype):
    if not peer.installed:
        pytest.skip(f"{peer.package} is not installed")
    for function, maker in peer.jobs().items():
        cell = Cell("seed", function, dtype, 300, 17)
        inputs = Inputs(cell)
        result = peer.read.get(function, lambda value: value)(maker(inputs)())
        right = FUNCTIONS[function].answer(inputs)
        check(cell, peer.name, result, right, peer.precision or dtype)


def bandwidth(kind: str, nbytes: int, threads: int, seconds: float) -> float:
    """Stand in for a measurement of 20 ms."""
    assert kind in ("read", "copy")
    assert nbytes > 0
    assert seconds > 0
    return 10.0 * threads


def test_a_small_real_run():
    cells = [replace(cell, rows=200, width=100) for cell in cells_of("seed")[:6]]
    peers = [*by_name(["numpy", "pyarrow"]), Peer("nobody", "no_such_package", dict)]
    result = runner.measure_suite(
        "seed", cells, peers, runner.Budget(0.02, 20), bandwidth=bandwidth
    )
    assert [one.cell for one in result.cells] == cells
    assert result.peers == ["numpy", "pyarrow"]
    assert result.left_out["nobody"] == ["not installed (pip install no_such_package)"]
    assert result.left_out["pyarrow"] == ["no mean_axis0", "no mean_axis1"]
    for one in result.cells:
        assert one.ours.q1 <= one.ours.median <= one.ours.q3
        assert one.ours.rounds >= stats.MIN_ROUNDS
        ratio = one.ratio("numpy")
        assert ratio.low <= ratio.ratio <= ratio.high
        assert 0 < one.roofline.share
    assert from_json(json.loads(json.dumps(result.to_json()))) == result


def test_the_command_measures(tmp_path, capsys):
    path = tmp_path / "out.json"
    words = ["--filter", "sum/float32/512x512", "--peers", "numpy,polars", "--seconds", "0.05"]
    assert main(["bench", *words, "--json", str(path)]) == 0
    (cell,) = json.loads(path.read_text())["suites"][0]["cells"]
    assert [ratio["peer"] for ratio in cell["ratios"]] == ["numpy", "polars"]
    assert all(speed > 0 for speed in cell["roofline"]["bandwidth"].values())
    assert "geometric mean against numpy: " in capsys.readouterr().out


def test_scaling_races_our_own_threads():
    threads = ra.get_num_threads()
    ra.set_num_threads(2)
    try:
        result = runner.measure_suite(
            "scaling", cells_of("scaling")[:1], [], runner.Budget(0, 7), bandwidth=bandwidth
        )
        assert ra.get_num_threads() == 2
    finally:
        ra.set_num_threads(threads)
    assert [ratio.peer for ratio in result.cells[0].ratios] == ["1 thread"]


def test_a_function_that_is_not_there_is_named(monkeypatch):
    monkeypatch.delattr(ra, "scale")
    cells = [Cell("seed", "scale", "float32", 8, 8)]
    result = runner.measure_suite("seed", cells, [], runner.Budget(0, 7), bandwidth=bandwidth)
    assert result.cells == []
    assert result.left_out == {runner.OURS: ["no scale"]}


def test_a_peer_that_raises_is_left_out_with_its_reason():
    def fail(inputs):
        raise RuntimeError("out of luck")

    peer = Peer("numpy", "numpy", lambda: {"sum": fail})
    cells = [Cell("seed", "sum", "float32", 8, 8)]
    result = runner.measure_suite("seed", cells, [peer], runner.Budget(0, 7), bandwidth=bandwidth)
    assert result.cells[0].ratios == []
    assert result.left_out == {"numpy": ["sum/float32/8x8 raised RuntimeError: out of luck"]}


def test_a_peer_that_is_wrong_is_not_timed():
    peer = Peer("numpy", "numpy", lambda: {"sum": lambda inputs: lambda: 0.0})
    cells = [Cell("seed", "sum", "float32", 8, 8)]
    result = runner.measure_suite("seed", cells, [peer], runner.Budget(0, 7), bandwidth=bandwidth)
    assert result.cells[0].ratios == []
    assert result.left_out["numpy"][0].startswith("sum/float32/8x8: expected ")


def test_we_are_not_timed_when_wrong(monkeypatch, capsys):
    monkeypatch.setattr(ra, "sum", lambda x: 0.0)
    cells = [Cell("seed", "sum", "float32", 8, 8)]
    with pytest.raises(MismatchError, match="sum/float32/8x8: expected .* from raptors-arrow"):
        runner.measure_suite("seed", cells, [], runner.Budget(0, 7), bandwidth=bandwidth)
    monkeypatch.setattr(_native, "bandwidth", bandwidth, raising=False)
    assert main(["bench", "--suite", "overhead", "--filter", "sum/float32"]) == 2
    assert "sum/float32/8x8: expected" in capsys.readouterr().err


def test_interrupted_runs_keep_what_was_measured():
    cells = [replace(cell, rows=8, width=8) for cell in cells_of("seed")[:3]]

    def stop(name: str) -> None:
        if name.startswith("mean_axis0"):
            raise KeyboardInterrupt

    result = runner.measure_suite(
        "seed", cells, [], runner.Budget(0, 7), bandwidth=bandwidth, progress=stop
    )
    assert [one.cell.function for one in result.cells] == ["sum", "mean"]
    assert result.interrupted


def test_peak_memory_of_a_call():
    one = memory.measure(Cell("memory", "scale", "float32", 4000, 1000))
    assert one.output_bytes == 16_000_000
    # The output is there, and a copy of the input would show.
    assert 0.9 * one.output_bytes <= one.growth_bytes < 2 * one.output_bytes


def test_order_statistics_agree_with_the_library():
    values = [random.Random(3).random() for _ in range(30)]
    low, high = statistics.quantiles(values, n=4, method="inclusive")[::2]
    assert stats.quartiles(values) == pytest.approx((low, high))


def test_peers_have_names_of_their_own():
    assert len({peer.name for peer in PEERS}) == len(PEERS)
    assert all(function in FUNCTIONS for peer in PEERS[:4] for function in peer.jobs())
