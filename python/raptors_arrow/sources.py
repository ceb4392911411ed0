"""What expressions are evaluated on: anything that gives batches of named columns.

A source is seen as a stream of pyarrow record batches, whatever it is: a table, a reader, a
dataset, files, a frame, or any object with ``__arrow_c_stream__``. It is read batch by batch, and
never held whole unless it was given whole.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError

__all__ = ["Source", "as_source"]


class Source(NamedTuple):
    """Batches of one schema, and what is known of them."""

    schema: Any
    #: Starts reading: some columns, or all.
    batches: Callable[[Sequence[str] | None], Iterator[Any]]
    #: The rows in all, if they are known before they are read.
    rows: int | None
    #: Whether the batches can be read more than once.
    is_repeatable: bool
    #: Gives a result back as what the source is: a table, or a reader of batches.
    give: Callable[[Any], Any]
    #: The whole source, if it lies in memory.
    table: Any = None


def as_source(given: Any) -> Source:
    """See anything with named columns as a source.

    Raises
    ------
    RaptorsTypeError
        For what has no named columns.
    """
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            'expressions need pyarrow: pip install "raptors-arrow[pyarrow]"'
        ) from error
    if isinstance(given, pa.Table):
        return _table(given, lambda table: table)
    if isinstance(given, pa.RecordBatch):
        whole = pa.Table.from_batches([given])
        return _table(whole, _one_batch)
    if isinstance(given, pa.RecordBatchReader):
        return _reader(given)
    if _is_paths(given):
        return _files(given)
    module = type(given).__module__.partition(".")[0]
    if module == "pyarrow" and hasattr(given, "to_batches") and hasattr(given, "count_rows"):
        return _dataset(given)
    if module == "polars":
        return _polars(given)
    if module == "pandas":
        return _pandas(pa, given)
    if hasattr(given, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(given)
        return _reader(reader)
    if hasattr(given, "fetch_record_batch"):
        return _reader(given.fetch_record_batch())
    raise RaptorsTypeError(
        "expected a table, a reader, a dataset, paths of Parquet or Arrow files, a frame or an "
        f"object with __arrow_c_stream__, got {type(given).__name__}"
    )


def _table(table: Any, give: Callable[[Any], Any]) -> Source:
    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        chosen = table if columns is None else table.select(list(columns))
        return iter(chosen.to_batches())

    return Source(table.schema, batches, table.num_rows, True, give, table)


def _one_batch(table: Any) -> Any:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else table.schema.empty_table().to_batches()[0]


def _as_reader(reader: Any) -> Any:
    return reader


def _reader(reader: Any) -> Source:
    taken = False

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        nonlocal taken
        if taken:
            raise RaptorsValueError(
                "this reader was read already; a reader can be read once: make it anew, or pass a "
                "table, a dataset or paths"
            )
        taken = True
        return (batch if columns is None else batch.select(list(columns)) for batch in reader)

    return Source(reader.schema, batches, None, False, _as_reader)


def _dataset(dataset: Any) -> Source:
    is_scanner = hasattr(dataset, "to_reader")
    schema = dataset.projected_schema if is_scanner else dataset.schema

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        if not is_scanner:
            return iter(dataset.to_batches(columns=None if columns is None else list(columns)))
        chosen = (b if columns is None else b.select(list(columns)) for b in dataset.to_batches())
        return iter(chosen)

    return Source(schema, batches, dataset.count_rows(), True, _as_reader)


def _is_paths(given: Any) -> bool:
    if isinstance(given, str | os.PathLike):
        return True
    is_list = isinstance(given, list | tuple) and len(given) > 0
    return is_list and all(isinstance(path, str | os.PathLike) for path in given)


def _files(given: Any) -> Source:
    from pyarrow import dataset

    paths = [str(path) for path in (given if isinstance(given, list | tuple) else [given])]
    missing = [path for path in paths if not Path(path).exists()]
    if missing:
        raise RaptorsValueError(f"no such file or directory: {', '.join(missing)}")
    kinds = {".arrow": "ipc", ".feather": "ipc", ".ipc": "ipc", ".csv": "csv"}
    found = {kinds.get(Path(path).suffix.lower(), "parquet") for path in paths}
    if len(found) > 1:
        raise RaptorsValueError(f"expected files of one format, got {' and '.join(sorted(found))}")
    files = paths[0] if len(paths) == 1 else paths
    return _dataset(dataset.dataset(files, format=found.pop()))


def _polars(given: Any) -> Source:
    import polars as pl

    frame = given
    if isinstance(given, pl.LazyFrame):
        frame = given.collect(engine="streaming")
    if not isinstance(frame, pl.DataFrame):
        raise RaptorsTypeError(
            f"expected a polars DataFrame or LazyFrame, got {type(given).__name__}; a series is "
            "one column: pass its frame"
        )
    return _table(frame.to_arrow(), pl.from_arrow)


def _pandas(pa: Any, given: Any) -> Source:
    if type(given).__name__ != "DataFrame":
        raise RaptorsTypeError(f"expected a pandas DataFrame, got {type(given).__name__}")
    import pandas as pd

    index = given.index
    table = pa.Table.from_pandas(given, preserve_index=False)

    def give(made: Any) -> Any:
        frame = made.to_pandas(types_mapper=pd.ArrowDtype)
        return frame.set_axis(index) if len(frame) == len(index) else frame

    return _table(table, give)
