"""Examples from an `input_fn` of the user's own, in place of records.

What it returns is trained on as it is: it is not counted, and when training resumes it
is called again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.config import own_input
from trainer import models
from trainer.input import ready_times
from trainer.input.dataset import InputFn, RecordDataset

_MODES = tf.estimator.ModeKeys
_SCOPE = "pipeline.input"
_WANTED = "a tf.data.Dataset of (features, labels)"


class OwnInput:
    """The input of a job with `data.input_fn`, next to `RecordDataset` for those with records."""

    # Of records: there are no features but what the function gives, and nothing is left out.
    transforms = None
    left_out: Mapping[str, Mapping[str, int]] = {}
    # What messages call the function that says what exported models take, and how to give one.
    serving_called, needs = "data.serving_input_fn", "give data.serving_input_fn"

    def __init__(self, job: config.Config, task: topology.Task) -> None:
        """Imports the functions. Raises `UsageError` if there is no such function, or if it takes
        arguments that it is not given."""
        self.job = job
        self._task = task
        self._functions, self.serving_input_fn = self._find_functions()
        self._check_arguments()

    def _find_functions(self) -> tuple[Mapping[str, Callable[..., Any]], Callable[[], Any] | None]:
        """Returns the function of each mode, and the `serving_input_fn`, if there is one."""
        own_input.refuse_script(self.job)
        data = self.job.data
        assert data.input_fn is not None
        function = models.load_attribute(data.input_fn, "data.input_fn")
        serving = data.serving_input_fn
        return dict.fromkeys((_MODES.TRAIN, _MODES.EVAL), function), (
            None if serving is None else models.load_attribute(serving, "data.serving_input_fn")
        )

    @property
    def eval_hooks(self) -> tuple[Any, ...]:
        """Hooks of each evaluation, besides ours."""
        return ()

    @property
    def name(self) -> str:
        """What messages call the function that gives examples to evaluate."""
        return self._describe_function(_MODES.EVAL)

    def _describe_function(self, mode: str) -> str:
        return f"data.input_fn {self.job.data.input_fn!r}"

    def has(self, split: str) -> bool:
        """True for what the function is asked for: to train and to evaluate."""
        return split in ("train", "eval")

    def identify(self, split: str) -> str:
        """Names what the function gives for a split, as far as anyone can know: by its name."""
        return config.digest({"input_fn": self.job.data.input_fn, "split": split})[:16]

    def build_train_input_fn(self, *, timed: bool = False) -> InputFn:
        """Returns the training input of this process, one of `num_readers`. If `timed` batches come
        with when they were ready, as `ready_times` adds it."""
        context = tf.distribute.InputContext(
            self._task.num_readers,
            self._task.rank,
            topology.replicas_in_step(self.job.cluster),
        )

        def input_fn() -> tf.data.Dataset:
            found = self._build_dataset(_MODES.TRAIN, topology.batch_per_replica(self.job), context)
            return ready_times.add(found).prefetch(tf.data.AUTOTUNE) if timed else found

        return input_fn

    def build_eval_input_fn(self, split: str) -> InputFn:
        """Returns one pass over the examples to evaluate."""
        replicas = topology.count_evaluating_replicas(self.job.cluster)
        context = tf.distribute.InputContext(1, 0, replicas)

        return lambda: self._build_dataset(_MODES.EVAL, self.job.eval.batch_size, context)

    def check(self) -> None:
        """Calls the function once for each mode, and reads nothing. Raises `UsageError` if it
        returns something else than it must, or if examples to evaluate have no end."""
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            self.build_train_input_fn()()
            size = session.run(self.build_eval_input_fn("eval")().cardinality())
        if size == tf.data.INFINITE_CARDINALITY:
            raise errors.UsageError(
                f"{self.name}: its examples of mode {_MODES.EVAL!r} have no end, so no "
                "evaluation would; repeat() them for training only"
            )

    def _build_dataset(self, mode: str, batch_size: int, context: Any) -> tf.data.Dataset:
        offered, function = self._list_arguments(mode, batch_size, context), self._functions[mode]
        takes = inspect.signature(function).parameters
        # No op of an input may have the name of a variable, which would rename that in this mode.
        with tf.name_scope(_SCOPE):
            found = function(**{name: offered[name] for name in offered if name in takes})
        called = self._describe_function(mode)
        if not isinstance(found, tf.data.Dataset):
            raise errors.UsageError(f"{called}: returned {found!r}; it must return {_WANTED}")
        spec = found.element_spec
        if not isinstance(spec, tuple) or len(spec) != 2:
            raise errors.UsageError(
                f"{called}: its dataset has elements {spec!r}; it must return {_WANTED}"
            )
        return found

    def _list_arguments(self, mode: str, batch_size: int, context: Any) -> dict[str, Any]:
        """Returns the arguments that a function may take, by name."""
        params = {**self.job.model.params, "batch_size": batch_size}
        return {"mode": mode, "params": params, "input_context": context}

    def _check_arguments(self) -> None:
        known = (*self._list_arguments(_MODES.TRAIN, 0, None),)
        for mode, function in self._functions.items():
            for name, parameter in inspect.signature(function).parameters.items():
                given = name in known and parameter.kind is not parameter.POSITIONAL_ONLY
                optional = parameter.default is not parameter.empty or parameter.kind in (
                    parameter.VAR_POSITIONAL,
                    parameter.VAR_KEYWORD,
                )
                if not given and not optional:
                    raise errors.UsageError(
                        f"{self._describe_function(mode)}: takes {name!r}; it may take "
                        f"{', '.join(known)}{errors.suggest(name, known)}"
                    )


# What a run trains on and is evaluated on.
Source = RecordDataset | OwnInput
