"""Rows in several files, statistics of them, and what one process gives."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

import raptors_arrow as ra

ROWS, WIDTH, FILES = 4096, 6, 4
E = ra.col("emb")

#: Of all rows.
TOTALS = {
    "mean": E.mean(axis=0),
    "std": E.std(axis=0),
    "smallest": E.min(axis=0),
    "largest": E.max(),
    "longest": E.norm(axis=1).max(),
    "spread": (E.max(axis=0) - E.min(axis=0)),
    "price": ra.col("price").sum(),
    "n": ra.len(),
}

#: Of each group.
GROUPS = {
    "mean": E.mean(axis=0),
    "std": E.std(axis=0),
    "largest": E.max(axis=0),
    "longest": E.norm(axis=1).max(),
    "price": ra.col("price").sum(),
    "n": ra.len(),
}
KEYS = ["user", "day", ["user", "day"]]


def in_order(table: pa.Table, keys: str | list[str]) -> pa.Table:
    """Sort groups by their keys, whatever order they came in."""
    names = [keys] if isinstance(keys, str) else keys
    return table.sort_by([(name, "ascending") for name in names])


def rows() -> pa.Table:
    """Vectors with nulls, and keys of several types, nulls and NaN among them."""
    rng = np.random.default_rng(11)
    values = pa.array(rng.standard_normal(ROWS * WIDTH).astype("f4") + 100)
    ids = np.arange(ROWS)
    emb = pa.FixedSizeListArray.from_arrays(
        values, type=pa.list_(pa.float32(), WIDTH), mask=pa.array(ids % 50 == 3)
    )
    users = [None if i % 97 == 0 else f"u{i % 7}" for i in ids]
    floats = np.array([0.0, -0.0, np.nan, 2.5])[ids % 4]
    return pa.table(
        {"id": ids, "user": users, "day": pa.array(floats), "emb": emb, "price": ids / 8}
    )


def write(folder: str) -> str:
    ds.write_dataset(
        rows(), folder, format="parquet", max_rows_per_file=ROWS // FILES, max_rows_per_group=512
    )
    return folder


def close(got: pa.Table, want: pa.Table) -> None:
    """Compare results: names, nulls, and numbers to the last digits of a float32."""
    assert got.column_names == want.column_names
    assert len(got) == len(want)
    for name in want.column_names:
        for own, other in zip(got[name].to_pylist(), want[name].to_pylist(), strict=True):
            if isinstance(other, list | float):
                np.testing.assert_allclose(own, other, rtol=3e-7, err_msg=name)
            else:
                assert own == other, name
