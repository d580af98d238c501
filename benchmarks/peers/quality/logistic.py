"""scikit-learn's logistic regression, by L-BFGS, on numbers and one-hot ids."""

from __future__ import annotations

import time
from typing import Any

import scipy.sparse
import sklearn.linear_model
import sklearn.preprocessing

from benchmarks.peers import measure
from benchmarks.peers.quality import tables


def main(given: dict[str, Any]) -> None:
    """Trains, and scores the test split."""
    numbers, ids, label = tables.load(given, "train")
    begun = time.time()
    one_hot = sklearn.preprocessing.OneHotEncoder(handle_unknown="ignore")
    x = scipy.sparse.hstack([numbers, one_hot.fit_transform(ids)]).tocsr()
    model = sklearn.linear_model.LogisticRegression(max_iter=200, C=0.1)
    model.fit(x, label)
    seconds = time.time() - begun
    numbers, ids, label = tables.load(given, "test")
    score = model.decision_function(scipy.sparse.hstack([numbers, one_hot.transform(ids)]).tocsr())
    measure.report(auc=measure.compute_auc(label, score), seconds=seconds)


if __name__ == "__main__":
    main(measure.read_settings())
