"""Which models there are. A new one is one module here and one line in `NAMED`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pipeline import errors

ModelFn = Callable[..., Any]

NAMED = {
    "mnist_cnn": "trainer.models.mnist_cnn:model_fn",
    "mnist_mlp": "trainer.models.mnist_mlp:model_fn",
}


def find(name: str) -> ModelFn:
    """Returns the `model_fn` of a registered name or of `package.module:attribute`.

    Raises `UsageError` if there is no such name, module or attribute.
    """
    if ":" not in name and name not in NAMED:
        raise errors.UsageError(
            f"model.name {name!r}: not one of {', '.join(NAMED)}{errors.nearest(name, NAMED)}; "
            "your own is package.module:model_fn"
        )
    return load_attribute(NAMED.get(name, name), "model.name")


def load_attribute(dotted: str, key: str) -> Any:
    """Imports `package.module:attribute`, a function or class; `key` is its config key."""
    module_name, _, attribute = dotted.partition(":")
    if not module_name or not attribute:
        raise errors.UsageError(f"{key} {dotted!r}: must be package.module:attribute")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise errors.UsageError(
            f"{key} {dotted!r}: no module {error.name!r}; is its folder on PYTHONPATH?"
        ) from None
    if not hasattr(module, attribute):
        raise errors.UsageError(
            f"{key} {dotted!r}: {module_name} has no {attribute!r}"
            f"{errors.nearest(attribute, vars(module))}"
        )
    found = getattr(module, attribute)
    if not callable(found):
        raise errors.UsageError(f"{key} {dotted!r}: is {found!r}, which cannot be called")
    return found
