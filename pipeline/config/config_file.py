"""Reads a config file and `--set` overrides into a `Config`, and explains what is wrong."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
from typing import Any

import pydantic
import yaml

from pipeline import errors, redaction, steps, storage
from pipeline.config import Config, eval_config, findings, labels_config, yaml_loader
from pipeline.config.feature_config import IMPORT_STEPS

_PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# Where a wheel keeps what is at the top of a checkout: see setup.py.
_IN_WHEEL = _PACKAGE / "shipped"
IS_WHEEL = _IN_WHEEL.is_dir()
SHIPPED = (_IN_WHEEL if IS_WHEEL else _PACKAGE.parent) / "configs"


# With the name of an environment variable behind it: the config is the text of the variable.
IN_VARIABLE = "env:"
# Columns and features above which a config is written as JSON.
_WIDE = 1_000
_LINES = 3  # levels down to which each value has a line of its own there: data.columns.delay
# Characters of what an error shows.
_SHOWN = 80


def load(
    name_or_path: str,
    overrides: list[str] | tuple[str, ...] = (),
    *,
    import_steps: bool = True,
) -> Config:
    """Returns the validated config of a shipped name, of any path, local or gs://, or of an
    environment variable, `env:NAME`.

    `overrides` are `section.key=value` strings, the values written as in YAML. Without
    `import_steps`, steps of the user's own are left as they are written, and features that have
    any are not checked. Raises `UsageError` with the key path, what was given and what is allowed;
    `steps.ImportFailed` if such a step cannot be imported.
    """
    path = locate(name_or_path)
    tree = _read_with_base(path, ())
    metric = eval_config.read_metric(tree)
    for override in overrides:
        _apply(tree, override)
    directed = any(one.startswith(("eval=", "eval.higher_is_better=")) for one in overrides)
    if eval_config.read_metric(tree) != metric and not directed:
        tree = eval_config.without_direction(tree)
    _absolutise_inputs(tree, path)
    return validate(tree, where=name_or_path, import_steps=import_steps)


def list_shipped() -> list[str]:
    """Returns the names of the configs that come with the project, in order."""
    return sorted(path.stem for path in SHIPPED.glob("*.yaml"))


def locate(name_or_path: str) -> str:
    """Returns the path of a config; a bare name is looked up among the shipped ones."""
    if name_or_path.startswith(IN_VARIABLE):
        return name_or_path
    if not _is_name(name_or_path):
        if not storage.exists(name_or_path):
            raise errors.UsageError(f"config {name_or_path!r}: no such file")
        return name_or_path
    path = SHIPPED / f"{name_or_path}.yaml"
    if not path.is_file():
        known = list_shipped()
        raise errors.UsageError(
            f"config {name_or_path!r}: not one of {', '.join(known)}"
            f"{errors.suggest(name_or_path, known)}; a path must end in .yaml or hold a '/'"
        )
    return str(path)


def _is_name(name_or_path: str) -> bool:
    """Tells the name of a shipped config from a path."""
    return "/" not in name_or_path and not name_or_path.endswith((".yaml", ".yml"))


def _build_sections_error(where: str, tree: Any) -> errors.UsageError:
    text = repr(tree)
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text):,} characters)"
    return errors.UsageError(
        f"config {where!r}: must be a mapping of sections such as data: and model:, got {shown}"
    )


def validate(tree: Any, where: str, *, import_steps: bool = True) -> Config:
    """Turns a parsed YAML tree into a `Config`; `where` names its origin in errors. Of
    `import_steps` see `load`."""
    if not isinstance(tree, dict):
        raise _build_sections_error(where, tree)
    try:
        return Config.model_validate(tree, context={IMPORT_STEPS: import_steps})
    except pydantic.ValidationError as error:
        details = error.errors()
        causes = [detail.get("ctx", {}).get("error") for detail in details]
        failed = any(isinstance(cause, steps.ImportFailed) for cause in causes)
        found = findings.explain(details, Config)
        kind = steps.ImportFailed if failed else errors.UsageError
        raise kind(f"config {where!r}: {found}") from None


def dump(config: Config, *, redacted: bool = False) -> str:
    """Returns `config` as YAML that `load` reads back to an equal object, unless `redacted`: then
    without what looks like a secret. That of a very wide table is JSON, which `load` reads as well
    and takes a tenth of the time."""
    tree = config.model_dump(mode="json")
    return _format_tree(redaction.redact_all(tree) if redacted else tree, config)


def _format_tree(tree: Any, config: Config) -> str:
    tree = labels_config.without_labels_in_data(tree)
    if len(config.data.columns) + len(config.features or ()) > _WIDE:
        with contextlib.suppress(ValueError):  # infinite, which JSON does not have
            return _format_json(tree, _LINES) + "\n"
    return str(yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True))


def _format_json(tree: Any, levels: int) -> str:
    if levels == 0 or not isinstance(tree, dict) or not tree:
        return json.dumps(tree, allow_nan=False)
    lines = (f"{json.dumps(key)}: {_format_json(value, levels - 1)}" for key, value in tree.items())
    return "{\n" + ",\n".join(lines) + "\n}"


def changes(config: Config) -> str:
    """Returns what differs from the defaults, written as `dump` does, without what looks like a
    secret."""
    tree = config.model_dump(mode="json", exclude_defaults=True)
    return _format_tree(redaction.redact_all(tree), config)


def warnings(config: Config) -> list[str]:
    """Returns a line for each value that looks like a secret."""
    return [
        f"{path} looks like a secret. config.yaml of the run holds it as it is, exports and "
        "rendered jobs hold [hidden]. Let your code read it from the environment or a file: "
        "docs/security.md"
        for path in redaction.secrets_in(config.model_dump(mode="json"))
    ]


def read_yaml(path: str, what: str = "config") -> Any:
    """Returns what a YAML file holds. Raises `UsageError` for one that cannot be read, which it
    calls `what`."""
    text = _read_text(path, what)
    found = _parse_json(text) if text.startswith("{") else None
    if found is not None:
        return found
    try:
        tree = yaml.load(text, Loader=yaml_loader.Loader)
    except (yaml.YAMLError, ValueError) as error:  # of invalid dates
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise errors.UsageError(f"{what} {path!r}{line}: not valid YAML: {problem}") from None
    return tree


def _parse_json(text: str) -> Any:
    """Returns what JSON holds, `None` for anything else: YAML, or what is wrong in either."""
    try:
        return json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError):
        return None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse_constant(constant: str) -> Any:
    raise ValueError(constant)  # NaN, which is a text in YAML


def _read_text(path: str, what: str) -> str:
    if path.startswith(IN_VARIABLE):
        found = os.environ.get(path.removeprefix(IN_VARIABLE))
        if found is None:
            raise errors.UsageError(f"{what} {path!r}: there is no such environment variable")
        return found
    try:
        return storage.read_text(path)
    except OSError as error:
        said = error.strerror or "no such file"
        raise errors.UsageError(f"{what} {path!r}: cannot be read: {said}") from None


def _read_with_base(path: str, above: tuple[str, ...]) -> dict[str, Any]:
    """Returns the sections of a config over those of its `base`, if it names one; `above` are the
    configs that lead to it. Raw paths start at the folder of the file that gives them."""
    tree: dict[str, Any] = read_yaml(path)
    if not isinstance(tree, dict):
        raise _build_sections_error(path, tree)
    _absolutise_inputs(tree, path)
    tree = labels_config.without_labels_in_data(tree)  # earlier versions wrote them
    if "base" not in tree:
        return tree
    base, above = tree.pop("base"), (*above, path)
    if not isinstance(base, str):
        raise errors.UsageError(
            f"config {path!r}: base: must be a shipped config or the path of one, got {base!r}"
        )
    if "name" not in tree:
        raise errors.UsageError(
            f"config {path!r}: name: is missing; with that of {base!r} it would share its records "
            "and runs"
        )
    try:
        found = locate(base if _is_name(base) else storage.join(storage.parent(path) or ".", base))
    except errors.UsageError as error:
        raise errors.UsageError(f"config {path!r}: base: {error}") from None
    if found in above:
        raise errors.UsageError(f"config {above[0]!r}: its bases come round to {found!r} again")
    below = _read_with_base(found, above)
    if eval_config.read_metric(tree) not in (None, eval_config.read_metric(below)):
        below = eval_config.without_direction(below)
    return _merge(below, tree)


def _merge(base: dict[str, Any], tree: dict[str, Any]) -> dict[str, Any]:
    """Returns `base` with what `tree` gives in its place: mappings key by key, all else whole. A
    key that is null in `tree` is left out."""
    found = {key: value for key, value in base.items() if tree.get(key, value) is not None}
    for key, value in tree.items():
        below = found.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            found[key] = _merge(below, value)
        elif value is not None or key not in base:
            found[key] = value
    return found


def _apply(tree: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise errors.UsageError(f"--set {override!r}: must be section.key=value")
    try:
        value = yaml.load(text, Loader=yaml_loader.Loader)
    except (yaml.YAMLError, ValueError):
        raise errors.UsageError(f"--set {override!r}: {text!r} is not a YAML value") from None
    set_value(tree, key, value, where=f"--set {override!r}")


def set_value(tree: dict[str, Any], key: str, value: Any, *, where: str) -> None:
    """Puts a value into a tree of sections, by a key such as `train.steps`. Raises `UsageError` for
    a key below something that is no section; `where` is what gives it."""
    *parents, last = key.split(".")
    node = tree
    for part in parents:
        child = node.setdefault(part, {})
        if not isinstance(child, dict):
            raise errors.UsageError(f"{where}: {part!r} has no keys below it")
        node = child
    node[last] = value


def _absolutise_inputs(tree: dict[str, Any], path: str) -> None:
    """Makes raw paths absolute, so that a config means the same from every folder."""
    data = tree.get("data")
    if not isinstance(data, dict):
        return
    folder = storage.parent(storage.make_absolute(path))
    inputs = data.get("inputs")
    for files in inputs.values() if isinstance(inputs, dict) else ():
        _put_below(folder, files, list(files) if isinstance(files, dict) else [])
    for made in ("download", "generate"):
        _put_below(folder, data.get(made), ["to"])


def _put_below(folder: str, holder: Any, keys: list[str]) -> None:
    """Makes the paths under `keys` start at `folder`; what is no path is left to validation."""
    for key in keys if isinstance(holder, dict) else ():
        if isinstance(holder.get(key), str):
            holder[key] = _resolve_path(folder, holder[key])


def _resolve_path(folder: str, path: str) -> str:
    """Returns a path that starts at the folder of its config. What shipped configs download is not
    put among the installed packages."""
    found = storage.join(folder, path)
    if IS_WHEEL and folder == str(SHIPPED) and not os.path.exists(found):
        cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        return storage.join(storage.make_absolute(cache), "estimator-pipeline", "configs", path)
    return found
