"""What a command's module says of itself, read from its source: importing it may take seconds."""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib.util
import pathlib
from collections.abc import Callable, Iterator, Mapping

from pipeline import places

_PREFIX = "DEFINE_"
# What sources take from the table of places, as they write it.
_COMPUTED: Mapping[str, Callable[[], object]] = {
    "places.HERE": lambda: places.HERE,
    "places.list_preprocessing()": places.list_preprocessing,
    "places.list_training()": places.list_training,
}
# Kinds of absl's that are given without a value.
_SWITCHES = ("bool", "boolean")


@dataclasses.dataclass(frozen=True)
class Setting:
    """A flag of a command. `kind` is absl's, such as string or multi_string. `default` and
    `choices` are empty where the source computes them."""

    name: str
    kind: str
    help: str
    default: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()

    @property
    def is_switch(self) -> bool:
        """True if it is given without a value."""
        return self.kind in _SWITCHES


@dataclasses.dataclass(frozen=True)
class Declared:
    """The docstring of a module, and its settings in the order of the source."""

    text: str
    settings: dict[str, Setting]


def read(module: str) -> Declared:
    """Returns what a module declares. Its packages are imported, the module is not."""
    tree = _parse(module)
    constants = _find_constants(tree)
    settings = {one.name: one for one in _find_settings(tree, constants)}
    return Declared(ast.get_docstring(tree) or "", settings)


def _parse(module: str) -> ast.Module:
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None, module
    return ast.parse(pathlib.Path(found.origin).read_text(encoding="utf-8"))


@functools.cache
def _find_shared_flags() -> dict[str, ast.FunctionDef]:
    """Returns the functions by which modules declare flags that others have, too; by name."""
    functions = (one for one in _parse("pipeline.cli").body if isinstance(one, ast.FunctionDef))
    return {one.name: one for one in functions if one.name.endswith(("_flag", "_flags"))}


def _find_constants(tree: ast.Module) -> dict[str, object]:
    """Returns the top-level names of a module that are literals."""
    found: dict[str, object] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = _evaluate(node.value, {})
    return found


def _find_settings(tree: ast.AST, constants: dict[str, object]) -> Iterator[Setting]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        owner, _, function = ast.unparse(node.func).rpartition(".")
        if owner in ("", "cli") and function in _find_shared_flags():
            shared = _find_shared_flags()[function]
            yield from _find_settings(shared, _evaluate_arguments(shared, node, constants))
        if not function.startswith(_PREFIX):
            continue
        values = [_evaluate(part, constants) for part in node.args]
        keywords = {part.arg: _evaluate(part.value, constants) for part in node.keywords}
        kind = function.removeprefix(_PREFIX)
        choices: tuple[str, ...] = ()
        if kind.startswith("enum"):
            listed = values.pop(2)
            choices = tuple(map(str, listed)) if isinstance(listed, (list, tuple)) else ()
        name, default, text = values[:3]
        yield Setting(
            str(name),
            kind,
            str(text),
            _format_default(default),
            required=bool(keywords.get("required")),
            choices=choices,
        )


def _evaluate_arguments(
    function: ast.FunctionDef, call: ast.Call, constants: dict[str, object]
) -> dict[str, object]:
    """Returns what a call of `function` gives its parameters, by their names."""
    names = [one.arg for one in function.args.args]
    usual = function.args.defaults
    given = dict(zip(names[len(names) - len(usual) :], usual, strict=True))
    given |= dict(zip(names, call.args, strict=False))
    given |= {one.arg: one.value for one in call.keywords if one.arg}
    return {name: _evaluate(node, constants) for name, node in given.items()}


def _format_default(default: object) -> str:
    """Returns a default as it would be given on the command line."""
    if isinstance(default, list):
        return ",".join(map(str, default))
    return "" if default in (None, False) else str(default)


def _evaluate(node: ast.expr, constants: dict[str, object]) -> object:
    """Returns the value of an expression; `None` if the source alone does not say."""
    if isinstance(node, ast.Name):
        return constants.get(node.id)
    if isinstance(node, ast.FormattedValue):
        return _evaluate(node.value, constants)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(_evaluate(part, constants)) for part in node.values)
    if computed := _COMPUTED.get(ast.unparse(node)):
        return computed()
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None
