"""What a Cloud Storage holds: buckets of objects, each with the generation of its last write."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import hashlib
import itertools
import re
import struct
import threading
from typing import Any

import google_crc32c


class Refused(Exception):
    """A request that is answered with an HTTP status other than success."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Object:
    """One generation of one object."""

    bucket: str
    name: str
    data: bytes
    generation: int
    updated: datetime.datetime
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def checksums(self) -> dict[str, str]:
        """CRC-32C and MD5 as the service writes them."""
        crc = struct.pack(">I", google_crc32c.value(self.data))
        md5 = hashlib.md5(self.data).digest()
        return {"crc32c": _base64(crc), "md5Hash": _base64(md5)}

    def resource(self) -> dict[str, Any]:
        """Returns the object as the JSON API describes it."""
        time = self.updated.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {
            "kind": "storage#object",
            "id": f"{self.bucket}/{self.name}/{self.generation}",
            "bucket": self.bucket,
            "name": self.name,
            "size": str(len(self.data)),
            "generation": str(self.generation),
            "metageneration": "1",
            "timeCreated": time,
            "updated": time,
            "storageClass": "STANDARD",
            "contentType": self.metadata.get("contentType", "application/octet-stream"),
            **self.checksums,
        }


class Buckets:
    """Objects by bucket and name. Every change is of one object, and atomic."""

    def __init__(self, *names: str) -> None:
        self._objects: dict[str, dict[str, Object]] = {name: {} for name in names}
        self._generations = itertools.count(1)
        self._lock = threading.RLock()
        # Objects that are still left out of so many listings, and which new ones will be.
        self._hidden: dict[tuple[str, str], int] = {}
        self._lagging: tuple[re.Pattern[str], int] | None = None

    def make(self, bucket: str) -> None:
        """Makes a bucket, unless it is there."""
        with self._lock:
            self._objects.setdefault(bucket, {})

    def names(self, bucket: str, prefix: str = "") -> list[str]:
        """Returns the names of all objects of a bucket, sorted."""
        with self._lock:
            return sorted(name for name in self._of(bucket) if name.startswith(prefix))

    def data(self, bucket: str, name: str) -> bytes:
        """Returns what an object holds."""
        return self.get(bucket, name).data

    def get(self, bucket: str, name: str, match: str | None = None) -> Object:
        """Returns an object, if its generation is `match` (where that is given)."""
        with self._lock:
            found = self._of(bucket).get(name)
            if found is None:
                raise Refused(404, f"No such object: {bucket}/{name}")
            self._check(bucket, name, match)
            return found

    def put(
        self,
        bucket: str,
        name: str,
        data: bytes,
        match: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> Object:
        """Rewrites an object, if it has the generation `match` until then; 0 is none."""
        with self._lock:
            self._check(bucket, name, match)
            now = datetime.datetime.now(datetime.timezone.utc)
            new = Object(bucket, name, data, next(self._generations), now, metadata or {})
            expected = new.metadata.get("crc32c")
            if expected not in (None, new.checksums["crc32c"]):
                raise Refused(400, f"Provided CRC32C {expected} doesn't match")
            if self._lagging and name not in self._of(bucket) and self._lagging[0].search(name):
                self._hidden[bucket, name] = self._lagging[1]
            self._of(bucket)[name] = new
            return new

    def delete(self, bucket: str, name: str, match: str | None = None) -> None:
        """Removes an object."""
        with self._lock:
            self.get(bucket, name, match)
            del self._of(bucket)[name]

    def list(self, bucket: str, prefix: str, delimiter: str) -> tuple[list[Object], list[str]]:
        """Returns the objects below a prefix, and what is common to those behind a delimiter."""
        with self._lock:
            self._of(bucket)
            items, prefixes = [], set()
            for name in self.names(bucket, prefix):
                rest = name[len(prefix) :]
                if delimiter and delimiter in rest:
                    prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
                elif not self._lags(bucket, name):
                    items.append(self._of(bucket)[name])
            return items, sorted(prefixes)

    def lag(self, pattern: str, listings: int) -> None:
        """Leaves new objects whose name has `pattern` out of their first so many listings."""
        self._lagging = (re.compile(pattern), listings)

    def _lags(self, bucket: str, name: str) -> bool:
        left = self._hidden.get((bucket, name), 0)
        self._hidden[bucket, name] = max(0, left - 1)
        return left > 0

    def _of(self, bucket: str) -> dict[str, Object]:
        if bucket not in self._objects:
            raise Refused(404, "The specified bucket does not exist.")
        return self._objects[bucket]

    def _check(self, bucket: str, name: str, match: str | None) -> None:
        found = self._of(bucket).get(name)
        if match is not None and int(match) != (found.generation if found else 0):
            raise Refused(412, "At least one of the pre-conditions you specified did not hold.")


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
