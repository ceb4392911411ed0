"""Expressions: the functions of the table as methods of a column that is named, or at hand.

>>> import raptors_arrow as ra
>>> ra.col("emb").scale(2).mean(axis=1)
col('emb').scale(2).mean(axis=1)

An expression computes nothing by itself: `select` and `with_columns` evaluate it over a table, a
stream or files, and ``lazy(x).….collect()`` over data at hand. What it gives is known before it
runs: ``expr.result_type(schema)``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Signature, signature
from typing import Any

from raptors_arrow import _native
from raptors_arrow.errors import RaptorsTypeError, RaptorsValueError

__all__ = ["Expr", "col", "lazy", "length"]


class Expr:
    """A column, data, or a function of others.

    Made by ``ra.col``, ``ra.lazy`` and ``ra.len``; every function of ``list_functions()`` is a
    method, and ``+ - * / ** @``, comparisons, ``-x`` and ``abs(x)`` are what they are for arrays.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> score = (ra.col("emb").normalize() * 2).dot(ra.col("query"))
    >>> score
    col('emb').normalize().multiply(2).dot(col('query'))
    >>> score.columns
    ('emb', 'query')
    """

    __slots__ = ("args", "name", "options")

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]

    def __init__(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.name, self.args, self.options = name, args, options

    def __repr__(self) -> str:
        if self.name in ("col", "len"):
            return f"{self.name}({', '.join(map(repr, self.args))})"
        if self.name == "lazy":
            return f"lazy({_described(self.args[0])})"
        x, *others = self.args
        if not isinstance(x, Expr):
            return f"{self.name}({', '.join(map(_described, self.args))})"
        positional = 1 + len(_native.get_function(self.name).arguments[1:]) if others else 1
        given = [_described(arg) for arg in self.args[1:positional]]
        if len(self.args) > positional:
            names = _native.get_function(self.name).by_name
            by_name = zip(names, self.args[positional:], strict=False)
            given += [f"{name}={_described(arg)}" for name, arg in by_name]
        given += [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{x!r}.{self.name}({', '.join(given)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Expr, (self.name, self.args, self.options)

    def __bool__(self) -> bool:
        raise RaptorsTypeError(
            f"{self!r} has no value yet: evaluate it with select, with_columns or collect()"
        )

    def __neg__(self) -> "Expr":
        return _call("negate", self)

    def __abs__(self) -> "Expr":
        return _call("abs", self)

    def __add__(self, other: Any) -> "Expr":
        return _call("add", self, other)

    def __radd__(self, other: Any) -> "Expr":
        return _call("add", self, other)

    def __sub__(self, other: Any) -> "Expr":
        return _call("subtract", self, other)

    def __rsub__(self, other: Any) -> "Expr":
        return _call("subtract", other, self)

    def __mul__(self, other: Any) -> "Expr":
        return _call("multiply", self, other)

    def __rmul__(self, other: Any) -> "Expr":
        return _call("multiply", self, other)

    def __truediv__(self, other: Any) -> "Expr":
        return _call("divide", self, other)

    def __rtruediv__(self, other: Any) -> "Expr":
        return _call("divide", other, self)

    def __pow__(self, other: Any) -> "Expr":
        return _call("power", self, other)

    def __rpow__(self, other: Any) -> "Expr":
        return _call("power", other, self)

    def __matmul__(self, other: Any) -> "Expr":
        return _call("matmul", self, other)

    def __gt__(self, other: Any) -> "Expr":
        return _call("greater", self, other)

    def __ge__(self, other: Any) -> "Expr":
        return _call("greater_equal", self, other)

    def __lt__(self, other: Any) -> "Expr":
        return _call("less", self, other)

    def __le__(self, other: Any) -> "Expr":
        return _call("less_equal", self, other)

    def __eq__(self, other: Any) -> "Expr":  # type: ignore[override]
        return _call("equal", self, other)

    def __ne__(self, other: Any) -> "Expr":  # type: ignore[override]
        return _call("not_equal", self, other)

    # Equality is an expression, so an expression is a key by its identity.
    __hash__ = object.__hash__

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that it needs, each once."""
        names = [node.args[0] for node in self.walk() if node.name == "col"]
        return tuple(dict.fromkeys(names))

    def walk(self) -> Iterator["Expr"]:
        """Go through its parts, those that others need first; shared ones once."""
        seen: set[int] = set()

        def visit(node: Expr) -> Iterator[Expr]:
            if id(node) in seen:
                return
            seen.add(id(node))
            for arg in node.args:
                if isinstance(arg, Expr):
                    yield from visit(arg)
            yield node

        return visit(self)

    @property
    def is_rows(self) -> bool:
        """Whether it gives a value for each row, from that row alone."""
        if self.name in ("col", "lazy"):
            return True
        if self.name in ("len", "first", "last"):
            return False
        operands = [arg for arg in self.args if isinstance(arg, Expr)]
        function = _native.get_function(self.name)
        return all(arg.is_rows for arg in operands) and function.is_row_by_row(**self.options)

    def first(self, *, skip_nulls: bool = True) -> "Expr":
        """Take the first row of each group, in `group_by`; with ``skip_nulls`` the first not null.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": [1, 1, 2], "name": [None, "b", "c"]})
        >>> ra.group_by(rows, "k").aggregate(name=ra.col("name").first()).to_pylist()
        [{'k': 1, 'name': 'b'}, {'k': 2, 'name': 'c'}]
        """
        return Expr("first", (self,), {"skip_nulls": skip_nulls})

    def last(self, *, skip_nulls: bool = True) -> "Expr":
        """Take the last row of each group, in `group_by`; with ``skip_nulls`` the last not null.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> rows = pa.table({"k": [1, 1, 2], "name": ["a", None, "c"]})
        >>> ra.group_by(rows, "k").aggregate(name=ra.col("name").last()).to_pylist()
        [{'k': 1, 'name': 'a'}, {'k': 2, 'name': 'c'}]
        """
        return Expr("last", (self,), {"skip_nulls": skip_nulls})

    def result_type(self, schema: Any) -> Any:
        """Give the type of its values for a schema, without evaluating it.

        Parameters
        ----------
        schema
            A ``pyarrow.Schema``, or a mapping of names to pyarrow types.

        Returns
        -------
        pyarrow.DataType

        Examples
        --------
        >>> import pyarrow as pa
        >>> import raptors_arrow as ra
        >>> schema = pa.schema({"emb": pa.list_(pa.int8(), 384)})
        >>> ra.col("emb").mean(axis=1).result_type(schema)
        DataType(double)
        >>> ra.col("emb").normalize().result_type(schema)
        FixedSizeListType(fixed_size_list<item: double>[384])
        """
        from raptors_arrow._types import result_type

        return result_type(self, schema)

    def collect(self) -> Any:
        """Evaluate an expression over data at hand, made by `lazy`.

        Examples
        --------
        >>> import numpy as np
        >>> import raptors_arrow as ra
        >>> ra.lazy(np.array([[3.0, 4.0]])).normalize().collect()
        array([[0.6, 0.8]])
        """
        if self.columns:
            raise RaptorsValueError(
                f"collect: {self!r} names columns; evaluate it with select or with_columns, or "
                "begin it with lazy(data)"
            )
        return evaluate(self, {})

    def explain(self, source: Any = None) -> str:
        """Say which passes over the data it takes, without taking the last ones.

        Calls that follow one another are fused: they run in one pass over tiles that stay in the
        cache. What has to be there before (a mean that is subtracted) is computed to say so.

        Parameters
        ----------
        source
            The table or batch that has the columns it names; nothing for data at hand.

        Examples
        --------
        >>> import numpy as np
        >>> import raptors_arrow as ra
        >>> x = ra.lazy(np.ones((1000, 8), dtype="f4"))
        >>> print(x.scale(2).clip(0, 1).mean(axis=1).explain())
        lazy(<ndarray>).scale(2).clip(min=0, max=1).mean(axis=1)
          pass 1  scale, clip, mean* (fused): 32000 bytes read, 4000 written, 1 thread
        """
        if self.columns and source is None:
            raise RaptorsValueError(
                f"explain: {self!r} names columns; pass the table or batch that has them"
            )
        parts, wanted = _flattened([self], {}, str if source is None else source.column)
        explained = _native._explain_parts(parts, wanted)
        lines = [repr(self)]
        if explained is None:
            lines.append("  call by call: not data of pyarrow, polars or NumPy")
        for i, (calls, is_fused, step) in enumerate(explained or ()):
            how = " (fused)" if is_fused else ""
            threads = f"{step.threads} thread{'s' if step.threads > 1 else ''}"
            moved = f"{step.bytes_read} bytes read, {step.bytes_written} written"
            lines.append(f"  pass {i + 1}  {', '.join(calls)}{how}: {moved}, {threads}")
        return "\n".join(lines)


