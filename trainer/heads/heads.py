"""From logits to an `EstimatorSpec`: loss, metrics and predictions are `tf.estimator`'s own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.config import model_config
from pipeline.records import feature_plan
from pipeline.steps import whole
from trainer import optimizers
from trainer.features.transforms import WEIGHT, name_weight
from trainer.heads import means, of_numbers, of_probabilities
from trainer.heads.area import AreaUnderRoc
from trainer.heads.of_positives import Precision, Recall
from trainer.heads.of_probabilities import RESULTS, AveragePrecision, OfProbabilities

# The signature of an exported model that takes columns.
SERVING = "serving_default"
# The collection of a graph that predicts, with what regressors give before `scale` and `offset`:
# an exported model is compared there, too. Of several labels their number follows.
UNSCALED = "unscaled"
_LOG_LOSS = of_probabilities.log_loss.__name__


class Head:
    """What canned Estimators give their logits to, so that the update is made as everywhere here.

    Their own heads would apply gradients by themselves, without averaging those of synchronous
    parameter servers.
    """

    name = None

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._params = params

    @property
    def logits_dimension(self) -> int:
        """Of two classes one logit is enough; of a number too. Several labels need those of each,
        one after the other."""
        return sum(self.widths)

    @property
    def widths(self) -> list[int]:
        """Of each label, how many logits it needs."""
        of_each = self._params.get(model_config.GOALS, {"": self._params}).values()
        return list(map(count_logits, of_each))

    def create_estimator_spec(
        self, features: Any, mode: str, logits: Any, labels: Any = None, **_: Any
    ) -> Any:
        """Returns the spec; the canned Estimator's optimizer is not used."""
        if model_config.GOALS in self._params:
            return build_goals_spec(logits, features, labels, mode=mode, params=self._params)
        return build_estimator_spec(logits, features, labels, mode=mode, params=self._params)


def collect_params(plan: feature_plan.FeaturePlan) -> dict[str, Any]:
    """Returns the params of a model's head that are not in `model.params`."""
    found: dict[str, Any] = {}
    if plan.label.offset is not None:
        found[model_config.OFFSET] = plan.label.offset
    if plan.goals:
        of_each = {goal.name: {**goal.params, "weight": goal.weight} for goal in plan.goals}
        found[model_config.GOALS] = of_each
    return found


def count_logits(params: Mapping[str, Any]) -> int:
    """Returns how many logits one label needs."""
    classes = _count_classes(params)
    return 1 if classes == 2 else classes


def is_regression(params: Mapping[str, Any]) -> bool:
    """True if numbers are predicted, not classes."""
    return bool(params.get("task") == "regression")


def get_scaling(params: Mapping[str, Any]) -> tuple[float, float]:
    """Returns the offset and scale of what a canned regressor gives."""
    return float(params.get("offset", 0.0)), float(params.get("scale", 1.0))


def compute_offsets(params: Mapping[str, Any]) -> list[float] | None:
    """Returns what is added to each logit of a model that has learned from a sample, to give the
    probabilities of all rows; of two classes there is one logit. `None` adds nothing.

    Of a class of which the share `keep` of the examples was kept, the odds against any other are
    too small by that factor (King and Zeng, 2001, "Logistic regression in rare events data").
    """
    if model_config.OFFSET not in params:
        return None
    index, offset = params[model_config.OFFSET]
    if _count_classes(params) == 2:
        return [offset if index == 1 else -offset]
    return [offset if n == index else 0.0 for n in range(_count_classes(params))]


def _count_classes(params: Mapping[str, Any]) -> int:
    return 1 if is_regression(params) else int(params.get("classes", 2))


