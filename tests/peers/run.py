"""Runs the tests that NumPy, SciPy, scikit-learn and pandas ship, with ours in their places.

Each library is a process of its own. A test that fails with our functions and not without them is
a failure, unless accepted.py has it with a reason.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent

#: The test modules in which functions of ours can be in the place of theirs.
SUITES = {
    "numpy": [
        "numpy._core.tests.test_numeric",
        "numpy._core.tests.test_function_base",
        "numpy._core.tests.test_half",
        "numpy._core.tests.test_mem_overlap",
        "numpy._core.tests.test_regression",
        "numpy.lib.tests.test_function_base",
        "numpy.lib.tests.test_histograms",
        "numpy.lib.tests.test_nanfunctions",
        "numpy.lib.tests.test_polynomial",
        "numpy.lib.tests.test_twodim_base",
        "numpy.linalg.tests.test_linalg",
        "numpy.linalg.tests.test_regression",
        "numpy.ma.tests.test_core",
        "numpy.ma.tests.test_extras",
        "numpy.random.tests.test_generator_mt19937",
        "numpy.polynomial.tests",
    ],
    "scipy": [
        "scipy.spatial.tests.test_distance",
        "scipy.stats.tests.test_stats::TestFOneWay",
        "scipy.stats.tests.test_stats::TestZscore",
        "scipy.cluster.tests.test_vq",
    ],
    "sklearn": [
        "sklearn.preprocessing.tests.test_data",
        "sklearn.metrics.tests.test_pairwise",
        "sklearn.neighbors.tests.test_nearest_centroid",
    ],
    "pandas": [
        "pandas.tests.test_nanops",
        "pandas.tests.frame.test_reductions",
        "pandas.tests.frame.methods.test_cov_corr",
        "pandas.tests.frame.methods.test_describe",
        "pandas.tests.reductions",
        "pandas.tests.series.test_reductions",
    ],
}


def run(library: str, replaced: bool, report: Path, more: list[str]) -> int:
    libraries = ("numpy", library) if replaced else ()
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE),
        "PEERS_REPLACED": ",".join(libraries),
        "PEERS_REPORT": str(report),
    }
    command = [sys.executable, "-m", "pytest", "-c", str(HERE / "pytest.ini"), "-p", "plugin"]
    command += ["--rootdir", str(HERE), "--pyargs", *SUITES[library], *more]
    return subprocess.run(command, env=environment).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=SUITES, action="append", help="the libraries to test")
    parser.add_argument("--theirs", action="store_true", help="with nothing replaced")
    parser.add_argument("--least", type=int, default=6000, help="tests that must pass in all")
    options, more = parser.parse_known_args()
    codes, tests, calls = [], 0, 0
    for library in options.only or SUITES:
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report.json"
            codes.append(run(library, not options.theirs, report, more))
            found = (
                json.loads(report.read_text()) if report.exists() else {"tests": {}, "answered": {}}
            )
        tests += found["tests"].get("passed", 0)
        calls += sum(found["answered"].values())
        print(f"{library}: {found['tests']}, {sum(found['answered'].values())} calls of ours")
    print(f"{tests} tests passed, {calls} calls of ours")
    if not options.theirs and not options.only and tests < options.least:
        print(f"fewer than {options.least} tests")
        return 1
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