def _described(value: Any) -> str:
    if isinstance(value, Expr | int | float | str | list | tuple) or value is None:
        return repr(value)
    return f"<{type(value).__name__}>"


def _call(name: str, *args: Any, **options: Any) -> Expr:
    return Expr(name, args, options)


def col(name: str) -> Expr:
    """Name a column of the source that an expression is evaluated on.

    Examples
    --------
    >>> import raptors_arrow as ra
    >>> ra.col("emb").clip(0, 1)
    col('emb').clip(min=0, max=1)
    """
    if not isinstance(name, str):
        raise RaptorsTypeError(f"col: expected the name of a column, got {type(name).__name__}")
    return Expr("col", (name,), {})


def lazy(x: Any) -> Expr:
    """Begin an expression with data at hand; ``collect()`` evaluates it.

    Examples
    --------
    >>> import numpy as np
    >>> import raptors_arrow as ra
    >>> (ra.lazy(np.array([[1.0, 2.0]])) * 2).sum(axis=1).collect()
    array([6.])
    """
    return Expr("lazy", (x,), {})


def length() -> Expr:
    """Count the rows of the source, or of a group.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import raptors_arrow as ra
    >>> ra.select(pa.table({"a": [1.0, None]}), n=ra.len())["n"].to_pylist()
    [2]
    """
    return Expr("len", (), {})


