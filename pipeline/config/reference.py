"""Writes docs/config.md out of the config models: types, ranges, defaults and docstrings of keys.

    python -m pipeline.config.reference docs/config.md    # or: make docs

The docstrings below keys are read from the source, not by pydantic's `use_attribute_docstrings`,
which would add 0.1 to 0.2 seconds to the start of every command.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import re
import sys
import textwrap
import typing
from collections.abc import Iterator, Sequence
from typing import Literal

import pydantic
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from pipeline import sections, storage
from pipeline.config import schema, strategy_table, type_words
from pipeline.config.cluster_config import Cluster
from pipeline.config.optimizer_config import Optimizer
from pipeline.models import MODELS
from pipeline.steps import STEPS
from pipeline.steps.base import Step

_HEAD = """\
# Config reference

All keys of a config file. `make docs` writes this page from the models in `pipeline/config/` and
`pipeline/steps/`, where the meaning of a key is the docstring below it.

A config is one YAML file, given as `CONFIG=path.yaml`:

```yaml
name: flights
data:
  source: csv
  inputs: {train: {all: raw/flights-*.csv}}
  columns:
    distance: {type: float32, min: 0}
    carrier: {type: string, vocabulary: {}}
    late: {type: int64, allowed: [0, 1]}
  label: late
  split: {eval: 0.1, test: 0.1}
features:
  distance: {steps: [log1p, z_score]}
  carrier: {steps: [vocabulary], embedding: 4}
model: {name: dnn, params: {hidden_units: [64, 32]}}
train: {epochs: 5, batch_size: 256}
```

Below, `train.save_steps` is the key `save_steps` in the section `train`; `<name>` stands for a name
of your choice. The command line overrides single keys: `make train SET="train.save_steps=100"`. The
value `null` makes an optional key "not set". Commands reject unknown keys, wrong types and values
out of range before anything starts, with exit code 64. "Only for", "only with" and "not with" are
checked too; a key that is "used only by" something has no effect elsewhere.

A config may change another: with `base: flights` (a shipped one, or a path from the folder of the
file) it takes from there all keys that it lacks. Lists are taken whole, and a key
that is `null` is left out. It needs a `name` of its own. `make config CONFIG=path.yaml` prints a
config with all its values, `make config SCHEMA=1` a JSON Schema for editors.
"""
_STEPS = """\
## Feature steps

