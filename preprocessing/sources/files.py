"""Files of rows: found by name or pattern, opened whether plain, gz or zip, in any encoding."""

from __future__ import annotations

import codecs
import collections
import contextlib
import glob
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from pipeline import config, errors, storage
from pipeline.config.splits import SplitName
from pipeline.records import file_kinds
from pipeline.source_table import SOURCES
from preprocessing.sources.base import RawFile

# How many times as large as it is a packed file is taken to be; of much text it is less.
_PACKED = 10
_ENCRYPTED = 1  # the bit of it in the flags of a zip's member
# How files of rows are called.
_OF_DATA = tuple(suffix for kind in SOURCES.values() for suffix in kind.suffixes)
# Encodings in which a byte of a newline or a quote means nothing else, and that need no recoding.
_AS_IT_IS = ("utf-8", "utf-8-sig", "ascii")


def choose_ending(endings: Iterable[str]) -> str:
    """Returns of the endings of files the one that data have: a known one, of most of the files."""
    counts = collections.Counter(endings)
    return max(sorted(counts), key=lambda one: (one.lower().endswith(_OF_DATA), counts[one]))


def find(data: config.Data, split: SplitName) -> list[RawFile]:
    """Returns the files of a split in order of role, then path.

    Raises `DataError` for a pattern that no file fits; a plain path is not looked for.
    """
    return [
        RawFile(f"{split}/{role}/{path[_measure_above(pattern) :]}", path)
        for role, pattern in sorted(data.inputs[split].items())
        for path in _find_matches(pattern)
    ]


@contextlib.contextmanager
def open_unpacked(path: str, encoding: str = "utf-8", offset: int = 0) -> Iterator[IO[bytes]]:
    """Opens a file as a stream of its unpacked bytes in UTF-8, without a byte order mark.

    It stands at `offset` of these; to get there costs nothing if the file `can_be_cut`. Raises
    `DataError` naming it for whatever is wrong with it, while it is read too. Bytes that are not
    UTF-8 pass if that is the `encoding`, so that single rows can be refused.
    """
    with translate_errors(path), storage.open_file(path) as raw, unpack(raw, path) as stream:
        name = codecs.lookup(encoding).name
        if name not in _AS_IT_IS:
            stream = io.BufferedReader(_Recoded(stream, name))
            # At most a header, which is all that was read of a file that cannot be cut.
            stream.read(offset)
        else:
            mark = codecs.BOM_UTF8
            stream.seek(offset + (len(mark) if stream.read(len(mark)) == mark else 0))
        yield stream


def can_be_cut(path: str, encoding: str = "utf-8") -> bool:
    """Tells if reading can begin anywhere: to get to an offset costs nothing."""
    with translate_errors(path), storage.open_file(path) as raw:
        kind = file_kinds.detect(raw.read(file_kinds.HEAD_BYTES))
    packed = kind in (file_kinds.GZIP, file_kinds.ZIP)
    return not packed and codecs.lookup(encoding).name in _AS_IT_IS


def estimate_unpacked_size(path: str) -> int:
    """Returns about how many bytes a packed file holds."""
    with translate_errors(path):
        return storage.size(path) * _PACKED


@contextlib.contextmanager
def translate_errors(path: str) -> Iterator[None]:
    """Turns what reading a file can raise into a `DataError` that names it."""
    try:
        yield
    except FileNotFoundError:
        raise errors.DataError(
            f"{path!r}: no such file. Check the path; make data fetches or makes "
            "what data.download or data.generate names."
        ) from None
    except EOFError:
        raise errors.DataError(f"{path!r}: truncated: the gz stream ends early") from None
    except (gzip.BadGzipFile, zipfile.BadZipFile, zlib.error) as error:
        raise errors.DataError(f"{path!r}: corrupt archive: {error}") from None
    except UnicodeError as error:
        raise errors.DataError(f"{path!r}: not in the encoding of data.csv: {error}") from None
    except OSError as error:
        raise errors.DataError(f"{path!r}: cannot be read: {error.strerror or error}") from None


class _Recoded(io.RawIOBase):
    """The text of a stream in UTF-8, read from its start to its end."""

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream = stream
        self._decode = codecs.getincrementaldecoder(encoding)().decode
        self._ready = memoryview(b"")
        self._first = True

    def readable(self) -> bool:
        """Says that it can be read from."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fills `buffer` and returns by how many bytes; 0 at the end."""
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._ready:
            raw = self._stream.read(1 << 20)
            text = self._decode(raw, final=not raw)
            if self._first and text:
                text, self._first = text.removeprefix("\ufeff"), False
            self._ready = memoryview(text.encode())
            if not raw and not text:
                return 0
        size = min(len(target), len(self._ready))
        target[:size], self._ready = self._ready[:size], self._ready[size:]
        return size


@contextlib.contextmanager
def unpack(raw: IO[bytes], path: str) -> Iterator[IO[bytes]]:
    """Gives the bytes of an open file, which may be gz, or a zip of one file."""
    kind = file_kinds.detect(raw.read(file_kinds.HEAD_BYTES))
    raw.seek(0)
    if kind is file_kinds.GZIP:
        yield gzip.GzipFile(fileobj=raw)  # type: ignore[misc]
    elif kind is file_kinds.ZIP:
        with zipfile.ZipFile(raw) as archive:
            files = [info for info in archive.infolist() if not info.is_dir()]
            # What macOS adds for each file does not count.
            members = [info for info in files if not info.filename.startswith("__MACOSX/")]
            if len(members) != 1:
                raise errors.DataError(
                    f"{path!r}: the zip holds {len(members)} files; it must hold one"
                )
            if members[0].flag_bits & _ENCRYPTED:
                raise errors.DataError(f"{path!r}: the zip is encrypted; unpack it first")
            with _open_member(archive, members[0], path) as member:
                yield member
    else:
        yield raw


def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: str) -> IO[bytes]:
    try:
        return archive.open(member)
    except NotImplementedError as error:
        raise errors.DataError(f"{path!r}: cannot be unpacked: {error}") from None


def escape(path: str) -> str:
    """Returns a pattern that only `path` fits."""
    return glob.escape(path)


def _measure_above(pattern: str) -> int:
    """Returns the length of what is left out of names: the folders above the first wildcard, and
    above those that name a column of the file, such as `day=2024-06-01`."""
    above = storage.split_at_wildcard(pattern)[0]
    while "=" in above.rstrip("/").rpartition("/")[2]:
        above = above[: above.rstrip("/").rfind("/") + 1]
    return len(above)


def _find_matches(pattern: str) -> list[str]:
    if not storage.has_wildcard(pattern):
        return [pattern]
    found = storage.glob(pattern)
    if not found:
        raise errors.DataError(f"{pattern!r}: no file fits this pattern")
    return found
