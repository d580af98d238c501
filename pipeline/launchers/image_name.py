"""The name of a container image: registry and path, then a tag, a digest, or both."""

from __future__ import annotations

from pipeline import errors


def path(name: str) -> str:
    """Returns the name of an image without tag and digest."""
    tagged = name.partition("@")[0]
    before, _, tag = tagged.rpartition(":")
    return before if before and "/" not in tag else tagged


def check(name: str, place: str) -> None:
    """Raises `UsageError` for a name that means another image after the next push: processes that
    are started again later would run other code."""
    if name[len(path(name)) :] in ("", ":latest"):
        raise errors.UsageError(
            f"CLUSTER={place}: IMAGE={name}: means another image after the next push. Use the "
            f"digest that make image prints, {path(name)}@sha256:…, or a tag that stays"
        )
