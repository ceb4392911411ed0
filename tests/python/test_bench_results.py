"""What is made of measurements: charts, bars, files, reports and exit codes."""

import json
import xml.etree.ElementTree as ET

import pytest

from raptors_arrow.bench import bars, chart, command, report, runner
from raptors_arrow.bench.bars import Bar, Cells, evaluate
from raptors_arrow.bench.cells import SUITES, Cell, cells_of
from raptors_arrow.bench.functions import FUNCTIONS
from raptors_arrow.bench.results import CellResult, Memory, Ratio, SuiteResult, Timing
from raptors_arrow.bench.roofline import Roofline
from raptors_arrow.cli import main

SVG = "{http://www.w3.org/2000/svg}"


def measured(cell: Cell, ratios: dict[str, float], share: float = 0.9) -> CellResult:
    """Make a result as a run would, from ratios."""
    ours = [1e-3] * 9
    size = cell.elements * cell.itemsize
    elementwise = FUNCTIONS[cell.function].elementwise
    return CellResult(
        cell,
        elementwise,
        Timing.of(ours),
        [Ratio.of(peer, [1e-3 * ratio] * 9, ours) for peer, ratio in ratios.items()],
        Roofline(size, size * elementwise, {"read/2": 30.0}, share * 1e-3, share),
    )


def seed(ratio: float = 2.0, **others: float) -> SuiteResult:
    """Make a seed suite in which every cell has the same ratios."""
    ratios = {"numpy": ratio} | others
    cells = [measured(cell, ratios) for cell in cells_of("seed")]
    return SuiteResult("seed", 2, cells, left_out={"jax": ["not installed"]}, order=[*ratios])


@pytest.fixture
def fake(monkeypatch):
    """Let the command measure what a test says."""

    def use(*results: SuiteResult) -> None:
        waiting = list(results)
        monkeypatch.setattr(runner, "measure_suite", lambda *args, **options: waiting.pop(0))

    return use


def test_chart_is_xml_with_all_cells_and_peers():
    result = seed(2.0, polars=0.5, jax=1.0)
    root = ET.fromstring(chart.draw(result))
    cells = [node.get("data-cell") for node in root.iter(f"{SVG}g") if node.get("data-cell")]
    assert sorted(cells) == sorted(cell.name for cell in cells_of("seed"))
    hints = [node.text for node in root.iter(f"{SVG}title")]
    assert sum("polars" in hint for hint in hints) == 36
    assert ET.fromstring(chart.draw(SuiteResult("seed", 2))) is not None


def test_bars_of_a_good_and_a_bad_suite():
    good = evaluate([seed(3.0, pyarrow=3.0)])
    assert good
    assert all(one.met for one in good)
    bad = seed(3.0)
    bad.cells[7] = measured(bad.cells[7].cell, {"numpy": 0.5})
    missed = [one for one in evaluate([bad]) if not one.met]
    assert {one.bar.text for one in missed} == {
        "every cell against NumPy",
        "reductions against NumPy",
    }
    assert missed[0].worst == f"seed: {bad.cells[7].cell.name}"
    assert missed[0].measured == pytest.approx(0.5)


def test_bars_without_a_measured_cell_have_no_outcome():
    assert evaluate([]) == []
    assert {bar for one in bars.BARS for bar in one.suites} <= set(SUITES)


def test_bars_on_cost_of_an_element_and_memory():
    flat = Bar("flat", ("scaling",), 1.5, figures=bars.flatness, at_most=True)
    cells = [measured(Cell("scaling", "sum", "float32", 2**p, 64), {}) for p in (14, 15)]
    (outcome,) = evaluate([SuiteResult("scaling", 2, cells)], [flat])
    assert (outcome.measured, outcome.met) == (2.0, False)
    peak = Memory(Cell("memory", "scale", "float32", 2048, 2048), 16 << 20, 16 << 20, 20 << 20)
    (outcome,) = evaluate([SuiteResult("memory", 2, memory=[peak])])
    assert outcome.met
    assert outcome.measured == pytest.approx(4.194304)


@pytest.mark.parametrize(
    ("cells", "inside"),
    [
        (Cells(), True),
        (Cells(("mean*",)), False),
        (Cells(max_width=16), False),
        (Cells(shape="2048x*", elementwise=False), True),
        (Cells(min_bytes=16 * bars.MB), True),
        (Cells(min_bytes=17 * bars.MB), False),
    ],
)
def test_cells_of_a_bar(cells, inside):
    one = measured(Cell("seed", "sum", "float32", 2048, 2048), {})
    assert (one in cells) is inside


