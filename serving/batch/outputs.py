"""The file of predictions: CSV, JSON lines or Parquet, put together from the parts of workers.

It appears whole, under a name that nothing else has.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipeline import errors, storage
from serving.batch.answers import LABEL

FORMATS = ("csv", "jsonl", "parquet")


def format_of(path: str, wanted: str | None) -> str:
    """Returns the format of an output file: what is `wanted`, or else by how its name ends.

    Raises `UsageError` if its name says nothing, or something else.
    """
    ending = path.rpartition("/")[2].rpartition(".")[2].lower()
    found = ending if ending in FORMATS else None
    if wanted and found and wanted != found:
        raise errors.UsageError(f"--output {path!r}: ends in .{found}, but --format={wanted}")
    if not (wanted or found):
        raise errors.UsageError(
            f"--output {path!r}: must end in {', '.join(f'.{name}' for name in FORMATS)}, or say "
            "which with --format="
        )
    return wanted or str(found)


def read_tables(parts: Sequence[str], *, labels: bool) -> Iterator[pa.Table]:
    """Yields what workers have written; without the column of labels if it says nothing."""
    for path in parts:
        remote = storage.is_remote(path)
        with storage.open_file(path) if remote else pa.memory_map(path) as file:
            table = pa.ipc.open_file(file).read_all()
            yield table if labels or LABEL not in table.column_names else table.drop([LABEL])


def write(found: Iterator[pa.Table], kind: str, target: str, *, new: bool) -> None:
    """Writes the predictions to `target`. If they must be `new`, it may not be there already.

    Raises `UsageError` or `RetryableError` where nothing can be written.
    """
    try:
        with _replace_when_finished(target, new) as file:
            _WRITERS[kind](found, file)
    except FileExistsError:
        raise exists_error(target) from None
    except OSError as error:
        raise errors.translate_os_error(
            error, f"cannot write {target!r}", place_of="OUTPUT="
        ) from None


def exists_error(path: str) -> errors.UsageError:
    """Returns the error for an output that is there already."""
    return errors.UsageError(
        f"--output {path!r}: exists, and is not overwritten; remove it or choose another"
    )


@contextlib.contextmanager
def _replace_when_finished(target: str, new: bool) -> Iterator[IO[bytes]]:
    """Opens a file next to `target`, which gets its name when everything is in it."""
    if storage.is_remote(target):
        with tempfile.NamedTemporaryFile() as local:
            yield local
            local.flush()
            if new and storage.exists(target):
                raise FileExistsError(target)
            storage.copy(local.name, target)
        return
    descriptor, path = tempfile.mkstemp(
        prefix=f".{os.path.basename(target)}.", suffix=".tmp", dir=storage.parent(target)
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(path, 0o666 & ~_read_umask())
        if new:
            os.link(path, target)  # fails if another process was faster
        else:
            os.replace(path, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _read_umask() -> int:
    """Returns which permissions new files are not given; it can only be read by setting it."""
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


# From here on, the digits of a float32 that are left out weigh hundredths and more.
_LARGE = 2.0**16


def _write_csv(found: Iterator[pa.Table], file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(text, lineterminator="\n")
    for number, table in enumerate(found):
        if number == 0:
            writer.writerow(table.column_names)
        cells = [_build_cells(column) for column in table.columns]
        writer.writerows(zip(*cells, strict=True))
    text.detach()


def _build_cells(column: pa.ChunkedArray) -> list[Any]:
    if _has_items(column.type):
        return [json.dumps(value, allow_nan=False) for value in _convert_values(column)]
    return (_format_digits(column) if pa.types.is_floating(column.type) else column).to_pylist()


def _format_digits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Returns numbers as text: the fewest digits that give a float32 again, but all digits of large
    ones, of which the fewest are those of another whole number: 1700000256 is not 1700000300."""
    if not pa.types.is_float32(column.type):
        return column.cast(pa.string())
    large = pc.greater_equal(pc.abs(column), pa.scalar(_LARGE, pa.float32()))
    exact = column.cast(pa.float64()).cast(pa.string())
    return pc.if_else(large, exact, column.cast(pa.string()))


def _write_jsonl(found: Iterator[pa.Table], file: IO[bytes]) -> None:
    for table in found:
        names, columns = table.column_names, [_convert_values(column) for column in table.columns]
        lines = (
            json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, allow_nan=False)
            for row in zip(*columns, strict=True)
        )
        file.write("".join(f"{line}\n" for line in lines).encode())


def _convert_values(column: pa.ChunkedArray) -> list[Any]:
    """Returns values as JSON has them: `None` for NaN and infinities, also inside of lists."""
    if not pa.types.is_floating(column.type):
        return list(map(_replace_non_finite, column.to_pylist()))
    texts = _format_digits(column).to_pylist()
    return [None if text is None else _replace_non_finite(float(text)) for text in texts]


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_replace_non_finite, value))
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _has_items(kind: pa.DataType) -> bool:
    return any(
        is_kind(kind)
        for is_kind in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    )


def _write_parquet(found: Iterator[pa.Table], file: IO[bytes]) -> None:
    first = next(found)
    with pq.ParquetWriter(file, first.schema) as writer:
        writer.write_table(first)
        for table in found:
            writer.write_table(table)


_WRITERS = {"csv": _write_csv, "jsonl": _write_jsonl, "parquet": _write_parquet}
