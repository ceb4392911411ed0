"""Files and datasets as batches: Parquet, Arrow IPC (files and streams) and CSV.

A batch is some megabytes, whatever the width of its rows, and few are read ahead. Parquet files are
decoded batch by batch: a row group may be larger than memory.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from glob import glob
from pathlib import Path
from typing import Any

from raptors_arrow._reading import FileBatches
from raptors_arrow.errors import RaptorsValueError

__all__ = ["dataset_batches", "dataset_rows", "files_of", "is_paths"]

_Batches = Callable[[Sequence[str] | None], Iterator[Any]]

#: The bytes of a batch that is read from a file.
_BATCH_BYTES = 8 << 20
#: The rows of one, at least and at most.
_BATCH_ROWS = (512, 131_072)
#: Taken for a value whose bytes the type does not say: a text, a list.
_SOME_BYTES = {"list": 4096, "other": 64}

_FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".arrows": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
    ".csv": "csv",
}


def is_paths(given: Any) -> bool:
    """Whether it is a path, or several."""
    if isinstance(given, str | os.PathLike):
        return True
    is_list = isinstance(given, list | tuple) and len(given) > 0
    return is_list and all(isinstance(path, str | os.PathLike) for path in given)


def files_of(given: Any) -> tuple[Any, _Batches, Callable[[], int | None]]:
    """Open paths: their schema, what reads their batches, and what counts their rows."""
    from pyarrow import dataset

    paths = _found([os.fspath(path) for path in _listed(given)])
    formats = {_format(path) for path in paths}
    if len(formats) > 1:
        raise RaptorsValueError(
            f"expected files of one format, got {' and '.join(sorted(formats))}"
        )
    format = formats.pop()
    if format == "ipc" and any(_is_ipc_stream(path) for path in paths):
        return _ipc_streams(paths)
    opened = dataset.dataset(paths[0] if len(paths) == 1 else paths, format=format)
    batches, _ = dataset_batches(opened)
    return opened.schema, batches, lambda: dataset_rows(opened)


def _listed(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]


def _found(paths: list[str]) -> list[str]:
    """Give the paths that are there, with patterns such as ``in/*.parquet`` in order of names."""
    found = []
    for path in paths:
        if "://" in path or Path(path).exists():
            found.append(path)
            continue
        matches = sorted(glob(path))
        if not matches:
            raise RaptorsValueError(f"no such file or directory: {path}")
        found += matches
    return found


def _format(path: str) -> str:
    where = Path(path)
    if where.is_dir():
        inside = {file.suffix.lower() for file in where.rglob("*") if file.is_file()}
        known = {_FORMATS[suffix] for suffix in inside if suffix in _FORMATS}
        if len(known) > 1:
            names = " and ".join(sorted(known))
            raise RaptorsValueError(f"expected files of one format in {path}, got {names}")
        return known.pop() if known else "parquet"
    return _FORMATS.get(where.suffix.lower(), "parquet")


def _is_ipc_stream(path: str) -> bool:
    if not Path(path).is_file():
        return False
    with open(path, "rb") as file:
        return file.read(6) != b"ARROW1"


def _ipc_streams(paths: list[str]) -> tuple[Any, _Batches, Callable[[], int | None]]:
    """Open files in the streaming format, one after the other."""
    import pyarrow as pa

    def opened(path: str) -> Any:
        file = pa.OSFile(path)
        is_stream = _is_ipc_stream(path)
        return file, (pa.ipc.open_stream if is_stream else pa.ipc.open_file)(file)

    first, reader = opened(paths[0])
    with first:
        schema = reader.schema

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        for path in paths:
            file, reader = opened(path)
            with file:
                if not reader.schema.equals(schema):
                    raise RaptorsValueError(
                        f"{path} has another schema than {paths[0]}; all files must have one"
                    )
                count = getattr(reader, "num_record_batches", None)
                each = reader if count is None else map(reader.get_batch, range(count))
                for batch in each:
                    yield batch if columns is None else batch.select(list(columns))

    return schema, batches, lambda: None


def dataset_rows(dataset: Any) -> int | None:
    """Count the rows of a dataset, if its files say how many there are."""
    format = getattr(getattr(dataset, "format", None), "default_extname", None)
    return int(dataset.count_rows()) if format in ("parquet", "arrow", "feather") else None


def dataset_batches(dataset: Any) -> tuple[_Batches, bool]:
    """Give what reads a dataset, and whether it can be read again."""
    from pyarrow import dataset as ds

    def batches(columns: Sequence[str] | None) -> Iterator[Any]:
        names = None if columns is None else list(columns)
        if isinstance(dataset, ds.FileSystemDataset) and _is_plain(dataset):
            return FileBatches(_of_files(dataset, names))
        return _scanned(dataset, dataset.schema, names)

    return batches, _is_repeatable(ds, dataset)


def _of_files(dataset: Any, names: list[str] | None) -> Iterator[tuple[str, Any]]:
    for fragment in dataset.get_fragments():
        _check_widths(dataset.schema, fragment, names)
        for batch in _fragment(dataset, fragment, names):
            held = [batch]
            del batch
            yield fragment.path, held.pop()


def _check_widths(schema: Any, fragment: Any, names: list[str] | None) -> None:
    """Refuse a file whose vectors are wider or narrower than those of the first."""
    import pyarrow as pa

    for field in fragment.physical_schema:
        at = schema.get_field_index(field.name)
        if at < 0 or (names is not None and field.name not in names):
            continue
        types = (schema.field(at).type, field.type)
        if not all(pa.types.is_fixed_size_list(type) for type in types):
            continue
        expected, got = (type.list_size for type in types)
        if expected != got:
            raise RaptorsValueError(
                f"expected {field.name} of width {expected}, got width {got} (in {fragment.path})"
            )


def _is_repeatable(ds: Any, dataset: Any) -> bool:
    if isinstance(dataset, ds.UnionDataset):
        return all(_is_repeatable(ds, child) for child in dataset.children)
    return isinstance(dataset, ds.FileSystemDataset)


def _is_plain(dataset: Any) -> bool:
    """Whether it has no filter of its own."""
    return not getattr(dataset, "_scan_options", None)


def _fragment(dataset: Any, fragment: Any, names: list[str] | None) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import dataset as ds

    schema = dataset.schema
    if not isinstance(fragment, ds.ParquetFileFragment) or not _reads_alone(ds, schema, fragment):
        yield from _scanned(fragment, schema, names, schema=schema)
        return
    wanted = schema if names is None else pa.schema([schema.field(name) for name in names])
    opened = fragment.filesystem.open_input_file(fragment.path)
    with opened, closing(pq.ParquetFile(opened, pre_buffer=False, buffer_size=1 << 20)) as file:
        groups = [group.id for group in fragment.row_groups]
        rows = _rows_of_a_batch(wanted)
        # By whole columns: a list is named by its leaves.
        columns = _leaves(file, names)
        for batch in file.iter_batches(rows, row_groups=groups, columns=columns):
            yield batch.select(wanted.names).replace_schema_metadata(schema.metadata)


def _leaves(file: Any, names: list[str] | None) -> list[str] | None:
    if names is None:
        return None
    wanted = set(names)
    schema = file.schema
    paths = [schema.column(i).path for i in range(len(schema))]
    return [path for path in paths if path.split(".")[0] in wanted or path in wanted]


def _reads_alone(ds: Any, schema: Any, fragment: Any) -> bool:
    """Whether its file has all columns, as the dataset has them."""
    is_whole = fragment.partition_expression.equals(ds.scalar(True))
    is_same = fragment.physical_schema.equals(schema)
    # A name with a dot could be one of a column inside another.
    return is_whole and is_same and not any("." in name for name in schema.names)


def _scanned(dataset: Any, of: Any, names: list[str] | None, **more: Any) -> Iterator[Any]:
    scanner = dataset.scanner(
        columns=names,
        batch_size=_rows_of_a_batch(of),
        batch_readahead=1,
        fragment_readahead=1,
        **more,
    )
    return iter(scanner.to_batches())


def _rows_of_a_batch(schema: Any) -> int:
    fewest, most = _BATCH_ROWS
    bytes = sum(_bytes_of(field.type) for field in schema)
    return min(max(_BATCH_BYTES // max(bytes, 1), fewest), most)


def _bytes_of(type: Any) -> int:
    import pyarrow as pa

    if isinstance(type, pa.BaseExtensionType):
        type = type.storage_type
    if pa.types.is_fixed_size_list(type):
        return int(type.list_size) * _bytes_of(type.value_type)
    if pa.types.is_struct(type):
        return sum(_bytes_of(field.type) for field in type)
    if pa.types.is_nested(type):
        return _SOME_BYTES["list"]
    try:
        return max(int(type.bit_width) // 8, 1)
    except ValueError:
        return _SOME_BYTES["other"]
