"""A defect for `make chaos` to find: the position hook forgets the place within a block."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from trainer.exactly_once import assignments

HOOK = f"{__name__}:ForgetPlaces"


class ForgetPlaces(tf.compat.v1.train.SessionRunHook):
    """Has blocks that were partly read before a restart read again from their first record."""

    def __init__(self) -> None:
        release = assignments.Assignments.release

        def forgetful(self, reached):
            of_blocks = self._records[self.waiting_blocks]
            release(self, np.asarray(reached) // of_blocks * of_blocks)

        assignments.Assignments.release = forgetful
