"""All steps that features are made in. A new one is one class in a module of this folder, or of
your own: see docs/features.md."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, get_args

import pydantic

from pipeline import errors, packages, sections
from pipeline.steps.base import Kind
from pipeline.steps.base import Step as Step

STEPS: Mapping[str, type[Step]] = dict(
    sorted((step.config_name(), step) for step in sections.import_subclasses(Step, __name__))
)


class ImportFailed(errors.UsageError):
    """The user's own step cannot be imported, or what it names is no step."""


class NotImported(Step):
    """Stands for a step of the user's own where its code is not needed, as in predicting with an
    exported model. Its settings are kept as they are."""

    model_config = pydantic.ConfigDict(extra="allow")
    takes = get_args(Kind)

    def apply(self, x: Any) -> Any:
        """Raises `NotImplementedError`."""
        raise NotImplementedError(f"{self.step} was not imported")


def find(name: str) -> type[Step]:
    """Returns the class of a step of this project, or of `package.module:Class`.

    Raises `UsageError` if it does not exist, or is not a step; `ImportFailed` for one's own.
    """
    if name in STEPS:
        return STEPS[name]
    module_name, colon, attribute = name.partition(":")
    if not colon:
        raise errors.UsageError(
            f"no step is called {name!r}{errors.suggest(name, STEPS)}; known: {', '.join(STEPS)}; "
            "a step of your own is package.module:Class"
        )
    try:
        found = getattr(packages.import_module(module_name, attribute), attribute)
    except packages.Clash as error:
        raise ImportFailed(f"step {name!r}: {error}") from None
    except ModuleNotFoundError as error:
        raise ImportFailed(
            f"step {name!r}: no module {error.name!r}; is its folder on PYTHONPATH?"
        ) from None
    except Exception as error:
        said = (str(error).splitlines() or [""])[0]
        raise ImportFailed(f"step {name!r}: {type(error).__name__}: {said}") from error
    if not (isinstance(found, type) and issubclass(found, Step)):
        raise ImportFailed(
            f"step {name!r}: must be a subclass of pipeline.steps.base.Step, got {found!r}"
        )
    return found


def build_step(given: Any, *, import_own: bool = True) -> Step:
    """Returns the step of a name, of `{name: {settings}}` or of `{step: name, settings}`; for one
    of the user's own `NotImported`, if `import_own` is false.

    Raises `ValueError` for anything else, and for settings that the step does not have.
    """
    if isinstance(given, Step):
        return given
    name, settings = _read_name(given)
    step = find(name) if import_own or ":" not in name else NotImported
    if not isinstance(settings, dict):
        raise ValueError(f"{name}: its settings must be a mapping, got {settings!r}")
    # The name is then part of the path in errors.
    return _build_adapter(step).validate_python({name: {"step": name, **settings}})[name]


@functools.cache  # 0.2 ms each, and tables may have 10,000 columns
def _build_adapter(step: type[Step]) -> pydantic.TypeAdapter[dict[str, Step]]:
    return pydantic.TypeAdapter(dict[str, step])  # type: ignore[valid-type]


def _read_name(given: Any) -> tuple[str, Any]:
    if isinstance(given, str):
        return given, {}
    if isinstance(given, dict) and isinstance(given.get("step"), str):
        return given["step"], {k: value for k, value in given.items() if k != "step"}
    if isinstance(given, dict) and "step" not in given and len(given) == 1:
        [(name, settings)] = given.items()
        return str(name), {} if settings is None else settings
    raise ValueError(f"must be the name of a step, or {{name: {{its settings}}}}, got {given!r}")
