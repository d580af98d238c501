"""The name of a container image: registry and path, then a tag, a digest, or both."""

from __future__ import annotations

import re

from pipeline import errors

_DIGEST = re.compile("sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")


def path(name: str) -> str:
    """Returns the name of an image without tag and digest."""
    tagged = name.partition("@")[0]
    before, _, tag = tagged.rpartition(":")
    return before if before and "/" not in tag else tagged


def check(name: str, place: str) -> None:
    """Raises `UsageError` for a name that means another image after the next push: processes that
    are started again later would run other code; and for a digest that no image can have."""
    _, with_digest, digest = name.partition("@")
    if with_digest and not _DIGEST.fullmatch(digest):
        raise errors.UsageError(
            f"CLUSTER={place}: IMAGE={name}: the digest must be sha256: with 64 hexadecimal digits "
            f"behind it, got {digest!r}. Use the one that make image prints"
        )
    if name[len(path(name)) :] in ("", ":latest"):
        raise errors.UsageError(
            f"CLUSTER={place}: IMAGE={name}: means another image after the next push. Use the "
            f"digest that make image prints, {path(name)}@sha256:…, or a tag that stays"
        )
