"""Several settings in one text, as `make SET="train.steps=5 model.params={x: 1}"` gives them."""

from __future__ import annotations

import re

from pipeline import errors

_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|' r"'(?:[^']|'')*'")
_NEXT = re.compile(r"\s+(?=[A-Za-z_][\w.-]*=)")


def parse(text: str) -> list[str]:
    """Returns the settings in `text` as `split` does. Raises `UsageError` for a key that has two
    values."""
    given: dict[str, str] = {}
    settings = split(text)
    for setting in settings:
        key, equals, value = setting.partition("=")
        if equals and given.setdefault(key, value) != value:
            raise errors.UsageError(
                f"SET: {key} is given twice, as {given[key]!r} and as {value!r}; remove one"
            )
    return settings


def split(text: str) -> list[str]:
    """Returns the settings in `text`, which are separated by spaces.

    A space within quotes, brackets or braces separates nothing, nor does one that is not followed
    by a key and an equals sign: `a=one two b=3` is `a=one two` and `b=3`. Quotes and brackets count
    where YAML has them, so an apostrophe within a word is a character like others.
    """
    settings, start, at, depth = [], 0, 0, 0
    text = text.strip()
    while at < len(text):
        begins = text[at - 1 : at] in (("[", "{", ",", ":", " ") if depth else ("=",))
        quoted = _QUOTED.match(text, at) if begins else None
        following = None if depth else _NEXT.match(text, at)
        if quoted:
            at = quoted.end()
        elif following:
            settings.append(text[start:at])
            start = at = following.end()
        else:
            if text[at] in "[{" and (begins or depth):
                depth += 1
            elif text[at] in "]}" and depth:
                depth -= 1
            at += 1
    return [*settings, text[start:]]
