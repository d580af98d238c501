"""The name of a container image: registry and path, then a tag, a digest, or both."""

from __future__ import annotations

import re

from pipeline import errors

# https://github.com/distribution/reference, where each of these has its name.
_DIGEST = re.compile("sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_HOST = r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
_DOMAIN = rf"({_HOST}(\.{_HOST})*|\[[0-9a-fA-F:]+\])(:[0-9]{{1,5}})?"
_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_PATH = re.compile(rf"({_DOMAIN}/)?(?P<behind>{_PART}(/{_PART})*)")
_LONGEST_PATH = 255  # without the registry


def path(name: str) -> str:
    """Returns the name of an image without tag and digest."""
    tagged = name.partition("@")[0]
    before, _, tag = tagged.rpartition(":")
    return before if before and "/" not in tag else tagged


def check(name: str, place: str) -> None:
    """Raises `UsageError` for a name that means another image after the next push: processes that
    are started again later would run other code; and for one that no image can have."""
    tagged, with_digest, digest = name.partition("@")
    _check_path(path(name), f"CLUSTER={place}: IMAGE={name}")
    if tag := tagged[len(path(name)) :]:
        _check_tag(tag[1:], f"CLUSTER={place}: IMAGE={name}")
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


def _check_path(found: str, where: str) -> None:
    name = _PATH.fullmatch(found)
    if not name:
        raise errors.UsageError(
            f"{where}: {found!r} must be the name of a registry and parts behind slashes, as "
            "registry.example.org:5000/team/trainer. Parts are of lower-case letters and digits, "
            "with '.', '_', '__' or dashes only between them; nothing like https:// goes before"
        )
    if len(name["behind"]) > _LONGEST_PATH:
        raise errors.UsageError(
            f"{where}: the name has {len(name['behind'])} characters behind the registry; at most "
            f"{_LONGEST_PATH} are allowed. Choose a shorter one"
        )


def _check_tag(tag: str, where: str) -> None:
    if not _TAG.fullmatch(tag):
        raise errors.UsageError(
            f"{where}: the tag must be 1 to 128 letters, digits, '_', '.' or '-', and begin with "
            f"none of the last two, got {tag!r}. Use the digest that make image prints"
        )