def evaluate(expr: Expr, values: Mapping[int, Any], column: Callable[[str], Any] = str) -> Any:
    """Evaluate an expression; ``values`` has those of some of its parts, by their identity."""
    return evaluate_all([expr], values, column)[0]


def evaluate_all(
    expressions: Sequence[Expr], values: Mapping[int, Any], column: Callable[[str], Any] = str
) -> list[Any]:
    """Evaluate expressions together, so that they share what they read and compute.

    ``values`` has those of some of their parts, by their identity; ``column`` gives the column of a
    name.
    """
    known = dict(values)
    parts, wanted = _flattened(expressions, known, column)
    # One call alone is a call.
    if sum(len(part) == 3 for part in parts) > 1:
        together = _native._evaluate(parts, wanted)
        if together is not None:
            return together
    return [_value(expr, known) for expr in expressions]


def _value(node: Any, known: dict[int, Any]) -> Any:
    # No function inside another that calls itself: such a cycle would keep the columns of a batch
    # until the garbage collector comes, and a stream in memory.
    if not isinstance(node, Expr):
        return node
    if id(node) not in known:
        known[id(node)] = _apply(node, [_value(arg, known) for arg in node.args])
    return known[id(node)]


def _flattened(
    expressions: Sequence[Expr], known: dict[int, Any], column: Callable[[str], Any]
) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Give the parts of expressions, each once and after those that it needs, and their indices.

    What columns and data hold is put into ``known``.
    """
    flat = _Flat(known, column)
    return flat.parts, [flat.index(expr) for expr in expressions]


class _Flat:
    """The parts of expressions, while they are put in order."""

    def __init__(self, known: dict[int, Any], column: Callable[[str], Any]) -> None:
        self.parts: list[tuple[Any, ...]] = []
        self._indices: dict[int, int] = {}
        self._known, self._column = known, column

    def index(self, node: Expr) -> int:
        """Give the index of a part, which is added if it is new."""
        key, known = id(node), self._known
        if key in self._indices:
            return self._indices[key]
        if key not in known and node.name in ("col", "lazy"):
            name_or_data = node.args[0]
            known[key] = self._column(name_or_data) if node.name == "col" else name_or_data
        if key in known:
            value = known[key]
            has_rows = node.name == "col" or (node.is_rows and _is_plain(value))
            part: tuple[Any, ...] = (value, has_rows)
        else:
            args = [(True, self.index(a)) if isinstance(a, Expr) else (False, a) for a in node.args]
            part = (node.name, args, node.options)
        self.parts.append(part)
        self._indices[key] = len(self.parts) - 1
        return self._indices[key]


def _apply(node: Expr, args: list[Any]) -> Any:
    function = _native.get_function(node.name)
    options = node.options
    positional = len(function.arguments)
    options = {**options, **dict(zip(function.by_name, args[positional:], strict=False))}
    first = 0 if function.driver == "where" else 1
    operands = list(zip(node.args, args, function.argument_kinds, strict=False))[first:]
    if any(
        kind == "operand" and isinstance(arg, Expr) and arg.is_rows and _is_plain(value)
        for arg, value, kind in operands
    ):
        options = {"axis": 0, **options}  # a column of numbers is one value for each row
    return function(*args[:positional], **options)


def _is_plain(value: Any) -> bool:
    """Whether it is an Arrow array of numbers, and not of lists."""
    return not getattr(getattr(value, "type", None), "num_fields", 1)


def _method(name: str) -> Callable[..., Expr]:
    """Make the method for a function: its signature without ``x``, which is the expression."""
    function = _native.get_function(name)
    parameters = list(signature(getattr(_native, name)).parameters.values())
    own = Signature([p for p in parameters[1:] if p.name != "width"])
    names = (*function.arguments[1:], *function.by_name)

    def method(self: Expr, *args: Any, **options: Any) -> Expr:
        try:
            bound = own.bind(*args, **options).arguments
        except TypeError as error:
            raise RaptorsTypeError(f"{name}: {error}; its signature is {name}{own}") from None
        given = tuple(bound.pop(own) for own in names if own in bound)
        if function.by_name and given and given[-1] is None:
            given = given[:-1]  # no weights
        return Expr(name, (self, *given), bound)

    method.__name__ = name
    method.__qualname__ = f"Expr.{name}"
    method.__doc__ = function.doc
    method.__signature__ = Signature([parameters[0].replace(name="self"), *own.parameters.values()])  # type: ignore[attr-defined]
    return method


for _name in _native.list_functions():
    setattr(Expr, _name, _method(_name))
