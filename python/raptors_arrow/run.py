"""``raptors-arrow run``: expressions over files, from the command line.

Results for each row are written to a file beside the columns that were there; results that reduce
rows are shown. Files are read and written batch by batch.
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from raptors_arrow._parse import parse
from raptors_arrow._passes import is_rows_in_passes
from raptors_arrow._types import element
from raptors_arrow.errors import RaptorsValueError
from raptors_arrow.stream import select_all, with_all

__all__ = ["DESCRIPTION", "add_arguments", "run"]

DESCRIPTION = """Compute over Parquet, Arrow IPC and CSV files.

  raptors-arrow run "emb.mean(axis=0), emb.std(axis=0)" in.parquet
  raptors-arrow run "unit = emb.normalize(); score = emb.dot(@q.parquet)" in/*.parquet -o out.arrow

An expression begins with a column (in backquotes, if its name is an odd one), and the functions are
its methods; @file is the one row, or column, of a file.
"""

#: Bytes that are gathered before a row group is written.
_GROUP_BYTES = 32 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("expressions", help="expressions, separated by ';' or ','")
    parser.add_argument("files", nargs="+", help="files, folders or patterns to read")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="a .parquet, .arrow or .arrows file to write"
    )
    parser.add_argument(
        "--only", action="store_true", help="write the results without the columns of the input"
    )
    parser.add_argument("--json", action="store_true", help="print results that reduce as JSON")
    parser.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="show rows and rows per second (default: on a terminal)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the command, and give its exit code."""
    expressions = parse(args.expressions, _operand)
    progress = sys.stderr.isatty() if args.progress is None else args.progress
    is_rows = [is_rows_in_passes(expr) for expr in expressions.values()]
    if any(is_rows) and args.output is None:
        raise RaptorsValueError(
            f"{next(iter(expressions))} has a value for each row: write it to a file with -o FILE"
        )
    compute = with_all if any(is_rows) and not args.only else select_all
    try:
        made = compute(args.files, expressions, progress)
        if args.output is not None:
            _write(made, Path(args.output))
        elif args.json:
            print(json.dumps(_plain(made.to_pylist()[0]), allow_nan=False))
        else:
            _show(made)
    except (OSError, pa.ArrowException) as error:
        print(f"raptors-arrow run: {error}", file=sys.stderr)
        return 1
    return 0


def _operand(path: str, column: str | None) -> Any:
    """Give the operand that a file holds: one vector, if it is one row."""
    from raptors_arrow.sources import as_source

    source = as_source(path)
    names = source.schema.names
    if column is None:
        kinds = [(field.name, element(pa, field.type)) for field in source.schema]
        numbers = [
            name for name, kind in kinds if pa.types.is_integer(kind) or pa.types.is_floating(kind)
        ]
        if len(numbers) != 1:
            raise RaptorsValueError(
                f"{path}: expected one column of numbers or vectors, got {', '.join(names)}; name "
                f"one: @{path}[{numbers[0] if numbers else 'column'}]"
            )
        column = numbers[0]
    if column not in names:
        raise RaptorsValueError(f"{path}: no column {column!r}; it has {', '.join(names)}")
    batches = list(source.batches([column]))
    chunks = [batch.column(column) for batch in batches]
    values = pa.chunked_array(chunks, source.schema.field(column).type).combine_chunks()
    is_one = len(values) == 1 and pa.types.is_nested(values.type)
    return pa.array(values[0].values) if is_one else values


def _write(made: Any, output: Path) -> None:
    """Write a table or the batches of a reader."""
    with _aside(output) as aside, _writer(aside, output, made.schema) as write:
        batches = made.to_batches() if isinstance(made, pa.Table) else made
        waiting: list[Any] = []
        bytes = 0
        for batch in batches:
            waiting.append(batch)
            bytes += batch.nbytes
            if bytes >= _GROUP_BYTES:
                write(pa.Table.from_batches(waiting))
                waiting, bytes = [], 0
        if waiting:
            write(pa.Table.from_batches(waiting))


@contextmanager
def _aside(output: Path) -> Iterator[Path]:
    """Give a path to write to, which takes the name of the output once all is written."""
    folder = output.parent
    if not folder.is_dir():
        raise RaptorsValueError(f"no such folder to write to: {folder}")
    aside = folder / f".{output.name}.{os.getpid()}.partial"
    try:
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, output)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def _writer(path: Path, output: Path, schema: Any) -> Iterator[Callable[[Any], None]]:
    """Open a file in the format that the name of the output says."""
    import pyarrow.parquet as pq

    suffix = output.suffix.lower()
    if suffix in (".parquet", ".pq"):
        with pq.ParquetWriter(path, schema) as parquet:
            yield parquet.write_table
    elif suffix in (".arrow", ".ipc", ".feather", ".arrows"):
        opened = pa.ipc.new_stream if suffix == ".arrows" else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as file, opened(file, schema) as ipc:
            yield ipc.write_table
    else:
        raise RaptorsValueError(
            f"expected an output of .parquet, .arrow or .arrows, got {output.name}"
        )


def _plain(value: Any) -> Any:
    """Give a value as JSON has it: what is no number there is a text."""
    if isinstance(value, dict):
        return {key: _plain(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [_plain(inside) for inside in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _show(made: Any) -> None:
    """Print one row of results as a table: a line for each."""
    rows = [(name, _brief(value)) for name, value in made.to_pylist()[0].items()]
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        wide = max(len(name) for name, _ in rows)
        print("\n".join(f"{name:<{wide}}  {value}" for name, value in rows))
        return
    table = Table("result", "value", box=box.SIMPLE)
    for name, value in rows:
        table.add_row(name, value)
    Console().print(table)


def _brief(value: Any) -> str:
    """Write a value; of a long vector the first and the last elements."""
    if isinstance(value, list):
        first, last = value[:5], value[-2:]
        if len(value) <= 8:
            return f"[{', '.join(map(_brief, value))}]"
        inside = ", ".join([*map(_brief, first), "…", *map(_brief, last)])
        return f"[{inside}] ({len(value)} values)"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
