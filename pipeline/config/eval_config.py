"""The `eval:` section of a config: how checkpoints are evaluated, and which is the best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pydantic

from pipeline.sections import AtLeast0, Positive, Section

# How the names of metrics end of which the smallest is the best.
_SMALLER_IS_BETTER = ("loss", "error", "entropy", "rmse", "mse", "mae")


class EarlyStopping(Section):
    """Ends training when `eval.metric` stops improving. Not set: training is not ended early."""

    patience: Positive
    """Evaluations in a row without an improvement after which training ends."""
    min_delta: AtLeast0 = 0.0
    """Change of the metric above which it counts as improved, in units of the metric."""


class Eval(Section):
    """How checkpoints are evaluated, and which of them is the best."""

    batch_size: Positive = 500
    """Examples in a batch of an evaluation."""
    metric: str = "accuracy"
    """The metric that decides which checkpoint is the best: one that the model reports, or
    `loss`."""
    higher_is_better: bool = True
    """Whether a larger value of `metric` is better. Unless it is set, it is `false` for a metric
    whose name ends with `loss`, `error`, `entropy`, `rmse`, `mse` or `mae`. It is of that metric: a
    config or `SET` that puts another `metric` in its place has to set it again."""
    early_stopping: EarlyStopping | None = None
    throttle_seconds: AtLeast0 = 0.0
    """Seconds between the starts of two evaluations, at least. Checkpoints in between are not
    evaluated; the final one always is."""
    group: str | None = None
    """Column of whole numbers or texts by which records belong together, such as a user or a query.
    Models of two classes then have metrics of the order within groups: `grouped_auc`, `ndcg@k`,
    `mrr@k` and `hit_rate@k`. The column may be `sensitive`: its values are not shown."""
    top_k: Positive = 10
    """The k of these metrics: how many records of a group, by score, are looked at."""
    slices: tuple[str, ...] = ()
    """Columns by whose values the model card and `make evaluate` break metrics down. They must hold
    single values and not be `sensitive` or images."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _choose_direction(cls, given: Any) -> Any:
        if not isinstance(given, Mapping) or "higher_is_better" in given:
            return given
        if not str(given.get("metric", "")).lower().endswith(_SMALLER_IS_BETTER):
            return given
        return {**given, "higher_is_better": False}


def read_metric(tree: Mapping[str, Any]) -> Any:
    """Returns the metric in a config as it is written, `None` without one."""
    section = tree.get("eval")
    return section.get("metric") if isinstance(section, Mapping) else None


def without_direction(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a config without its `eval.higher_is_better`, which is of the metric it had."""
    section = tree.get("eval")
    if not isinstance(section, Mapping):
        return dict(tree)
    kept = {key: value for key, value in section.items() if key != "higher_is_better"}
    return {**tree, "eval": kept}