Steps for [`features.<name>.steps`](#featuresname). A step is written as its name (`z_score`), or
with its settings: `{clip: {min: 0}}`, or `{step: clip, min: 0}`. The formulas are in
[features.md](features.md#steps), together with how to write a step of your own."""
_TABLE = "| key | type | default | meaning |\n|---|---|---|---|"


def page() -> str:
    """Returns the page, in Markdown.

    Raises `ValueError` for a key that neither has a docstring nor holds a section.
    """
    parts = [_HEAD, *_format_section(_Place("", "", schema.Config), 1), _STEPS]
    for name, step in STEPS.items():
        settings = {key: field for key, field in step.model_fields.items() if key != "step"}
        parts += [f"### `{name}`", _read_text(step), _format_table("", step, settings)]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def list_keys() -> list[str]:
    """Returns the dotted keys of a config that hold no section and are not below a name of the
    user's choice, those of all models among them, in the order of the page."""
    keys: dict[str, None] = {}
    pending: list[tuple[str, type[sections.Section]]] = [("", schema.Config)]
    while pending:
        prefix, section = pending.pop(0)
        within = []
        for key, field in section.model_fields.items():
            inside = _list_sections(field, prefix + key)
            within += [(f"{one.path}.", one.section) for one in inside if "<" not in one.path]
            keys |= {} if inside else {prefix + key: None}
        if prefix == "model.":
            within += [("model.params.", params) for params in dict.fromkeys(MODELS.values())]
        pending = within + pending
    return list(keys)


@dataclasses.dataclass(frozen=True)
class _Place:
    """A section, the dotted path of its keys, and its heading."""

    heading: str
    path: str
    section: type[sections.Section]

    @property
    def link(self) -> str:
        """The link to its heading, with the anchor that GitHub gives this."""
        return f"[{self.heading}](#{re.sub(r'[^a-z0-9_ -]', '', self.heading).replace(' ', '-')})"


def _format_section(place: _Place, level: int) -> Iterator[str]:
    """Yields heading, text and table of a section, then the sections in it."""
    path, section = place.path, place.section
    if path:
        yield f"{'#' * min(level, 4)} {place.heading}"
        yield _read_text(section)
    prefix = f"{path}." if path else ""
    yield _format_table(prefix, section, section.model_fields)
    if path == "model":
        for params in dict.fromkeys(MODELS.values()):
            named = " and ".join(_format_code(params.names))
            yield f"### `model.params` of {named}"
            yield _read_text(params)
            yield _format_table("model.params.", params, params.model_fields)
    for key, field in section.model_fields.items():
        for inner in _list_sections(field, prefix + key):
            yield from _format_section(inner, level + 1)


def _format_table(
    prefix: str, section: type[sections.Section], fields: dict[str, FieldInfo]
) -> str:
    if not fields:
        return "It has no settings."
    meanings, rows = docstrings(section), []
    for key, field in fields.items():
        inside = _list_sections(field, prefix + key)
        meaning = meanings.get(key) or (_read_summary(inside[0].section) if inside else "")
        if not meaning:
            raise ValueError(
                f"{section.__module__}.{section.__name__}.{key} has no meaning; write a docstring "
                "below it"
            )
        if inside:
            meaning += f" See {', '.join(place.link for place in inside)}."
        cells = (
            f"`{prefix}{key}`",
            type_words.describe_type(field.rebuild_annotation()),
            _format_default(field),
            meaning,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join([_TABLE, *rows])


def docstrings(section: type[pydantic.BaseModel]) -> dict[str, str]:
    """Returns the docstring below each key of a class and of those it inherits from, in one line
    each."""
    meanings: dict[str, str] = {}
    for cls in reversed(section.__mro__):
        if not issubclass(cls, sections.Section):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
        assert isinstance(tree, ast.ClassDef)
        for field, text in itertools.pairwise(tree.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(meaning))),
                ):
                    meanings[name] = " ".join(meaning.split())
    if section is Cluster:
        for key, owners in strategy_table.OWNERS.items():
            meanings[key] = f"{meanings[key]} {_belongs_to(owners)}"
    if section is Optimizer:
        meanings["average"] += f" {_format_averages()}"
    return meanings


def _belongs_to(owners: tuple[str, ...]) -> str:
    """Returns the sentence that names the strategies a key is for, as their table has them."""
    evaluating = [name for name in owners if strategy_table.STRATEGIES[name].evaluates]
    also = (
        f", or {type_words.join_with_or(_format_code(evaluating))} as `eval_strategy`"
        if evaluating
        else ""
    )
    return f"Only with {_list_codes(owners)} as `strategy`{also}."


def _format_averages() -> str:
    """Returns the sentence on the strategies that a moving average is for."""
    rows = strategy_table.STRATEGIES.items()
    averaging = [name for name, row in rows if row.averages]
    mirroring = [name for name, row in rows if row.mirrors and row.evaluates]
    return (
        f"Only with {_list_codes(averaging)} as `cluster.strategy`, and not with "
        f"{_list_codes(mirroring)} as `cluster.eval_strategy`."
    )


def _list_codes(names: Sequence[str]) -> str:
    return type_words.join_with_or(_format_code(names))


def _format_code(names: Sequence[str]) -> list[str]:
    return [f"`{name}`" for name in names]


def _format_default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default is None:
        return "not set"
    return (
        "its defaults"
        if isinstance(field.default, sections.Section)
        else type_words.format_yaml(field.default)
    )


def _list_sections(field: FieldInfo, path: str) -> list[_Place]:
    """Returns the sections that the value of a key may be; of several, `by` says which."""
    found: list[type[sections.Section]] = []
    pending = [field.annotation]
    while pending:
        annotation = pending.pop(0)
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if isinstance(annotation, type) and issubclass(annotation, sections.Section):
            found += [] if issubclass(annotation, Step) else [annotation]
        elif origin is dict:
            path += ".<name>"
            pending.append(arguments[1])
        elif origin is not Literal:
            pending += arguments
    if len(found) == 1:
        return [_Place(f"`{path}`", path, found[0])]
    kinds = [typing.get_args(one.model_fields["by"].annotation)[0] for one in found]
    return [
        _Place(f"`{path}` with `by: {kind}`", path, one)
        for kind, one in zip(kinds, found, strict=True)
    ]


def _read_text(section: type[sections.Section]) -> str:
    return inspect.cleandoc(section.__doc__ or "")


def _read_summary(section: type[sections.Section]) -> str:
    """Returns the first sentence of what a section is."""
    return re.split(r"(?<=\.)\s", " ".join(_read_text(section).split()), maxsplit=1)[0]


def main(arguments: Sequence[str]) -> None:
    """Writes the page to the only argument, the path of a file."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise SystemExit(
            f"usage: python -m pipeline.config.reference FILE, such as docs/config.md; got "
            f"{' '.join(arguments) or 'nothing'}"
        )
    storage.write_text(arguments[0], page())


if __name__ == "__main__":
    main(sys.argv[1:])
