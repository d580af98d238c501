"""`two_tower`: a network for users and one for items, whose vectors are close where a user takes an
item; for finding a few hundred candidates among millions of items.

Yi et al., Sampling-bias-corrected neural modeling for large corpus item recommendations, 2019. Each
user of a batch has to find its item among all items of the batch, by a softmax over scores. An item
is there as often as it is popular: its score is corrected by the logarithm of how often that is,
which comes from the statistics of train and not from a running estimate, as it is known.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from pipeline.models.two_tower import ITEM, SIDES, TOP_K, USER, TwoTower
from pipeline.records.feature_plan import Planned
from trainer import optimizers
from trainer.checkpoints.parameters import Parameters
from trainer.features import feature_columns
from trainer.features.transforms import WEIGHT, Transforms
from trainer.heads import heads, means
from trainer.networks import keras_network
from trainer.networks.keras_columns import KerasColumns
from trainer.networks.keras_network import KerasNetwork
from trainer.networks.network import Network

v1 = tf.compat.v1
_columns = v1.feature_column
_MODES = tf.estimator.ModeKeys
SCORE = "score"
_SHORTEST = 1e-3


def estimator(params: Mapping[str, Any], config: Any, transforms: Transforms) -> Any:
    """Returns what has the `model_fn`."""
    return _TwoTower(params, TwoTower.of(params), transforms)


def network(params: Mapping[str, Any], columns: KerasColumns, parameters: Parameters) -> Any:
    """Returns the same of Keras layers, with parameters of a checkpoint."""
    built, settings = KerasNetwork(params, columns, parameters), TwoTower.of(params)
    vectors = {}
    for side, planned in _split_by_tower(settings, columns.planned).items():
        x = keras_network.join_features(built.inputs(planned))
        x = built.stack(x, settings.hidden_units, settings, scope=side)
        last = tf.keras.layers.Dense(settings.size, name=f"{side}_vector")
        x = built.load_layer(last, x, f"{side}/vector")
        vectors[side] = build_vector(x, normalize=settings.normalize)
    scores = score(vectors[USER], vectors[ITEM])
    return built.wrap_outputs({SCORE: scores, **vectors})


def build_vector(x: Any, *, normalize: bool) -> Any:
    """Returns the vectors that a tower ends in, `[batch, size]`, made of its last layer."""
    # A gradient is divided by the length of the vector, which may be 0 at the start.
    return tf.math.l2_normalize(x, axis=1, epsilon=_SHORTEST**2) if normalize else x


def score(user: Any, item: Any) -> Any:
    """Returns the dot product of each two vectors, `[batch]`."""
    return tf.reduce_sum(user * item, axis=1)


def _split_by_tower(settings: TwoTower, planned: Sequence[Planned]) -> dict[str, list[Planned]]:
    """Returns the features of each tower, by its name."""
    pairs = zip(SIDES, settings.apart, strict=True)
    return {side: [one for one in planned if one.name in names] for side, names in pairs}


class _TwoTower(Network):
    def __init__(
        self, params: Mapping[str, Any], settings: TwoTower, transforms: Transforms
    ) -> None:
        super().__init__(params, settings, transforms)
        self._params, self._towers = params, settings
        self._sides = _split_by_tower(settings, transforms.plan.features)
        self._shares = transforms.plan.item_shares

    def model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        """Returns the spec of a batch of features."""
        known = feature_columns.rename_features(features)
        known = feature_columns.add_weights(known, self._planned)
        user, item = self._compute_vectors(known, training=mode == _MODES.TRAIN)
        served = {SCORE: score(user, item), USER: user, ITEM: item}
        if mode == _MODES.PREDICT:
            return tf.estimator.EstimatorSpec(
                mode, predictions=served, export_outputs=export_outputs(served)
            )
        batch = self._score_batch(features, labels, user, item=item)
        loss = batch.loss()
        if mode == _MODES.EVAL:
            metrics = batch.metrics(self._params[TOP_K])
            metrics[means.LOSS] = means.average_batches(loss, tf.reduce_sum(batch.positive))
            return tf.estimator.EstimatorSpec(
                mode, predictions=served, loss=loss, eval_metric_ops=metrics
            )
        train_op = optimizers.train_op(loss, self._params["optimizer"])
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def _compute_vectors(self, features: Mapping[str, Any], *, training: bool) -> tuple[Any, Any]:
        x = self._group_by_tower(features)
        found = []
        for side in SIDES:
            hidden = self._build_layers(x[side], self._towers.hidden_units, side, training=training)
            with v1.variable_scope(side):
                last = v1.layers.dense(hidden, self._towers.size, name="vector")
            found.append(build_vector(last, normalize=self._towers.normalize))
        return found[0], found[1]

    def _group_by_tower(self, features: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the features of each tower side by side, `[batch, width]`. One layer looks up the
        vectors of both, so that they can share tables; neither is made of features of the other."""
        columns, known = {}, dict(features)
        for side, planned in self._sides.items():
            columns[side], packed = feature_columns.pack_columns(planned)
            known |= feature_columns.pack(features, packed)
        every, by_column = [c for of_side in columns.values() for c in of_side], dict[Any, Any]()
        with v1.variable_scope("dnn"), v1.variable_scope("input_from_feature_columns"):
            _columns.input_layer(known, every, cols_to_output_tensors=by_column)
        ordered = {side: sorted(of, key=lambda c: c.name) for side, of in columns.items()}
        return {side: tf.concat([by_column[c] for c in of], 1) for side, of in ordered.items()}

    def _score_batch(
        self, features: Mapping[str, Any], labels: Any, user: Any, *, item: Any
    ) -> InBatchScores:
        settings = self._towers
        scores = tf.matmul(user, item, transpose_b=True) / settings.temperature
        ids, log_q = None, None
        if settings.item_id is not None:
            ids = tf.reshape(features[settings.item_id], [-1])
        if self._shares is not None:
            log_q = tf.gather(tf.constant(np.log(self._shares), tf.float32), ids)
        positive = tf.ones_like(scores[:, 0])
        if settings.positives == "label":
            positive = tf.cast(tf.equal(tf.cast(tf.reshape(labels, [-1]), tf.int64), 1), tf.float32)
        weights = positive
        if WEIGHT in features:
            weights *= tf.cast(tf.reshape(features[WEIGHT], [-1]), tf.float32)
        return InBatchScores(scores, positive, weights, ids=ids, log_q=log_q)