def build_estimator_spec(
    logits: Any, features: Any, labels: Any, *, mode: str, params: Mapping[str, Any]
) -> Any:
    """Returns the spec of a classifier over `params["classes"]` classes, or of a regressor.

    `logits` is `[batch, classes]`, of two classes `[batch, 1]` too; `labels` `[batch]` int64. The
    serving signature returns `class`, `[batch]` int64, and `probabilities`, `[batch, classes]`
    float32. Of a regressor `logits` is `[batch, 1]`, and what is served is `prediction`, `[batch]`:
    `params["offset"] + params["scale"] * logits`. The loss of regressors is of errors in units of
    `params["scale"]`: in units of the label, the gradients of labels about 1e12 overflow in an
    optimizer that squares them. Other metrics are in units of the label. What a model learned from
    a sample is corrected but in training.
    """
    classes = _count_classes(params)
    # Of two classes tf.estimator wants one logit; softmax of two is the sigmoid of this.
    if classes == 2 and logits.shape[-1] == 2:
        logits = logits[:, 1:] - logits[:, :1]
    if (added := compute_offsets(params)) is not None and mode != tf.estimator.ModeKeys.TRAIN:
        logits = logits + tf.constant(added, logits.dtype)
    if classes == 1 and mode == tf.estimator.ModeKeys.PREDICT:
        tf.compat.v1.add_to_collection(UNSCALED, logits)
    made = build_head(classes, weight=_find_weight(features, WEIGHT), scaled=get_scaling(params))
    spec = made.create_estimator_spec(
        features=features,
        mode=mode,
        logits=logits,
        labels=labels,
        train_op_fn=lambda loss: optimizers.train_op(loss, params["optimizer"]),
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        return spec._replace(export_outputs=export_outputs(answer(spec.predictions)))
    if mode == tf.estimator.ModeKeys.TRAIN and classes > 1:
        guess = logits[:, 0] > 0 if classes == 2 else tf.argmax(logits, axis=1)
        hits = tf.equal(tf.cast(guess, tf.int64), tf.cast(tf.reshape(labels, [-1]), tf.int64))
        tf.compat.v1.summary.scalar("accuracy", tf.reduce_mean(tf.cast(hits, tf.float32)))
    return spec


def _find_weight(features: Any, name: str) -> str | None:
    return name if isinstance(features, Mapping) and name in features else None


def build_head(
    classes: int, *, weight: str | None, scaled: tuple[float, float], name: str | None = None
) -> Any:
    """Returns a head of `tf.estimator` for classes, of which 1 stands for a number, `scaled` by
    offset and scale; `weight` is the feature that examples weigh by, `name` what its metrics end
    with."""
    if classes == 1:
        return _Number(scaled, weight_column=weight, name=name)
    if classes == 2:
        return _Binary(weight_column=weight, name=name)
    return _Classes(classes, weight_column=weight, name=name)


def build_goals_spec(
    logits: Any, features: Any, labels: Any, *, mode: str, params: Mapping[str, Any]
) -> Any:
    """Returns the spec of several labels, `labels` by name: their losses are added up by weight,
    and metrics and what is served are called `<label>/<name>`.

    `logits` is `[batch, all]`: those of each label, one after the other, before its `scale`. An
    example whose weight for a label is 0 adds nothing to the loss, which is divided by the examples
    of the batch, and to the metrics.
    """
    goals: Mapping[str, Mapping[str, Any]] = params[model_config.GOALS]
    names = {f"label{number}": goal for number, goal in enumerate(goals)}
    parts = tf.split(logits, [count_logits(goals[goal]) for goal in names.values()], axis=1)
    given, made = {}, []
    for number, ((name, goal), part) in enumerate(zip(names.items(), parts, strict=True)):
        if is_regression(goals[goal]) and mode == tf.estimator.ModeKeys.PREDICT:
            tf.compat.v1.add_to_collection(f"{UNSCALED}{number}", part)
        given[name] = part
        weight = _find_weight(features, name_weight(number))
        scaled = get_scaling(goals[goal])
        made.append(
            build_head(_count_classes(goals[goal]), weight=weight, scaled=scaled, name=name)
        )
    spec = tf.estimator.MultiHead(
        made, [goal["weight"] for goal in goals.values()]
    ).create_estimator_spec(
        features=features,
        mode=mode,
        logits=given,
        labels=labels and {name: labels[goal] for name, goal in names.items()},
        train_op_fn=lambda loss: optimizers.train_op(loss, params["optimizer"]),
    )
    predictions: dict[str, Any] = {}
    for name, goal in names.items():
        own = {key: x for (of, key), x in spec.predictions.items() if of == name}
        predictions |= {f"{goal}/{key}": x for key, x in answer(own).items()}
    spec = spec._replace(predictions=predictions)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return spec._replace(export_outputs=export_outputs(predictions))
    return spec._replace(eval_metric_ops=_rename_metrics(spec.eval_metric_ops, names))


def _rename_metrics(metrics: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Returns metrics by `<label>/<metric>`, of which tf.estimator says `<metric>/<head>`."""
    found = {}
    for key, value in metrics.items():
        metric, _, name = key.rpartition("/")
        found[f"{names[name]}/{metric}" if name in names else key] = value
    return found


class _Number(means.OfSome, tf.estimator.RegressionHead):
    """Predicts `offset + scale * logits`. Its metrics are of what it predicts and of labels as they
    are; its loss is of squared errors in units of `scale`, before logits get its `offset`, which is
    subtracted from labels before they become float32: about 1e9 that has every 64th number."""

    def __init__(self, scaled: tuple[float, float], **settings: Any) -> None:
        super().__init__(
            loss_fn=lambda labels, logits: tf.math.squared_difference(
                labels, tf.cast(self._rescale(logits), tf.float64)
            ),
            **settings,
        )
        self._unscaled = tf.estimator.RegressionHead(
            loss_fn=lambda labels, logits: tf.math.squared_difference(labels, logits), **settings
        )
        self._offset, self._scale = float(np.float32(scaled[0])), scaled[1]

    def _rescale(self, logits: Any) -> Any:
        return logits * self._scale + self._offset

    def predictions(self, logits: Any) -> dict[str, Any]:
        """Returns what is predicted."""
        return dict(super().predictions(self._rescale(logits)))

    def loss(self, labels: Any, logits: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns the loss, in training and in evaluations."""
        scaled = whole.subtract(labels, self._offset) / self._scale
        return self._unscaled.loss(scaled, logits, *args, **kwargs)

    def _processed_labels(self, logits: Any, labels: Any) -> Any:
        """Returns labels for metrics; `loss` has refused those of another shape."""
        return tf.reshape(tf.cast(labels, tf.float64), tf.shape(logits))

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Returns the metrics of an evaluation."""
        ours = {
            self._summary_key(name): made(name=name, dtype=tf.float64)
            for name, made in of_numbers.METRICS.items()
        }
        return {**super().metrics(regularization_losses), **ours}

    def update_own(self, found: dict[str, Any], batch: means.EvaluationBatch) -> None:
        """Adds the examples of a batch to the metrics above."""
        for name in of_numbers.METRICS:
            found[self._summary_key(name)].update_state(batch.losses, sample_weight=batch.weights)


class _Classes(means.OfSome, tf.estimator.MultiClassHead):
    """With the log loss as `make evaluate` gives it: of probabilities, which are clipped."""

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Returns the metrics of an evaluation."""
        ours = means.Mean(name=_LOG_LOSS, dtype=tf.float64)
        return {**super().metrics(regularization_losses), self._summary_key(_LOG_LOSS): ours}

    def update_own(self, found: dict[str, Any], batch: means.EvaluationBatch) -> None:
        """Adds the examples of a batch to the metric above."""
        chances = self.predictions(batch.logits, ["probabilities"])["probabilities"]
        losses = of_probabilities.compute_losses(chances, tf.reshape(batch.labels, [-1]))
        own = found[self._summary_key(_LOG_LOSS)]
        own.update_state(losses[:, None], sample_weight=batch.weights)


class _Binary(means.OfSome, tf.estimator.BinaryClassHead):
    """With metrics of probabilities as `make evaluate` gives them."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        # In place of its area under the curve of precision and recall, of 200 thresholds: where
        # scores lie close together, or are few, that is far from what it should be.
        self._auc_pr_key = self._summary_key("average_precision")

    def metrics(self, regularization_losses: Any = None) -> dict[str, Any]:
        """Returns the metrics of an evaluation."""
        area = AreaUnderRoc()
        means = {name: OfProbabilities(name, result) for name, result in RESULTS.items()}
        ours = {"auc": area, "average_precision": AveragePrecision(area), **means}
        ours |= {made.name: made for made in (Precision(), Recall())}
        ours = {self._summary_key(name): metric for name, metric in ours.items()}
        return {**super().metrics(regularization_losses), **ours}

    def predictions(self, logits: Any, keys: Any = None) -> dict[str, Any]:
        """Returns what is predicted: of equal logits, equal probabilities, also those that the
        areas of evaluations take (docs/tensorflow-pitfalls.md#equal-logits)."""
        found: dict[str, Any] = super().predictions(logits, keys)
        exact = tf.cast(logits, tf.float64)
        positive = tf.sigmoid(exact)
        if "logistic" in found:
            found["logistic"] = tf.cast(positive, logits.dtype, name="logistic")
        if "probabilities" in found:
            chances = tf.concat([tf.sigmoid(-exact), positive], axis=-1)
            found["probabilities"] = tf.cast(chances, logits.dtype, name="probabilities")
        return found

    def _update_accuracy_baseline(self, eval_metrics: dict[str, Any]) -> None:
        """Adds nothing: it is one of `RESULTS`."""

    def update_own(self, found: dict[str, Any], batch: means.EvaluationBatch) -> None:
        """Adds the examples of a batch to the metrics above."""
        probabilities = self.predictions(batch.logits, ["probabilities"])["probabilities"]
        for name in RESULTS:
            own = found[self._summary_key(name)]
            own.update_state(batch.labels, probabilities, sample_weight=batch.weights)


def answer(predictions: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is served of a head's predictions."""
    if "class_ids" not in predictions:
        return {"prediction": tf.squeeze(predictions["predictions"], axis=1)}
    return {
        "class": tf.squeeze(predictions["class_ids"], axis=1),
        "probabilities": predictions["probabilities"],
    }


def make_servable(spec: Any) -> Any:
    """Returns the spec of predictions with the signatures that take columns.

    Those for classification and regression, which TensorFlow's own Estimators have, take nothing
    but one text: what these predict is served as of the models here.
    """
    kind = tf.estimator.export.PredictOutput
    kept = {name: out for name, out in spec.export_outputs.items() if isinstance(out, kind)}
    if SERVING not in kept:
        kept[SERVING] = kind(rename_predictions(spec.predictions))
    return spec._replace(export_outputs=kept)


def rename_predictions(predictions: Any) -> Any:
    """Returns predictions by the names they are served by; those of no head of `tf.estimator` as
    they are."""
    if not isinstance(predictions, Mapping):
        return predictions
    column = predictions.get("class_ids", predictions.get("predictions"))
    of_head = "class_ids" not in predictions or "probabilities" in predictions
    is_column = column is not None and column.shape.rank == 2 and column.shape[1] == 1
    return answer(predictions) if of_head and is_column else predictions


def export_outputs(served: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the one signature of a model."""
    return {SERVING: tf.estimator.export.PredictOutput(dict(served))}


def is_unscaled(output: str) -> bool:
    """True for what regressors give before `scale` and `offset`, of any label."""
    return output.rstrip("0123456789") == UNSCALED


def _collect_unscaled() -> dict[str, Any]:
    names = tf.compat.v1.get_default_graph().get_all_collection_keys()
    return {name: tf.compat.v1.get_collection(name)[0] for name in filter(is_unscaled, names)}


def build_answering_estimator(
    estimator: Any, keep: Sequence[str] = (), *, with_unscaled: bool = False
) -> Any:
    """Returns an Estimator whose `predict` gives what the exported model serves; on request also
    what regressors give before `scale` and `offset`, as `UNSCALED`.

    Features to `keep` are not for the model, but for who reads its answers.
    """

    def model_fn(features: Any, mode: str) -> Any:
        kept = {name: features.pop(name) for name in keep}
        spec = estimator.model_fn(features, None, mode, estimator.config)
        kept |= _collect_unscaled() if with_unscaled else {}
        return spec._replace(predictions={**spec.export_outputs[SERVING].outputs, **kept})

    settings = tf.compat.v1.ConfigProto(allow_soft_placement=True, device_count={"GPU": 0})
    rewrite = settings.graph_options.rewrite_options
    given = estimator.config.session_config.graph_options.rewrite_options
    rewrite.meta_optimizer_iterations = given.meta_optimizer_iterations
    rewrite.disable_meta_optimizer = given.disable_meta_optimizer
    return tf.estimator.Estimator(
        model_fn, config=estimator.config.replace(session_config=settings, device_fn=None)
    )
