"""The `eval:` section of a config: how checkpoints are evaluated, and which is the best."""

from __future__ import annotations

from pipeline.sections import AtLeast0, Positive, Section


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
    """Whether a larger value of `metric` is better. Set it to `false` for `loss`."""
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