@dataclasses.dataclass(frozen=True)
class InBatchScores:
    """The `scores` of each user, in rows, and each item of a batch, `[batch, batch]`; those of the
    pairs that are in the data are the diagonal.

    `positive` says which rows count, and `weights` how much, `[batch]` float32; `ids` and `log_q`
    are of the items, `[batch]`, the logarithm of how often each is in a batch.
    """

    scores: Any
    positive: Any
    weights: Any
    _: dataclasses.KW_ONLY
    ids: Any = None
    log_q: Any = None

    def losses(self) -> Any:
        """Returns the negative log probability of the item of each row in training, `[batch]`."""
        logits = self.scores if self.log_q is None else self.scores - self.log_q
        return self._negative_log_probability(logits, self._mask_others())

    def loss(self) -> Any:
        """Returns the sum of these by weight over the number of positives; 0 without one."""
        total = tf.reduce_sum(self.weights * self.losses())
        return tf.math.divide_no_nan(total, tf.reduce_sum(self.positive))

    def places(self) -> tuple[Any, Any]:
        """Returns how many other items of the batch score higher than that of the row, and how many
        as high, `[batch]` each. Of rows with equal items, the first counts."""
        own = tf.linalg.diag_part(self.scores)[:, tf.newaxis]
        others = self._mask_different_others()
        higher = tf.cast(others & (self.scores > own), tf.float32)
        equal = tf.cast(others & tf.equal(self.scores, own), tf.float32)
        return tf.reduce_sum(higher, axis=1), tf.reduce_sum(equal, axis=1)

    def metrics(self, top: int) -> dict[str, Any]:
        """Returns the metrics of an evaluation, among the different items of each batch: the mean
        negative log probability of that of the row, by scores as they are; how often it is one of
        the first `top`; and the mean of one over its place, 0 behind these. Items that score the
        same are in each order equally often."""
        higher, equal = self.places()
        first, last = tf.minimum(higher, float(top)), tf.minimum(higher + equal + 1, float(top))
        # The sum of 1 / n from first + 1 to last.
        reciprocal = tf.math.digamma(last + 1) - tf.math.digamma(first + 1)
        found = {
            "average_loss": self._negative_log_probability(
                self.scores, self._mask_different_others()
            ),
            f"hit_rate@{top}": (last - first) / (equal + 1),
            f"mrr@{top}": reciprocal / (equal + 1),
        }
        return {name: v1.metrics.mean(x, self.weights) for name, x in found.items()}

    def _negative_log_probability(self, logits: Any, others: Any) -> Any:
        """Returns that of the item of each row among it and `others`, `[batch, batch]` bool."""
        logits = tf.where(others | self._mask_own(), logits, logits.dtype.min)
        rows = tf.range(tf.shape(logits)[0])
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=rows, logits=logits)

    def _mask_own(self) -> Any:
        return tf.eye(tf.shape(self.scores)[0], dtype=tf.bool)

    def _mask_others(self) -> Any:
        """Returns which items are not that of the row, `[batch, batch]` bool."""
        if self.ids is None:
            return tf.logical_not(self._mask_own())
        return tf.not_equal(self.ids[:, tf.newaxis], self.ids[tf.newaxis, :])

    def _mask_different_others(self) -> Any:
        """Returns the same, of rows with equal items the first alone."""
        others = self._mask_others()
        if self.ids is None:
            return others
        before = tf.linalg.band_part(tf.cast(others, tf.int32) - 1, -1, 0)
        return others & tf.equal(tf.reduce_sum(before, axis=1), -1)


def export_outputs(served: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the signature of both towers, and one of each."""
    kind = tf.estimator.export.PredictOutput
    alone = {side: kind({side: served[side]}) for side in SIDES}
    return {**heads.export_outputs(served), **alone}
