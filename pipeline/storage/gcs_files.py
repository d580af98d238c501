"""Objects of Cloud Storage as open files."""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any

from pipeline.storage.gcs_client import blob_at, fetch_blob, retry, translate_errors

# Bytes fetched at a time: doubled from the first to the second for sequential reads.
_LEAST, _MOST = 256 << 10, 8 << 20
_PART = 8 << 20  # bytes of one part of an upload


def open_file(path: str, mode: str) -> Any:
    """Opens an object for `rb` or `wb`. One that is written appears when it is closed."""
    if mode == "wb":
        return _ObjectWriter(path)
    assert mode == "rb", mode
    return io.BufferedReader(_ObjectReader(path), _LEAST)


class _ObjectReader(io.RawIOBase):
    """One generation of an object, read by ranges."""

    def __init__(self, path: str) -> None:
        self._path = path
        with translate_errors(path):
            self._blob = fetch_blob(path)
        self._size, self._position = int(self._blob.size), 0
        # What has been fetched, and where it is in the object.
        self._held, self._held_at, self._ahead = b"", 0, _LEAST // 2

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fills `buffer` and returns by how many bytes; 0 at the end."""
        target = memoryview(buffer).cast("B")
        start = self._position - self._held_at
        if not 0 <= start < len(self._held):
            goes_on = start == len(self._held)
            self._ahead = min(2 * self._ahead, _MOST) if goes_on else _LEAST
            self._held = self._fetch(max(len(target), self._ahead))
            self._held_at, start = self._position, 0
        content = self._held[start : start + len(target)]
        self._position += len(content)
        target[: len(content)] = content
        return len(content)

    def readall(self) -> bytes:
        """Returns all that is left."""
        content = self._fetch(self._size)
        self._position = self._size
        return content

    def _fetch(self, most: int) -> bytes:
        end = min(self._position + most, self._size)
        if end <= self._position:
            return b""
        with translate_errors(self._path):
            content = self._blob.download_as_bytes(
                start=self._position,
                end=end - 1,
                raw_download=True,
                if_generation_match=self._blob.generation,
                retry=retry(),
            )
        return bytes(content)


class _ObjectWriter(io.BufferedIOBase):
    """An object that is being uploaded in parts."""

    def __init__(self, path: str) -> None:
        self._path, self._written = path, 0
        with translate_errors(path):
            self._inner = blob_at(path).open(
                "wb", ignore_flush=True, chunk_size=_PART, retry=retry()
            )

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._written

    def write(self, content: Any) -> int:
        with translate_errors(self._path):
            size = int(self._inner.write(content))
        self._written += size
        return size

    def close(self) -> None:
        """Makes the object appear."""
        if not self.closed:
            try:
                with translate_errors(self._path):
                    self._inner.close()
            finally:
                super().close()

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Drops what was written if the block has failed."""
        if kind is None:
            self.close()
            return
        with contextlib.suppress(Exception):
            self._inner.terminate()  # otherwise the collector would complete it
        super().close()
