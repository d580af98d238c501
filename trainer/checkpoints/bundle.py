"""Reads the files of a checkpoint, TensorFlow's "tensor bundle", and proves whether they are whole.

TensorFlow's reader returns whole variables and reports a failed read and damage by the same error.
Here memory is bounded by a chunk, and the two are told apart: damage is a checksum, a size or a
missing file; any other failure is tried again and then raised as `RetryableError`.

The index is a sorted table (`tsl/lib/io/format.cc`) of `BundleEntryProto`s, which say where in the
data files a tensor lies and what its CRC-32C is (`core/util/tensor_bundle/tensor_bundle.cc`).
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import google_crc32c
import numpy as np

from pipeline import errors, storage
from pipeline.records import tfrecord
from pipeline.storage import checksums
from pipeline.storage.patience import read_patiently
from trainer.checkpoints import messages

_CHUNK = 8 << 20  # bytes
_FOOTER, _MAGIC = 48, 0xDB4775248B80FB57
_TRAILER = 5  # bytes after a block: its compression, 0 for none, and its masked CRC-32C
_LENGTHS = struct.Struct("<I")
_OTHERWISE = (messages.STRING, messages.VARIANT)

Progress = Callable[[int], None]


class Damaged(errors.DataError):
    """Proof that a checkpoint cannot be restored; the text says what is wrong with it."""


class _File:
    """One file, read at any place; it is opened again after a failure."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: Any = None
        self.size = int(read_patiently(path, lambda: storage.size(path)))

    def read(self, at: int, size: int) -> bytes:
        """Returns `size` bytes from `at`, fewer at the end of the file."""
        return bytes(read_patiently(self.path, lambda: self._read(at, size)))

    def _read(self, at: int, size: int) -> bytes:
        try:
            if self._file is None:
                self._file = storage.open_file(self.path)
            self._file.seek(at)
            return bytes(self._file.read(size))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Closes the file; reading opens it again."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()


