"""How parameters are updated: the optimizer, its learning rate over time, and what is done to
gradients and parameters."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from pipeline.sections import Above0, AtLeast0, Fraction, NotNegative, Positive, Section


class Schedule(Section):
    """The learning rate over time, as a share of `learning_rate`."""

    name: Literal["constant", "exponential", "cosine"] = "constant"
    """The share t steps after the warm-up. `constant`: 1. `exponential`: `decay_rate` to the power
    of t / `decay_steps`. `cosine`: from 1 to `end` along half a cosine in `decay_steps`, then
    `end`."""
    warm_up_steps: NotNegative = 0
    """Global steps in which the share rises evenly from 0 to 1."""
    decay_steps: Positive | None = None
    """Global steps of the decay. Not set: all steps after the warm-up. With `train.epochs` it then
    follows the records read, so a change of batch size, strategy or workers does not disturb it."""
    decay_rate: Above0 = 0.1
    """The share after `decay_steps`. Used only by `exponential`."""
    end: Fraction = 0.0
    """The share at the end. Used only by `cosine`."""

    def decay_length(self, steps: int) -> int:
        """Returns in how many of `steps` the rate decays: those left after warm-up, unless given.

        Raises `ValueError` if there is none.
        """
        found = self.decay_steps or steps - self.warm_up_steps
        if found < 1:
            raise ValueError(
                f"of {steps} steps {self.warm_up_steps} are warm-up, which leaves none for decay; "
                "use fewer warm_up_steps, or give decay_steps"
            )
        return found


# The optimizer that uses a setting, and the schedules.
_USERS = {"weight_decay": "adam", "l1": "ftrl", "l2": "ftrl"}
_USERS_OF_SCHEDULE = {
    "decay_steps": ("exponential", "cosine"),
    "decay_rate": ("exponential",),
    "end": ("cosine",),
}


class Optimizer(Section):
    """How parameters are updated. A model of your own uses these settings if it calls
    `optimizers.train_op` (see [models.md](models.md))."""

    name: Literal["adam", "dense_adam", "sgd", "momentum", "adagrad", "ftrl"] = "adam"
    """The optimizer; `momentum` is gradient descent with a momentum of 0.9. Of a table of
    embeddings all change the rows of a batch only, except `dense_adam`, TensorFlow's own, whose
    moments decay for all rows in each step. With `cluster.strategy: multi_worker_mirrored` that
    holds for tables of more rows than a step has examples; of others all rows change."""
    learning_rate: Above0 = 1e-3
    """Learning rate before `scale` and `schedule`."""
    scale: Literal["none", "linear", "sqrt"] = "none"
    """What the learning rate is multiplied by if several replicas make a step together: 1, their
    number, or its square root."""
    schedule: Schedule = Schedule()
    clip_norm: Above0 | None = None
    """Largest norm of all gradients of a replica together; longer gradients are scaled down to it.
    Not set: no limit."""
    average: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = None
    """Decay of a moving average of the parameters, which is evaluated and exported in their place.
    Not set: no average. At most one `cluster.ps`."""
    weight_decay: AtLeast0 = 0.0
    """How much the matrices of a network shrink in each step, times the learning rate of the step;
    of tables of embeddings the rows of a batch do. Used only by `adam`, which it makes AdamW."""
    l1: AtLeast0 = 0.0
    """Strength of L1 regularization. Used only by `ftrl`."""
    l2: AtLeast0 = 0.0
    """Strength of L2 regularization. Used only by `ftrl`."""

    @property
    def unused(self) -> list[str]:
        """Which of the settings that are given have no effect: `l1: only ftrl uses it`."""
        given = [key for key in _USERS if getattr(self, key) and self.name != _USERS[key]]
        found = [f"{key}: only {_USERS[key]} uses it" for key in given]
        schedule, default = self.schedule, Schedule()
        for key, users in _USERS_OF_SCHEDULE.items():
            if getattr(schedule, key) != getattr(default, key) and schedule.name not in users:
                found.append(f"schedule.{key}: only schedule {' or '.join(users)} uses it")
        return found

    @property
    def slots(self) -> int:
        """How many numbers are remembered of each parameter, with the moving average."""
        own = {"sgd": 0, "momentum": 1, "adagrad": 1}.get(self.name, 2)
        return own + (self.average is not None)
