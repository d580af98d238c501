"""Values and texts as YAML on one line, whatever they hold.

PyYAML writes them, as it reads configs. `ruamel.yaml` could write the comments as well, but leaves
`no` and `12:30:00` unquoted, which are no texts in YAML 1.1, unless the file begins with `%YAML`;
and it takes 4 s for 10,000 columns instead of 0.6 s.
"""

from __future__ import annotations

import math
from typing import Any

import yaml

_ENDLESS = 2**31 - 1
_BREAKS = ("\n", "\r", "\x85", "\u2028", "\u2029")


class _OneLine(yaml.SafeDumper):
    """Writes text that has line breaks between double quotes, where they are escaped."""


class _Quick(yaml.CSafeDumper):
    """The same by libyaml, which escapes some characters that need not be."""


def _represent(dumper: Any, text: str) -> yaml.ScalarNode:
    style = '"' if len(text.splitlines()) > 1 or text.endswith(_BREAKS) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_OneLine.add_representer(str, _represent)
_Quick.add_representer(str, _represent)


def format_flow(value: Any) -> str:
    """Returns a value as YAML on one line."""
    plain = str(value).isascii()
    text = yaml.dump(
        value,
        Dumper=_Quick if plain else _OneLine,
        default_flow_style=True,
        sort_keys=False,
        allow_unicode=True,
        width=_ENDLESS if plain else math.inf,
    )
    return str(text).strip()


def format_scalar(text: str) -> str:
    """Returns a text as it may stand in such a value, and as a key."""
    return format_flow([text])[1:-1]