class Bundle:
    """A checkpoint: the entries of its index, and their values."""

    def __init__(self, prefix: str) -> None:
        """Reads the index of the checkpoint at the path `prefix`.

        Raises `Damaged` if it is missing or not as it was written, and `RetryableError` if it
        cannot be read now.
        """
        self._prefix = prefix
        self._open: _File | None = None  # the data file that was read last
        try:
            with contextlib.closing(_File(f"{prefix}.index")) as file:
                table = dict(_read_entries(file))
        except FileNotFoundError:
            raise Damaged(f"{prefix}.index is missing") from None
        self._shards = _parse(messages.BundleHeader, table.pop(b"", b"")).num_shards
        # Those of a partitioned variable are one entry for its shape and one for each slice.
        self._tensors = {key: _parse(messages.BundleEntry, value) for key, value in table.items()}

    @property
    def parts(self) -> list[str]:
        """The names of its data files."""
        name = self._prefix.rpartition("/")[2]
        return [f"{name}.data-{part:05d}-of-{self._shards:05d}" for part in range(self._shards)]

    @property
    def size(self) -> int:
        """How many bytes of data there should be."""
        return sum(entry.size for entry in self._tensors.values())

    def __contains__(self, name: str) -> bool:
        return name.encode() in self._tensors

    def get_shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of a variable; of one that is partitioned, of the whole. Raises
        `KeyError` if the checkpoint lacks it."""
        return tuple(dim.size for dim in self._tensors[name.encode()].shape.dim)

    def read(self, name: str) -> np.ndarray:
        """Returns the value of a variable of numbers that is not partitioned.

        Raises `KeyError` if there is none of that name; `Damaged` and `RetryableError` as `check`
        does.
        """
        entry = self._tensors[name.encode()]
        content = b"".join(self._read_chunks(name, entry))
        self.close()
        dtype = messages.DTYPES[entry.dtype]
        return np.frombuffer(content, dtype).reshape(self.get_shape(name)).copy()

    def check(
        self,
        *,
        finite: bool = False,
        contents: bool = True,
        progress: Progress | None = None,
        chunk_size: int = _CHUNK,
    ) -> None:
        """Reads all data, `chunk_size` bytes at a time, and compares checksums; calls `progress`
        with the bytes read.

        Without `contents` only the sizes of the files are compared. Files of which gs:// keeps the
        right checksum are not read, unless their values must be `finite`. Raises `Damaged` if a
        file is missing, cut or altered, or if `finite` and a value is not; `RetryableError` if a
        file cannot be read now.
        """
        stored = [(key, entry) for key, entry in self._tensors.items() if not entry.slices]
        stored.sort(key=lambda item: (item[1].shard_id, item[1].offset))
        intact = (
            self._find_intact_files([entry for _, entry in stored])
            if contents and not finite
            else set()
        )
        for key, entry in stored:
            name = _decode_name(key)
            if not contents or self._build_path(entry) in intact:
                self._open_data_file(name, entry)
                continue
            numbers = finite and entry.dtype in messages.INEXACT
            dtype = messages.DTYPES.get(entry.dtype)
            for chunk in self._read_chunks(name, entry, chunk_size):
                if progress is not None:
                    progress(len(chunk))
                if numbers and not np.isfinite(np.frombuffer(chunk, dtype)).all():
                    raise Damaged(f"{name} is not finite")
        self.close()

    def find_nan(self) -> str | None:
        """Returns the name of a variable that holds NaN, `None` if none does. Raises as `check`."""
        try:
            for key, entry in self._tensors.items():
                if entry.slices or entry.dtype not in messages.INEXACT:
                    continue
                name, dtype = _decode_name(key), messages.DTYPES[entry.dtype]
                for chunk in self._read_chunks(name, entry):
                    if np.isnan(np.frombuffer(chunk, dtype)).any():
                        return name
            return None
        finally:
            self.close()

    def _find_intact_files(self, stored: Sequence[Any]) -> set[str]:
        """Returns the data files whose checksum, as the storage keeps it, is what those of their
        tensors make. Of strings the index has another checksum than that of their bytes."""
        ends: dict[str, tuple[int, int]] = {}  # of the tensors so far: end and checksum, by path
        unknown = set()
        for entry in stored:
            path = self._build_path(entry)
            end, crc = ends.get(path, (0, 0))
            if entry.offset != end or entry.dtype in _OTHERWISE:
                unknown.add(path)
            crc = checksums.combine(crc, _unmask_crc(entry.crc32c), entry.size)
            ends[path] = (entry.offset + entry.size, crc)
        paths = [path for path in ends if path not in unknown and storage.is_remote(path)]
        return {
            path
            for path, details in zip(paths, storage.describe(paths), strict=True)
            if details is not None
            and details.crc32c is not None
            and ends[path] == (details.size, int(details.crc32c, 16))
        }

    def _read_chunks(self, name: str, entry: Any, size: int = _CHUNK) -> Iterator[bytes]:
        """Yields the bytes of a tensor as they are stored, whole values, `size` bytes at a time."""
        try:
            yield from _check_chunks(self._open_data_file(name, entry), name, entry, size=size)
        except FileNotFoundError:
            raise Damaged(f"{self._build_path(entry)} is missing") from None

    def _open_data_file(self, name: str, entry: Any) -> _File:
        """Returns the data file of an entry; it stays open until another is needed."""
        path = self._build_path(entry)
        try:
            if self._open is None or self._open.path != path:
                self.close()
                self._open = _File(path)
        except FileNotFoundError:
            raise Damaged(f"{path} is missing") from None
        if entry.offset + entry.size > self._open.size:
            raise Damaged(f"{path} is cut off at byte {self._open.size}, within {name}")
        return self._open

    def _build_path(self, entry: Any) -> str:
        return f"{self._prefix}.data-{entry.shard_id:05d}-of-{self._shards:05d}"

    def close(self) -> None:
        """Closes the file that is open; reading opens it again."""
        if self._open is not None:
            self._open.close()


def _check_chunks(file: _File, name: str, entry: Any, *, size: int) -> Iterator[bytes]:
    crc = 0
    strings = _Strings(entry) if entry.dtype == messages.STRING else None
    for at in range(entry.offset, entry.offset + entry.size, size):
        wanted = min(size, entry.offset + entry.size - at)
        chunk = file.read(at, wanted)
        if len(chunk) < wanted:
            raise Damaged(f"{file.path} is cut off at byte {at + len(chunk)}, within {name}")
        crc = google_crc32c.extend(crc, chunk) if strings is None else strings.extend(crc, chunk)
        yield chunk
    if entry.dtype == messages.VARIANT:
        return  # each object in it has checks of its own
    if _mask_crc(crc) != entry.crc32c:
        raise Damaged(f"the checksum of {name} is wrong")


class _Strings:
    """The checksum of a tensor of strings: of each length as four or eight bytes, though they are
    stored as varints, then of all that follows as it is."""

    def __init__(self, entry: Any) -> None:
        self._left = int(np.prod([dim.size for dim in entry.shape.dim], dtype=np.int64))
        self._value = self._shift = 0

    def extend(self, crc: int, chunk: bytes) -> int:
        """Returns the checksum with one more chunk."""
        at = 0
        lengths = bytearray()
        while self._left and at < len(chunk):
            self._value |= (chunk[at] & 0x7F) << self._shift
            self._shift += 7
            if chunk[at] < 0x80:
                lengths += self._value.to_bytes(4 if self._value < 1 << 32 else 8, "little")
                self._left -= 1
                self._value = self._shift = 0
            at += 1
        return int(google_crc32c.extend(google_crc32c.extend(crc, bytes(lengths)), chunk[at:]))


def _read_entries(file: _File) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of a table."""
    footer = file.read(max(0, file.size - _FOOTER), _FOOTER)
    if len(footer) < _FOOTER or int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise Damaged("the index is cut off, or is not an index")
    _, _, at = read_handle(footer, 0)
    start, size, _ = read_handle(footer, at)
    for _, value in _read_block(file, start, size):
        start, size, _ = read_handle(value, 0)
        yield from _read_block(file, start, size)


