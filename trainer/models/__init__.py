"""The models of this project, each a module with its name: its `model_fn` or `estimator`, and its
`network` of Keras for `make migrate`. Their settings are in `pipeline/models/`.

A model is a `model_fn`, which takes `features`; or a function that returns an Estimator, and takes
what it needs of `params` (with the config's `model.params`), `config` (the `RunConfig`) and
`transforms` (the features it gets). Of an Estimator the `model_fn` and what it starts from are
used.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from pipeline import errors, packages
from pipeline.config import model_config
from pipeline.models import MODELS

ModelFn = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class BuiltModel:
    """A model_fn, and the `WarmStartSettings` its Estimator came with, if any."""

    model_fn: ModelFn
    warm_start_from: Any = None


def build_model(
    name: str, params: Mapping[str, Any], config: Any, *, transforms: Any
) -> BuiltModel:
    """Returns a model, building its Estimator if it is a function for one.

    Raises `UsageError` if that returns something else.
    """
    found = find(name)
    takes = inspect.signature(found).parameters
    if "features" in takes:
        return BuiltModel(found)
    offered = {"params": params, "config": config, "transforms": transforms}
    if transforms is None and "transforms" in takes:
        raise errors.UsageError(
            f"model.name {name!r}: needs columns to transform, and data.input_fn has none"
        )
    built = found(**{key: offered[key] for key in offered if key in takes})
    # Not isinstance: tf.estimator.Estimator is one of two classes without a common base.
    if not callable(getattr(built, "model_fn", None)):
        raise errors.UsageError(
            f"model.name {name!r}: takes no features, so it is not a model_fn, and returned "
            f"{built!r}, which is not an Estimator"
        )
    return wrap_estimator(built)


def wrap_estimator(built: Any) -> BuiltModel:
    """Returns the model of an Estimator."""
    return BuiltModel(built.model_fn, getattr(built, "_warm_start_settings", None))


def find(name: str) -> ModelFn:
    """Returns the function of a shipped model or of `package.module:attribute`.

    Raises `UsageError` if there is no such name, module or attribute.
    """
    model_config.refuse_placeholder(name)
    if name in MODELS:
        own = vars(load_module(name))
        return own.get("model_fn") or own["estimator"]
    return load_attribute(name, "model.name")


def load_module(name: str) -> ModuleType:
    """Returns the module of a shipped model."""
    return importlib.import_module(f"{__name__}.{name}")


def load_attribute(dotted: str, key: str) -> Any:
    """Imports `package.module:attribute`, a function or class; `key` is its config key."""
    module_name, _, attribute = dotted.partition(":")
    if not module_name or not attribute:
        raise errors.UsageError(f"{key} {dotted!r}: must be package.module:attribute")
    try:
        module = packages.import_module(module_name, attribute)
    except packages.Clash as error:
        raise errors.UsageError(f"{key} {dotted!r}: {error}") from None
    except ModuleNotFoundError as error:
        raise errors.UsageError(
            f"{key} {dotted!r}: no module {error.name!r}; is its folder on PYTHONPATH?"
        ) from None
    if not hasattr(module, attribute):
        raise errors.UsageError(
            f"{key} {dotted!r}: {module_name} has no {attribute!r}"
            f"{errors.suggest(attribute, vars(module))}"
        )
    found = getattr(module, attribute)
    if not callable(found):
        raise errors.UsageError(f"{key} {dotted!r}: is {found!r}, which cannot be called")
    return found
