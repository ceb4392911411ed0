"""Columns of numbers into one column of vectors, and back; rows brought to a width."""

from collections.abc import Sequence
from typing import Any

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError


def pack(table: Any, columns: Sequence[str], name: str) -> Any:
    """Make one column of vectors from columns of numbers.

    Parameters
    ----------
    table
        A pyarrow Table or RecordBatch, or a polars DataFrame.
    columns
        The columns of numbers, of one type, in the order of the elements. They leave the table.
    name
        The name of the new column, which stands where the first of them stood.

    Returns
    -------
    table
        Of the same kind. A single column is not copied.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> table = pa.table({"id": [7, 8], "x": [1.0, 2.0], "y": [3.0, 4.0]})
    >>> ra.pack(table, ["x", "y"], "xy").to_pydict()
    {'id': [7, 8], 'xy': [[1.0, 3.0], [2.0, 4.0]]}
    """
    import pyarrow as pa

    whole = _as_table("pack", table)
    columns = list(columns)
    _check("pack", whole, columns)
    if not columns:
        raise RaptorsValueError("pack: expected at least one column, got none")
    type = pa.list_(whole.schema.field(columns[0]).type, len(columns))
    chunks = [_packed(pa, batch) for batch in whole.select(columns).to_batches()]
    position = min(whole.column_names.index(column) for column in columns)
    left = whole.drop_columns(columns)
    return _like(table, left.add_column(position, name, pa.chunked_array(chunks, type)))


def unpack(table: Any, column: str, names: Sequence[str]) -> Any:
    """Make columns of numbers from a column of vectors.

    Parameters
    ----------
    table
        A pyarrow Table or RecordBatch, or a polars DataFrame.
    column
        The column of vectors, which leaves the table.
    names
        The names of the new columns, one for each element, which stand in its place. A null row is
        null in all of them.

    Returns
    -------
    table
        Of the same kind. Vectors of one element are not copied.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> table = pa.table({"id": [7, 8], "xy": [[1.0, 3.0], [2.0, 4.0]]})
    >>> ra.unpack(table, "xy", ["x", "y"]).to_pydict()
    {'id': [7, 8], 'x': [1.0, 2.0], 'y': [3.0, 4.0]}
    """
    import pyarrow as pa

    whole = _as_table("unpack", table)
    _check("unpack", whole, [column])
    names, position = list(names), whole.column_names.index(column)
    vectors = _native.as_matrix(whole[column])
    if vectors.width != len(names):
        raise RaptorsValueError(
            f"unpack: expected a name for each of the {vectors.width} elements of {column!r}, "
            f"got {len(names)}"
        )
    number = getattr(pa, vectors.dtype)()
    parts: list[list[Any]] = [[] for _ in names]
    for chunk in whole[column].chunks:
        for part, numbers in zip(parts, _unpacked(pa, chunk, len(names)), strict=True):
            part.append(numbers)
    left = whole.drop_columns([column])
    for i, (name, part) in enumerate(zip(names, parts, strict=True)):
        left = left.add_column(position + i, name, pa.chunked_array(part, number))
    return _like(table, left)


def pad(x: Any, width: int, *, fill: float | None = None) -> Any:
    """Fill up rows of different lengths to one width.

    Parameters
    ----------
    x
        A column of lists: of pyarrow, polars, pandas, or any with the Arrow PyCapsule methods. Rows
        that have the width already are not copied.
    width
        The elements of each row of the result. A longer row is an error: `truncate` it first.
    fill
        What stands behind the last element of a shorter row: null, or a number.

    Returns
    -------
    array
        A column of fixed-size lists, of the kind of ``x``. A null row stays null.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> ra.pad(pa.array([[1.0, 2.0], [3.0], None]), 3, fill=0).to_pylist()
    [[1.0, 2.0, 0.0], [3.0, 0.0, 0.0], None]
    """
    return _native._pad(x, width, fill)  # type: ignore[attr-defined]


def truncate(x: Any, width: int) -> Any:
    """Keep the first elements of each row, at most so many.

    Parameters
    ----------
    x
        A column of lists: of pyarrow, polars, pandas, or any with the Arrow PyCapsule methods. If
        no row is longer it is not copied.
    width
        The most elements of a row.

    Returns
    -------
    array
        Lists of the lengths that are left, or fixed-size ones where all rows had one length.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> ra.truncate(pa.array([[1.0, 2.0, 3.0], [4.0], None]), 2).to_pylist()
    [[1.0, 2.0], [4.0], None]
    """
    return _native._truncate(x, width)  # type: ignore[attr-defined]


def _packed(pa: Any, batch: Any) -> Any:
    if batch.num_columns == 1:
        return pa.FixedSizeListArray.from_arrays(batch.column(0), 1)
    return _native.transpose(_native.transpose(batch))


def _unpacked(pa: Any, chunk: Any, width: int) -> list[Any]:
    rows = len(chunk)
    if rows == 0:
        return [pa.array([], _native.as_matrix(chunk).dtype) for _ in range(width)]
    columns = _native.transpose(chunk).flatten()
    return [columns.slice(i * rows, rows) for i in range(width)]


def _as_table(function: str, table: Any) -> Any:
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if type(table).__module__.startswith("polars") and hasattr(table, "to_arrow"):
        return table.to_arrow()
    kind = f"{type(table).__module__}.{type(table).__qualname__}"
    raise RaptorsTypeError(
        f"{function}: expected a pyarrow Table or RecordBatch, or a polars DataFrame, got {kind}"
    )


def _like(table: Any, made: Any) -> Any:
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return made
    if isinstance(table, pa.RecordBatch):
        return pa.RecordBatch.from_arrays(
            [pa.concat_arrays(column.chunks) for column in made.columns], schema=made.schema
        )
    return type(table)(made)


def _check(function: str, table: Any, columns: list[str]) -> None:
    for column in columns:
        if table.column_names.count(column) != 1 or columns.count(column) != 1:
            known = ", ".join(table.column_names)
            raise RaptorsValueError(
                f"{function}: expected {column!r} to be one column, once; the columns are {known}"
            )
