"""Expressions over Daft on Ray, with two workers. Daft has one runner in a process: this one."""

import daft
import pyarrow as pa
import pytest
import ray
from by_row import same_bits, table
from statistics_of import GROUPS, TOTALS, close, in_order, rows

import raptors_arrow as ra

pytestmark = pytest.mark.filterwarnings("ignore")  # those of Daft and Ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    daft.set_runner_ray(noop_if_initialized=True)
    yield
    ray.shutdown()


def taken(df) -> pa.Table:
    return df.to_arrow().sort_by("id")


def test_the_runner_is_ray():
    assert daft.get_or_create_runner().name == "ray"


def test_columns(folder):
    e = ra.col("emb")
    made = ra.daft.with_columns(
        daft.read_parquet(folder),
        unit=e.normalize(),
        length=e.norm(axis=1),
        d=e.dot(ra.col("other")),
    )
    got, own = taken(made), table()
    assert same_bits(got["unit"], ra.normalize(own["emb"]))
    assert same_bits(got["length"], ra.norm(own["emb"], axis=1))
    assert same_bits(got["d"], ra.dot(own["emb"], own["other"]))


def test_statistics_of_all_rows(many):
    close(ra.daft.select(daft.read_parquet(many), **TOTALS), ra.select(rows(), **TOTALS))


def test_groups(many):
    got = ra.daft.group_by(daft.read_parquet(many), ["user", "day"]).aggregate(**GROUPS).to_arrow()
    want = ra.group_by(rows(), ["user", "day"]).aggregate(**GROUPS)
    close(in_order(got, ["user", "day"]), in_order(want, ["user", "day"]))
