"""The input of a script of the user's own that calls `trainer.run`: what is in its specs."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from trainer import models
from trainer.input.own_input import OwnInput


@dataclasses.dataclass(frozen=True)
class ScriptSpecs:
    """What `tf.estimator.train_and_evaluate` takes. `evaluates` is true if the chief of a cluster
    evaluates the final checkpoint, because no other process does."""

    estimator: Any
    train_spec: Any
    eval_spec: Any
    evaluates: bool = False

    @property
    def model(self) -> models.BuiltModel:
        """The `model_fn` of the Estimator, and what it starts from."""
        return models.wrap_estimator(self.estimator)

    @property
    def strategy(self) -> Any:
        """The `tf.distribute` strategy that the Estimator came with, if any."""
        return getattr(self.estimator.config, "train_distribute", None)

    @property
    def serving_input_fn(self) -> Callable[[], Any] | None:
        """What says what an exported model takes: that of its first exporter that has one."""
        found = map(get_serving_input_fn, self.eval_spec.exporters or ())
        return next((function for function in found if function is not None), None)


class ScriptInput(OwnInput):
    """The input functions of a `TrainSpec` and an `EvalSpec`, called as Estimators call them."""

    serving_called = "the serving_input_receiver_fn of eval_spec.exporters"
    needs = "give eval_spec an exporter with a serving_input_receiver_fn"

    def __init__(self, job: config.Config, task: topology.Task, script: ScriptSpecs) -> None:
        """Raises `UsageError` for a function that takes arguments it is not given."""
        self.script = script
        super().__init__(job, task)

    @property
    def eval_hooks(self) -> tuple[Any, ...]:
        """Hooks of each evaluation."""
        return tuple(self.script.eval_spec.hooks or ())

    def identify(self, split: str) -> str:
        """Names what a function gives, by the name of that."""
        spec = self.script.train_spec if split == "train" else self.script.eval_spec
        given = {"input_fn": get_name(spec.input_fn), "split": split}
        return config.digest({**given, "steps": spec.steps} if split == "eval" else given)[:16]

    def _find_functions(self) -> tuple[Mapping[str, Callable[..., Any]], Callable[[], Any] | None]:
        modes = tf.estimator.ModeKeys
        train, evaluate = self.script.train_spec.input_fn, self.script.eval_spec.input_fn
        return {modes.TRAIN: train, modes.EVAL: evaluate}, self.script.serving_input_fn

    def _describe_function(self, mode: str) -> str:
        spec = "train_spec" if mode == tf.estimator.ModeKeys.TRAIN else "eval_spec"
        return f"{spec}.input_fn {get_name(self._functions[mode])!r}"

    def _list_arguments(self, mode: str, batch_size: int, context: Any) -> dict[str, Any]:
        estimator = self.script.estimator
        given = {"mode": mode, "params": estimator.params, "config": estimator.config}
        return {**given, "input_context": context}

    def _build_dataset(self, mode: str, batch_size: int, context: Any) -> tf.data.Dataset:
        found = super()._build_dataset(mode, batch_size, context)
        steps = self.script.eval_spec.steps
        return found.take(steps) if mode == tf.estimator.ModeKeys.EVAL and steps else found

    def find_batch_size(self) -> int | None:
        """Returns how many examples there are in a batch to train on; `None` if nothing tells."""
        with tf.Graph().as_default():
            return _find_batch_size(self.build_train_input_fn()())


def get_serving_input_fn(exporter: Any) -> Callable[[], Any] | None:
    """Returns the function of one of TensorFlow's exporters, which keep it to themselves."""
    of_models = getattr(exporter, "_saved_model_exporter", exporter)
    return getattr(of_models, "_serving_input_receiver_fn", None)


def get_name(function: Any) -> str:
    """Returns what a function is called, for people and in identities."""
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{getattr(function, '__module__', '__main__')}.{name}".removeprefix("__main__.")


def _find_batch_size(dataset: Any) -> int | None:
    """Finds the last `batch` that made a dataset, which TensorFlow tells by a private name."""
    tensors = tf.nest.flatten(dataset.element_spec)
    shape = tf.TensorShape(getattr(tensors[-1], "shape", None) if tensors else None)
    if shape.rank and shape[0] is not None:
        return int(shape[0])
    while dataset is not None:
        size = getattr(dataset, "_batch_size", None)
        if size is not None:
            known = tf.get_static_value(size)
            return None if known is None else int(known)
        dataset = getattr(dataset, "_input_dataset", None)
    return None


def check(script: ScriptSpecs) -> None:
    """Raises `UsageError` unless a script gives what `tf.estimator.train_and_evaluate` takes."""
    estimator = script.estimator
    if not callable(getattr(estimator, "model_fn", None)):
        raise errors.UsageError(
            f"trainer.run: estimator is {estimator!r}; it must be a tf.estimator.Estimator"
        )
    specs = {"train_spec": tf.estimator.TrainSpec, "eval_spec": tf.estimator.EvalSpec}
    for name, kind in specs.items():
        given = getattr(script, name)
        if not isinstance(given, kind):
            raise errors.UsageError(
                f"trainer.run: {name} is {given!r}; it must be a tf.estimator.{kind.__name__}"
                + ("; every run evaluates its checkpoints" if name == "eval_spec" else "")
            )
    if script.train_spec.max_steps is None:
        raise errors.UsageError(
            "trainer.run: train_spec.max_steps is None; give the global step at which training ends"
        )
