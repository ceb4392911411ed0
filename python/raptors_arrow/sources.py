"""What expressions are evaluated on: anything that gives batches of named columns.

A source is seen as a stream of pyarrow record batches, whatever it is: a table, a reader, a
dataset, files, a frame, or any object with ``__arrow_c_stream__``. It is read batch by batch, and
never held whole unless it was given whole. Files are read by `raptors_arrow._files`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from raptors_arrow._files import dataset_batches, dataset_rows, files_of, is_paths
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError

__all__ = ["Source", "as_source", "empty_batch"]

_Batches = Callable[[Sequence[str] | None], Iterator[Any]]


class Source(NamedTuple):
    """Batches of one schema, and what is known of them."""

    schema: Any
    #: Starts reading: some columns, or all.
    batches: _Batches
    #: Gives the rows in all, if they are known before they are read.
    count_rows: Callable[[], int | None]
    #: Whether the batches can be read more than once.
    is_repeatable: bool
    #: Gives a result back as what the source is: a table, or a reader of batches.
    give: Callable[[Any], Any]
    #: The whole source, if it lies in memory.
    table: Any = None


def as_source(given: Any, function: str = "source") -> Source:
    """See anything with named columns as a source; one that is seen already is itself.

    Raises
    ------
    RaptorsTypeError
        For what has no named columns.
    """
    if isinstance(given, Source):
        return given
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            'expressions need pyarrow: pip install "raptors-arrow[pyarrow]"'
        ) from error
    if isinstance(given, pa.Table):
        return _table(given, _as_it_is)
    if isinstance(given, pa.RecordBatch):
        whole = pa.Table.from_batches([given])
        return _table(whole, _one_batch)
    if isinstance(given, pa.RecordBatchReader):
        return _reader(given)
    if is_paths(given):
        return _files(given)
    module = type(given).__module__.partition(".")[0]
    if _is_dataset(given):
        return _dataset(given)
    if module == "polars":
        return _polars(pa, given)
    if module == "pandas":
        return _pandas(pa, given)
    if hasattr(given, "fetch_record_batch"):
        # A relation of DuckDB, whose own stream would be made whole first.
        return _reader(_relation_reader(given))
    if hasattr(given, "__arrow_c_stream__"):
        return _reader(_from_stream(pa, given))
    if hasattr(given, "__arrow_c_array__"):
        return as_source(pa.record_batch(given))
    raise RaptorsTypeError(
        f"{function}: expected a table, a reader, a dataset, paths of Parquet or Arrow files, a "
        f"frame or an object with __arrow_c_stream__, got {type(given).__name__}"
    )


def _is_dataset(given: Any) -> bool:
    module = type(given).__module__.partition(".")[0]
    return module == "pyarrow" and hasattr(given, "to_batches") and hasattr(given, "count_rows")


def _table(table: Any, give: Callable[[Any], Any]) -> Source:
    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        chosen = table if columns is None else table.select(list(columns))
        return iter(chosen.to_batches())

    return Source(table.schema, batches, lambda: int(table.num_rows), True, give, table)


def _one_batch(table: Any) -> Any:
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else empty_batch(table.schema)


def empty_batch(schema: Any) -> Any:
    """Give a batch of no rows."""
    import pyarrow as pa

    return pa.record_batch([pa.array([], field.type) for field in schema], schema=schema)


def _as_it_is(made: Any) -> Any:
    return made


def _unknown() -> None:
    return None


def _reader(reader: Any) -> Source:
    schema = reader.schema
    taken = False

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        nonlocal taken
        if taken:
            raise RaptorsValueError(
                "this reader was read already; a reader can be read once: make it anew, or pass a "
                "table, a dataset or paths"
            )
        taken = True
        return _of_one_schema(reader, schema, columns)

    return Source(schema, batches, _unknown, False, _as_it_is)


def _of_one_schema(
    batches: Any, schema: Any, columns: Sequence[str] | None = None
) -> Iterator[Any]:
    """Pass batches on, some columns of them, as long as they have one schema."""

    def checked(numbered: tuple[int, Any]) -> Any:
        i, batch = numbered
        if not batch.schema.equals(schema):
            raise RaptorsValueError(
                f"batch {i} of the stream has another schema than the stream: expected "
                f"{_in_a_line(schema)}, got {_in_a_line(batch.schema)}; all batches must have one"
            )
        return batch if columns is None else batch.select(list(columns))

    return map(checked, enumerate(batches))


def _in_a_line(schema: Any) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def _from_stream(pa: Any, given: Any) -> Any:
    try:
        return pa.RecordBatchReader.from_stream(given)
    except pa.ArrowInvalid as error:
        raise RaptorsTypeError(
            f"expected a stream of record batches, got {type(given).__name__}, which is one of "
            f"arrays without names ({error}); put it into a table"
        ) from error


#: Rows of a batch of a relation.
_RELATION_ROWS = 16_384


def _relation_reader(relation: Any) -> Any:
    read = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    return read(_RELATION_ROWS)


def _dataset(dataset: Any) -> Source:
    if hasattr(dataset, "to_reader"):  # a scanner, which may be one of a reader
        reader = dataset.to_reader()
        return _reader(reader)
    batches, is_repeatable = dataset_batches(dataset)
    return Source(dataset.schema, batches, lambda: dataset_rows(dataset), is_repeatable, _as_it_is)


def _files(given: Any) -> Source:
    schema, batches, count_rows = files_of(given)
    return Source(schema, batches, count_rows, True, _as_it_is)


def _polars(pa: Any, given: Any) -> Source:
    import polars as pl

    if isinstance(given, pl.DataFrame):
        return _table(given.to_arrow(), pl.from_arrow)
    if not isinstance(given, pl.LazyFrame):
        raise RaptorsTypeError(
            f"expected a polars DataFrame or LazyFrame, got {type(given).__name__}; a series is "
            "one column: pass its frame"
        )
    if not hasattr(given, "collect_batches"):  # an older polars
        return _table(given.collect(engine="streaming").to_arrow(), pl.from_arrow)
    schema = given.collect_schema().to_frame().to_arrow().schema

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        query = given if columns is None else given.select(*columns)
        wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
        for frame in query.collect_batches(maintain_order=True):
            yield from _of_one_schema(frame.to_arrow().to_batches(), wanted)

    def give(made: Any) -> Any:
        is_reader = isinstance(made, pa.RecordBatchReader)
        return pl.from_arrow(made.read_all() if is_reader else made)

    return Source(schema, batches, _unknown, True, give)


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
