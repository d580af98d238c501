"""What `Estimator.predict` answers, with which an export is compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainer.checkpoints import shapes
from trainer.heads import heads


def predict_batches(
    estimator: Any, input_fn: Callable[[], Any], checkpoint: str
) -> Iterator[dict[str, np.ndarray]]:
    """Yields what the model serves of each batch, and what it is before it is scaled. Raises
    `shapes.OtherShapes` if the checkpoint is of another model."""
    yield from heads.build_answering_estimator(estimator, with_unscaled=True).predict(
        input_fn,
        checkpoint_path=checkpoint,
        hooks=[shapes.ShapesHook(lambda: checkpoint)],
        yield_single_examples=False,
    )