def _read_block(file: _File, start: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yields keys and values of a block; a key begins with a part of the key before it."""
    content = file.read(start, size + _TRAILER)
    if len(content) != size + _TRAILER or _LENGTHS.unpack(content[-4:])[0] != (
        tfrecord.compute_masked_crc32c(content[:-4])
    ):
        raise Damaged("the checksum of the index is wrong")
    if content[size]:
        raise errors.UsageError(
            f"the index of the checkpoint is compressed ({content[size]}), which TensorFlow 2 "
            "does not write. Save it again with TensorFlow 2"
        )
    end = size - 4 * (1 + _LENGTHS.unpack(content[size - 4 : size])[0])
    at, key = 0, b""
    while at < end:
        shared, at = _read_varint(content, at)
        own, at = _read_varint(content, at)
        length, at = _read_varint(content, at)
        key = key[:shared] + content[at : at + own]
        yield key, content[at + own : at + own + length]
        at += own + length


def read_handle(content: bytes, at: int) -> tuple[int, int, int]:
    """Returns start and size of a block, and where the next handle is."""
    start, at = _read_varint(content, at)
    size, at = _read_varint(content, at)
    return start, size, at


def _read_varint(content: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(content):
        value |= (content[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if content[at - 1] < 0x80:
            return value, at
    raise Damaged("the index is altered")


def _parse(kind: Any, content: bytes) -> Any:
    try:
        return kind.FromString(content)
    except Exception:  # of the library that protobuf was built with
        raise Damaged("the index is altered") from None


def _decode_name(key: bytes) -> str:
    """Returns the name of the variable that an entry is of. The key of a slice is a zero, the name,
    and where the slice lies."""
    name = key[1:].partition(b"\0\1")[0] if key[:1] == b"\0" else key
    return name.decode(errors="replace")


def _unmask_crc(masked: int) -> int:
    crc = (masked - tfrecord.MASK_DELTA) & 0xFFFFFFFF
    return ((crc >> 17) | (crc << 15)) & 0xFFFFFFFF


def _mask_crc(crc: int) -> int:
    return (((crc >> 15) | (crc << 17)) + tfrecord.MASK_DELTA) & 0xFFFFFFFF
