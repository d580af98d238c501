"""Reads YAML by libyaml, four times as fast as without, and refuses what no config can be.

A value with a colon such as `12:00:00` is a text, as in YAML 1.2: YAML 1.1 takes it for a number
to the base of 60. So is a number of hundreds of digits, which Python would refuse to read before it
is known of which key it is.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

MOST_VALUES, _DEEPEST = 100_000, 50
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


def _narrow_numbers(tag: str, pattern: re.Pattern[str]) -> tuple[str, re.Pattern[str]]:
    if tag in _NUMBERS:
        pattern = re.compile(f"(?!.*:|.{{300}})(?:{pattern.pattern})", pattern.flags)
    return tag, pattern


_RESOLVERS = {
    first: [_narrow_numbers(tag, pattern) for tag, pattern in found]
    for first, found in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


class Loader(yaml.composer.Composer, yaml.CSafeLoader):
    """Refuses keys that are given twice, of which libyaml would take the last and say nothing;
    and aliases and nesting that make more of a text than a config can be."""

    yaml_implicit_resolvers = _RESOLVERS
    _depth = 0

    def __init__(self, stream: Any) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        yaml.composer.Composer.__init__(self)

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Raises `ComposerError` for a value that is nested too deep."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise yaml.composer.ComposerError(
                problem=f"it is nested more than {_DEEPEST} levels deep",
                problem_mark=self.peek_event().start_mark,  # type: ignore[union-attr,arg-type]
            )
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def get_single_node(self) -> yaml.Node | None:
        """Returns the whole text. Raises `ComposerError` for aliases that make too much of it."""
        node = super().get_single_node()
        written: dict[int, int | None] = {}
        # A wide table has many values without any alias.
        if node is not None and (more := _count_values(node, written) - len(written)) > MOST_VALUES:
            raise yaml.composer.ComposerError(
                problem=f"its aliases make {more:,} more values of it; at most {MOST_VALUES:,} "
                "are allowed"
            )
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Raises `ComposerError` for a key that is given twice."""
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            named = (key.tag, str(key.value))
            if named in seen:
                raise yaml.composer.ComposerError(
                    problem=f"{key.value!r} is given twice", problem_mark=key.start_mark
                )
            seen.add(named)
        return node


def _count_values(node: yaml.Node, known: dict[int, int | None]) -> int:
    """Returns how many values a node has once its aliases are replaced by what they stand for."""
    if id(node) not in known:
        known[id(node)] = None  # on the way
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        inner = [part for item in parts for part in (item if isinstance(item, tuple) else (item,))]
        known[id(node)] = 1 + sum(_count_values(part, known) for part in inner)
    found = known[id(node)]
    if found is None:
        raise yaml.composer.ComposerError(
            problem="an alias refers to a value that contains it", problem_mark=node.start_mark
        )
    return found
