"""Expressions over Ray Data.

``ds.map_batches(ra.ray.with_columns(unit=ra.col("emb").normalize()), batch_format="pyarrow")``
computes row by row: each block where it lies, and nothing is moved.

``ra.ray.select(ds, mean=ra.col("emb").mean(axis=0))`` reduces the rows: each block to a state where
it lies, and the states are merged. ``ra.ray.group_by(ds, "user").aggregate(…)`` does it for each
key.
"""

from collections.abc import Iterable
from math import prod
from typing import Any

from raptors_arrow.engines._group_states import GroupedRows
from raptors_arrow.engines._mapper import Columns
from raptors_arrow.engines._rows import missing
from raptors_arrow.engines._states import TotalStates
from raptors_arrow.errors import RaptorsTypeError
from raptors_arrow.expr import Expr

try:
    import pyarrow as pa
    import ray
    import ray.data
except ImportError as error:
    raise missing("ray", "Ray Data and pyarrow", error) from error

__all__ = ["GroupBy", "group_by", "select", "with_columns"]


class with_columns:
    """Make a function that adds columns to a batch, for ``Dataset.map_batches``.

    With ``batch_format="pyarrow"`` and ``zero_copy_batch=True`` rows are read where they lie.
    Batches of NumPy arrays, Ray's default, are taken too, if no row is null. Ray's own tensors are
    read as pyarrow's of the same shape; other columns pass through untouched.

    Parameters
    ----------
    **expressions
        The columns by name, each a value for each row, from that row alone.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import ray
    >>> import raptors_arrow as ra
    >>> rows = pa.table({"emb": pa.array([[3.0, 4.0]], pa.list_(pa.float32(), 2))})
    >>> mapper = ra.ray.with_columns(length=ra.col("emb").norm(axis=1))
    >>> ds = ray.data.from_arrow(rows).map_batches(mapper, batch_format="pyarrow")
    >>> ds.max("length")
    5.0
    """

    def __init__(self, **expressions: Expr) -> None:
        self._columns = Columns(expressions)
        self.__name__ = "with_columns"  # which Ray shows in its plan

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={expr!r}" for name, expr in self._columns.expressions.items())
        return f"with_columns({given})"

    def __call__(self, batch: Any) -> Any:
        """Add the columns to a batch of Ray's."""
        rows = batch
        if isinstance(batch, dict):
            rows = pa.table({name: _from_numpy(name, values) for name, values in batch.items()})
        if not isinstance(rows, pa.Table):
            raise RaptorsTypeError(
                f"with_columns: expected a pyarrow table or NumPy arrays, got "
                f"{type(batch).__name__}; pass batch_format='pyarrow' to map_batches"
            )
        needed = {name for expr in self._columns.expressions.values() for name in expr.columns}
        return self._columns.add_to(_read(rows, needed))


def select(ds: "ray.data.Dataset", /, **expressions: Expr) -> Any:
    """Reduce the rows of a dataset to one: statistics of columns.

    Each block is reduced to a state by a worker, and the states are merged here, in the order of
    the blocks. The bits are those of one process if each block but the last has a multiple of 1024
    rows, else within the bound of the guide.

    Parameters
    ----------
    ds
        A dataset.
    **expressions
        The results by name, each of which reduces the rows: ``ra.col("emb").std(axis=0)``.

    Returns
    -------
    pyarrow.Table
        One row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import ray
    >>> import raptors_arrow as ra
    >>> rows = pa.table({"emb": pa.array([[3.0, 4.0], [1.0, 0.0]], pa.list_(pa.float32(), 2))})
    >>> ds = ray.data.from_arrow(rows)
    >>> ra.ray.select(ds, mean=ra.col("emb").mean(axis=0), n=ra.len()).to_pylist()
    [{'mean': [2.0, 2.0], 'n': 2}]
    """
    _check_dataset("select", ds)
    states = TotalStates(expressions)
    made = _in_order(ds.map_batches(_Partial(states), batch_format="pyarrow", batch_size=None))
    sent = (ray.get(ref) for ref in made.to_arrow_refs())
    in_order = [
        table.set_column(1, "order", pa.array([at] * len(table), pa.int64()))
        for at, table in enumerate(sent)
        if table.num_rows
    ]
    return states.finish(in_order)


def group_by(ds: "ray.data.Dataset", keys: Any, /, *, partitions: int | None = None) -> "GroupBy":
    """Group the rows of a dataset by the values of some columns.

    Each block is reduced to states of its groups; Ray shuffles them by the keys, and each
    part is merged by one worker.

    Parameters
    ----------
    ds
        A dataset.
    keys
        The name of a column, or several. Nulls are a group, NaN is one, and -0.0 is 0.0.
    partitions
        Into how many parts the keys are cut: the CPUs of the cluster if it is not given.

    Returns
    -------
    GroupBy
        Which has `GroupBy.aggregate`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import ray
    >>> import raptors_arrow as ra
    >>> ds = ray.data.from_arrow(pa.table({"k": ["a", "a"], "price": [1.0, 2.0]}))
    >>> means = ra.ray.group_by(ds, "k").aggregate(mean=ra.col("price").mean(), n=ra.len())
    >>> means.take_all()
    [{'k': 'a', 'mean': 1.5, 'n': 2}]
    """
    _check_dataset("group_by", ds)
    return GroupBy(ds, keys, partitions)


