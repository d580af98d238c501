"""How parameters are updated: the optimizer, its learning rate over time, and what is done to
gradients and parameters."""

from __future__ import annotations

from typing import Annotated, Literal

import pydantic

from pipeline.config.sections import Fraction, NotNegative, Positive, Section

Above0 = Annotated[float, pydantic.Field(gt=0)]


class Schedule(Section):
    """The learning rate at global step s, as a share of `learning_rate`.

    During `warm_up_steps` it rises evenly from 0. Then, with t the steps since: `constant` is 1,
    `exponential` `decay_rate ** (t / decay_steps)`, and `cosine` falls from 1 to `end` along half
    a cosine in `decay_steps`, and stays there. Without `decay_steps` it is what is left of
    `train.steps`; of `train.epochs`, it follows the records that have been read, so that it goes on
    where it was after a change of batch size, strategy or workers.
    """

    name: Literal["constant", "exponential", "cosine"] = "constant"
    warm_up_steps: NotNegative = 0
    decay_steps: Positive | None = None
    decay_rate: Above0 = 0.1
    end: Fraction = 0.0

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


class Optimizer(Section):
    """How parameters are updated.

    Gradients whose norm, all together, is above `clip_norm` are shortened to it. With `average`
    what is evaluated and exported is not the parameters but their moving average of that decay.
    """

    name: Literal["adam", "sgd", "momentum", "adagrad", "ftrl"] = "adam"
    learning_rate: Above0 = 1e-3
    # By what it is multiplied when several replicas step together: nothing, their number, or its
    # square root.
    scale: Literal["none", "linear", "sqrt"] = "none"
    schedule: Schedule = Schedule()
    clip_norm: Above0 | None = None
    average: Annotated[float, pydantic.Field(gt=0, lt=1)] | None = None
    # Of `ftrl`: strengths of regularization.
    l1: Annotated[float, pydantic.Field(ge=0)] = 0.0
    l2: Annotated[float, pydantic.Field(ge=0)] = 0.0
