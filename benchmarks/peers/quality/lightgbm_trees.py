"""LightGBM with its defaults, stopped early on a tenth of the training rows. Ids are its
categories; those seen in fewer than five rows are one."""

from __future__ import annotations

import time
from typing import Any

import lightgbm
import numpy as np

from benchmarks.peers import measure
from benchmarks.peers.quality import tables


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    numbers, ids, label = tables.load(given, "train")
    begun = time.time()
    x = np.concatenate([numbers, ids], axis=1)
    categories = list(range(numbers.shape[1], x.shape[1]))
    cut = len(x) - len(x) // 10
    model = lightgbm.LGBMClassifier(n_estimators=2000, random_state=given["seed"], verbose=-1)
    model.fit(
        x[:cut],
        label[:cut],
        eval_set=[(x[cut:], label[cut:])],
        eval_metric="auc",
        categorical_feature=categories,
        callbacks=[lightgbm.early_stopping(50, verbose=False)],
    )
    seconds = time.time() - begun
    numbers, ids, label = tables.load(given, "test")
    score = model.predict_proba(np.concatenate([numbers, ids], axis=1))[:, 1]
    measure.report(auc=measure.compute_auc(label, score), seconds=seconds)


if __name__ == "__main__":
    main(measure.read_settings())