class GroupBy(GroupedRows):
    """Rows of a dataset in groups, made by `group_by`.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import ray
    >>> import raptors_arrow as ra
    >>> ds = ray.data.from_arrow(pa.table({"k": ["a", "a"], "price": [1.0, 2.0]}))
    >>> ra.ray.group_by(ds, "k")
    <raptors_arrow.ray.GroupBy: k>
    """

    _engine = "ray"

    def aggregate(
        self, named: Iterable[tuple[str, str]] | None = None, /, **expressions: Expr
    ) -> "ray.data.Dataset":
        """Reduce the rows of each group to one.

        Parameters
        ----------
        named
            Pairs of a column and a statistic, whose results are named ``column_statistic``.
        **expressions
            Results by name, as for `raptors_arrow.GroupBy.aggregate`.

        Returns
        -------
        ray.data.Dataset
            A row for each group: its keys, then the results. The order is that of the shuffle.
        """
        states = self._states(named, expressions)
        parts = self._partitions or max(1, int(ray.cluster_resources().get("CPU", 1)))
        sent = self._rows.map_batches(
            _Partial(states, parts), batch_format="pyarrow", batch_size=None
        )
        grouped = sent.groupby("part", num_partitions=parts)
        return grouped.map_groups(_Finish(states), batch_format="pyarrow")


class _Finish:
    """What a worker runs on the states of a part."""

    def __init__(self, states: Any) -> None:
        self._states = states
        self.__name__ = "finish"

    def __call__(self, sent: Any) -> Any:
        return self._states.finish([sent])


class _Partial:
    """What a worker runs on a block: rows in, states out."""

    def __init__(self, states: Any, *parts: int) -> None:
        self._states, self._parts = states, parts
        self.__name__ = "partial"

    def __call__(self, rows: Any) -> Any:
        rows = _read(rows, set(self._states.columns))
        return self._states.partial(rows.to_batches(), *self._parts)


def _in_order(ds: Any) -> Any:
    """Give a dataset whose blocks come in their order, whichever is ready first."""
    ds.context.execution_options.preserve_order = True
    return ds


def _check_dataset(name: str, ds: Any) -> None:
    if not isinstance(ds, ray.data.Dataset):
        raise RaptorsTypeError(f"{name}: expected a dataset of Ray, got {type(ds).__name__}")


def _read(rows: Any, needed: set[str]) -> Any:
    """See Ray's tensors as pyarrow's, in the columns that are needed."""
    for at, field in enumerate(rows.schema):
        name = getattr(field.type, "extension_name", "")
        if field.name in needed and name.startswith("ray.data.arrow_tensor"):
            rows = rows.set_column(at, field.name, _as_tensor(rows.column(at)))
    return rows


def _from_numpy(name: str, values: Any) -> Any:
    """See an array as a column, without copying it: numbers, vectors or tensors."""
    if values.ndim == 1 and values.dtype == object and len(values) and _is_vectors(values):
        raise RaptorsTypeError(
            f"with_columns: column {name} has null or ragged rows, which NumPy arrays cannot hold; "
            "pass batch_format='pyarrow' to map_batches"
        )
    if values.ndim == 1:
        return pa.array(values)
    if values.ndim == 2:
        return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), values.shape[1])
    return pa.FixedShapeTensorArray.from_numpy_ndarray(values)


def _is_vectors(values: Any) -> bool:
    return any(hasattr(value, "__len__") and not isinstance(value, str | bytes) for value in values)


def _as_tensor(column: Any) -> Any:
    """Give a column of Ray's tensors as vectors, or as tensors of the same shape."""
    shape = tuple(column.type.shape)
    number = column.type.storage_type.value_type
    vectors = pa.list_(number, prod(shape))
    chunks = [_as_vectors(chunk.storage, vectors) for chunk in column.chunks]
    if len(shape) == 1:
        return pa.chunked_array(chunks, vectors)
    tensors = pa.fixed_shape_tensor(number, shape)
    return pa.chunked_array(
        [pa.ExtensionArray.from_storage(tensors, chunk) for chunk in chunks], tensors
    )


def _as_vectors(lists: Any, vectors: Any) -> Any:
    """Give lists of one length as a column of vectors; without nulls nothing is copied."""
    if lists.null_count or not vectors.list_size:
        return lists.cast(vectors)
    return pa.FixedSizeListArray.from_arrays(lists.flatten(), type=vectors)
