"""Writes `metrics.json`: predictions with ties, and what scikit-learn says of them.

python -m tests.golden.make_metrics        in an environment that has scikit-learn
"""

from __future__ import annotations

import json
import pathlib
import warnings
from typing import Any

import numpy as np

TARGET = pathlib.Path(__file__).parent / "metrics.json"
# Groups of the sizes that matter: one row, fewer rows than k, as many, and more.
_SIZES = (1, 1, 1, 2, 2, 2, 3, 3, 5, 5, 8, 10, 10, 10, 11, 20, 40, 80)
TOP = (1, 3, 10, 100)


def predictions() -> dict[str, list[Any]]:
    """Returns labels, probabilities of both classes (exact in float32), and groups, shuffled."""
    rng = np.random.default_rng(15)
    groups = np.repeat(np.arange(len(_SIZES)), _SIZES)
    labels = rng.random(len(groups)) < 0.3
    labels[groups == 8], labels[groups == 9] = True, False
    logits = np.round(rng.normal(size=len(groups)) + 1.5 * labels - 1, 1)  # ties
    logits[:40:7] = np.repeat([-200, 200], 3)  # certain, and some of them wrong
    positive = (1 / (1 + np.exp(-logits))).astype(np.float32)
    negative = (1 / (1 + np.exp(logits))).astype(np.float32)
    order = rng.permutation(len(groups))
    return {
        "groups": groups[order].tolist(),
        "labels": labels[order].astype(int).tolist(),
        "positive": positive[order].tolist(),
        "negative": negative[order].tolist(),
    }


def compute_with_scikit_learn(given: dict[str, list[Any]]) -> dict[str, Any]:
    """Returns metrics of all rows, and of each group that has both classes by its number."""
    import sklearn
    from sklearn import metrics

    labels, groups = np.array(given["labels"]), np.array(given["groups"])
    both = np.array([given["negative"], given["positive"]], np.float32).T
    scores = both[:, 1]
    found: dict[str, Any] = {
        "version": sklearn.__version__,
        "log_loss": metrics.log_loss(labels, both),
        "average_precision": metrics.average_precision_score(labels, scores),
        "roc_auc": {},
        "ndcg": {k: {} for k in TOP},
    }
    for group in range(len(_SIZES)):
        y, s = labels[groups == group], scores[groups == group]
        if len(set(y)) < 2:
            continue
        found["roc_auc"][group] = float(metrics.roc_auc_score(y, s))
        for k in TOP:
            found["ndcg"][k][group] = float(metrics.ndcg_score([y], [s], k=k))
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # float32 probabilities add up to 1 only nearly
    made = predictions()
    content = {"predictions": made, "scikit-learn": compute_with_scikit_learn(made)}
    TARGET.write_text(json.dumps(content) + "\n")