@pytest.mark.parametrize(("least", "code"), [("1.5", 0), ("2.5", 1)])
def test_min_ratio_exits_1_and_names_the_cells(fake, capsys, least, code):
    fake(seed(2.0, polars=0.1))
    assert main(["bench", "--min-ratio", least]) == code
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 36 * code
    if code:
        assert errors[0] == "below 2.5: seed: sum/float32/512x512 against numpy: 2.000"


def test_min_ratio_holds_for_the_peers_that_are_asked_for(fake, capsys):
    fake(seed(2.0, polars=0.1))
    assert main(["bench", "--peers", "polars", "--min-ratio", "1.0"]) == 1
    assert "against polars: 0.100" in capsys.readouterr().err


@pytest.mark.parametrize(("ratio", "code"), [(3.0, 0), (1.1, 1)])
def test_check_bars_exits_1_on_a_miss(fake, capsys, ratio, code):
    fake(seed(ratio))
    assert main(["bench", "--check-bars"]) == code
    assert "missed" in capsys.readouterr().out


def test_an_interrupted_run_shows_what_there_is_and_records_nothing(fake, tmp_path, capsys):
    result = seed()
    result.interrupted = True
    fake(result)
    assert main(["bench", "--report", str(tmp_path)]) == 130
    assert "interrupted" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_files(fake, tmp_path, capsys):
    fake(seed(2.0))
    paths = {option: tmp_path / f"out.{option}" for option in ("json", "markdown", "chart")}
    options = [word for option, path in paths.items() for word in (f"--{option}", str(path))]
    assert main(["bench", *options]) == 0
    value = json.loads(paths["json"].read_text())
    assert value["schema"] == 1
    assert value["date"] == value["machine"]["date"]
    assert value["machine"].keys() >= {
        *("cpu", "cores", "l1_bytes", "l2_bytes", "llc_bytes", "memory_bytes"),
        *("os", "python", "versions", "build"),
    }
    assert value["machine"]["versions"].keys() >= {"numpy", "pyarrow"}
    (suite,) = value["suites"]
    assert suite["geometric_means"] == {"numpy": pytest.approx(2.0)}
    assert len(suite["cells"]) == 36
    cell = suite["cells"][0]
    assert cell["name"] == "sum/float32/512x512"
    assert cell["ours"] == {"median": 1e-3, "q1": 1e-3, "q3": 1e-3, "rounds": 9}
    assert cell["ratios"][0]["verdict"] == "faster"
    assert cell["roofline"].keys() == {
        *("read_bytes", "written_bytes", "bandwidth", "seconds", "share")
    }
    page = paths["markdown"].read_text()
    assert "| sum/float32/512x512 | 1.00 ms |" in page
    assert "Left out: jax: not installed." in page
    assert ET.parse(paths["chart"]) is not None
    assert "left out: jax: not installed" in capsys.readouterr().out


def test_report_is_made_from_the_newest_records(fake, tmp_path):
    peak = Memory(Cell("memory", "scale", "float32", 2048, 2048), 16 << 20, 16 << 20, 20 << 20)
    fake(seed(2.0), SuiteResult("memory", 2, memory=[peak]))
    tmp_path /= "perf"
    assert main(["bench", "--suite", "seed,memory", "--report", str(tmp_path)]) == 0
    records = sorted(path.name[10:] for path in (tmp_path / "records").iterdir())
    assert records == ["-memory.json", "-seed.json"]
    assert [path.name for path in (tmp_path / "charts").iterdir()] == ["seed.svg"]
    page = (tmp_path / "report.md").read_text()
    assert "](charts/seed.svg)" in page
    assert "| every cell against NumPy | seed | ≥ 1 | 2.00 |" in page
    assert "| MB beside inputs and outputs | memory | ≤ 8 | 4.19 |" in page
    # A later run of one suite leaves the others as they were.
    fake(seed(0.5))
    assert main(["bench", "--report", str(tmp_path)]) == 0
    page = (tmp_path / "report.md").read_text()
    assert "| every cell against NumPy | seed | ≥ 1 | 0.50 |" in page
    assert "| MB beside inputs and outputs | memory |" in page


def test_a_record_of_another_schema_is_refused(fake, tmp_path, capsys):
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "2001-01-01-shapes.json").write_text('{"schema": 0}')
    fake(seed())
    assert main(["bench", "--report", str(tmp_path)]) == 2
    assert "2001-01-01-shapes.json: expected a record of schema 1, got 0" in capsys.readouterr().err


def test_below_looks_at_the_median_of_the_ratios():
    assert command.below([seed(2.0)], 2.0, ["numpy"]) == []
    assert len(command.below([seed(2.0)], 2.01, ["numpy"])) == 36
    assert report.document([seed()], {"date": "2001-01-01"})["suites"][0]["suite"] == "seed"
