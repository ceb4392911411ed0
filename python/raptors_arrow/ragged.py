"""Ragged rows: lists of vectors, each list reduced to one vector."""

from typing import Any

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError

__all__ = ["pool"]

_WAYS = ("mean", "sum", "min", "max")


def pool(x: Any, how: str = "mean", *, weights: Any = None) -> Any:
    """Reduce each list of vectors to one vector: the tokens of a sentence to its mean.

    Parameters
    ----------
    x
        An Arrow array, or a polars series, of lists of vectors of one width.
    how
        ``"mean"``, ``"sum"``, ``"min"`` or ``"max"``.
    weights
        Lists of as many numbers or booleans as ``x`` has vectors: a mask leaves vectors out, and so
        does a null. Numbers weigh sums and means, as ``numpy.average`` does; where they add up to
        zero the mean is null.

    Returns
    -------
    array
        A vector for each list, of the kind of ``x``. A null list gives null, an empty one a vector
        of nulls; null vectors and elements are skipped.

    Raises
    ------
    RaptorsTypeError, RaptorsValueError
        For what is no list of vectors, and for weights that are not as many as the vectors.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> tokens = pa.array(
    ...     [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]], pa.list_(pa.list_(pa.float32(), 2))
    ... )
    >>> ra.pool(tokens).to_pylist()
    [[2.0, 3.0], [5.0, 6.0]]
    >>> ra.pool(tokens, "sum", weights=pa.array([[1, 3], [2]])).to_pylist()
    [[10.0, 14.0], [10.0, 12.0]]
    """
    import pyarrow as pa

    if how not in _WAYS:
        raise RaptorsValueError(f"pool: expected one of {', '.join(_WAYS)}, got {how!r}")
    is_polars = type(x).__module__.partition(".")[0] == "polars"
    column = _lists(pa, x, "x")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    given = None if weights is None else _lists(pa, weights, "weights")
    if given is not None and len(given) != len(column):
        raise RaptorsValueError(f"pool: expected weights of {len(column)} rows, got {len(given)}")
    made, row = [], 0
    for chunk in chunks:
        own = None if given is None else _one(pa, given.slice(row, len(chunk)))
        made.append(_pooled(pa, chunk, how, own, row))
        row += len(chunk)
    if not isinstance(column, pa.ChunkedArray):
        return made[0]
    if not made:
        made = [_pooled(pa, pa.array([], column.type), how, None, 0)]
    pooled = pa.chunked_array(made)
    if is_polars:
        import polars as pl

        return pl.Series(x.name, pl.from_arrow(pooled.combine_chunks()))
    return pooled


def _lists(pa: Any, values: Any, argument: str) -> Any:
    """See a column as one of variable lists."""
    if type(values).__module__.partition(".")[0] == "polars":
        values = pa.chunked_array(values)
    elif not isinstance(values, pa.Array | pa.ChunkedArray):
        is_arrow = hasattr(values, "__arrow_c_array__") or hasattr(values, "__arrow_c_stream__")
        if not is_arrow:
            raise RaptorsTypeError(
                f"pool: expected an Arrow array of lists for {argument}, got "
                f"{type(values).__name__}"
            )
        one = hasattr(values, "__arrow_c_array__")
        values = pa.array(values) if one else pa.chunked_array(values)
    if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        return values
    if pa.types.is_fixed_size_list(values.type) or "view" in str(values.type).partition("<")[0]:
        return values.cast(pa.large_list(values.type.value_field))
    raise RaptorsTypeError(f"pool: expected lists for {argument}, got {values.type}")


def _one(pa: Any, values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values


def _pooled(pa: Any, lists: Any, how: str, weights: Any, row: int) -> Any:
    import pyarrow.compute as pc

    vectors = lists.values
    if not pa.types.is_nested(vectors.type):
        raise RaptorsTypeError(
            f"pool: expected lists of vectors, got {lists.type}; a list of numbers is one vector: "
            "its mean is ra.mean(x, axis=1)"
        )
    starts = lists.offsets[:-1].cast(pa.int64())
    lengths = pc.list_value_length(lists).fill_null(0).cast(pa.int64())
    if weights is None:
        made = _native._GroupStatistic(how, False).pool(vectors, starts, lengths)
    else:
        flat = _aligned(pa, lists, weights, (starts, lengths), row)
        if pa.types.is_boolean(flat.type):
            kept = _where(pa, vectors, flat.fill_null(False))
            made = _native._GroupStatistic(how, False).pool(kept, starts, lengths)
        elif how in ("min", "max"):
            raise RaptorsTypeError(
                f"pool: expected weights of {how} to be booleans, got {flat.type}: numbers weigh "
                "sums and means"
            )
        else:
            statistic = _native._GroupStatistic(how, False)
            made = statistic.pool(vectors, starts, lengths, flat)
    pooled = pa.array(made)
    if lists.null_count == 0:
        return pooled
    return pa.FixedSizeListArray.from_arrays(pooled.values, type=pooled.type, mask=lists.is_null())


def _aligned(pa: Any, lists: Any, weights: Any, at: tuple[Any, Any], row: int) -> Any:
    """Give the weight of each vector, in the order of the vectors, null for those of no list."""
    import numpy as np
    import pyarrow.compute as pc

    starts, lengths = at
    own = pc.list_value_length(weights).fill_null(0).cast(pa.int64())
    # Nothing is asked of the weights of a null list.
    wrong = pc.and_(lists.is_valid(), pc.not_equal(own, lengths))
    if pc.any(wrong).as_py():
        first = pc.index(wrong, value=True).as_py()
        raise RaptorsValueError(
            f"pool: expected as many weights as vectors in every row, but row {row + first} has "
            f"{own[first]} for {lengths[first]}"
        )
    count = lengths.to_numpy(zero_copy_only=False)
    before = np.repeat(np.cumsum(count) - count, count)
    within = np.arange(count.sum()) - before
    index = np.full(len(lists.values), -1)
    vectors = np.repeat(starts.to_numpy(zero_copy_only=False), count) + within
    offsets = weights.offsets[:-1].cast(pa.int64()).to_numpy(zero_copy_only=False)
    index[vectors] = np.repeat(offsets, count) + within
    return weights.values.take(pa.array(index, mask=index < 0))


def _where(pa: Any, vectors: Any, kept: Any) -> Any:
    """Give the vectors with null in place of those that are left out."""
    import pyarrow.compute as pc

    return pc.if_else(kept, vectors, pa.scalar(None, vectors.type))
