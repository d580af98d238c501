"""`two_tower` against its formulas in NumPy, and what it learns of small tables."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from pipeline import config
from pipeline.config import model_config
from pipeline.models.two_tower import TOP_K
from pipeline.records import manifest
from tests.pipeline.feature_tables import contents, make
from trainer import models, optimizers
from trainer.export import exporters, serving_graph
from trainer.features.transforms import WEIGHT, Transforms
from trainer.heads import means
from trainer.models.two_tower import InBatchScores

v1 = tf.compat.v1
USERS, ITEMS = 40, 30
COLUMNS = {
    "user": {"type": "int64"},
    "item": {"type": "int64", "vocabulary": {}},
    "seen": {"type": "int64", "list": True, "max_items": 3},
}
FEATURES = {
    "user": {"steps": [{"identity": {"ids": USERS + 1}}], "embedding": 8},
    "delay": {"steps": [{"missing": {"fill": 0}}]},
    "item": {"steps": [{"identity": {"ids": ITEMS + 1}}], "embedding": 8},
    "weight": {},
}
SIDES = {"user": ["user", "delay"], "item": ["item", "weight"]}
_TABLES = "dnn/input_from_feature_columns/input_layer"


def _job(features=FEATURES, label=None, **params) -> config.Config:
    given = {**SIDES, "size": 4, "hidden_units": [6], **params}
    return make(
        features,
        label,
        COLUMNS,
        model={"name": "two_tower", "params": given},
        eval={"metric": "loss", "higher_is_better": False},
    )


def _model(job, counts=None, optimizer=("sgd", 0.1), top=3):
    """Returns the model and its transforms; `counts` are those of the items in train."""
    known = contents(job)
    if counts is not None:
        listed = tuple((n, int(count)) for n, count in enumerate(counts) if count)
        of_item = manifest.ColumnStatistics(count=int(sum(counts)), vocabulary=listed)
        known.statistics["train"].columns["item"] = of_item
    transforms = Transforms(job, known)
    params = {**model_config.params(job.model), "optimizer": optimizers.Updates(*optimizer)}
    params[TOP_K] = top
    run = tf.estimator.RunConfig(tf_random_seed=1)
    return models.build_model("two_tower", params, run, transforms=transforms), transforms


def _losses(scores, *, ids=None, log_q=None):
    """Returns the losses by the paper's formulas 3 and 4, item by item."""
    found = []
    for row, own in enumerate(np.diag(scores)):
        logits = []
        for column, score in enumerate(scores[row]):
            if column != row and ids is not None and ids[column] == ids[row]:
                continue
            logits.append(score - (0 if log_q is None else log_q[column]))
        own = own - (0 if log_q is None else log_q[row])
        found.append(np.log(np.sum(np.exp(logits))) - own)
    return np.array(found)


@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_loss_and_gradient_equal_numpy(known, corrected):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(7, 7)).astype(np.float32)
    positive = np.array([1, 0, 1, 1, 0, 1, 1], np.float32)
    weights = positive * rng.uniform(0.5, 2, 7).astype(np.float32)
    ids = np.array([3, 1, 3, 2, 5, 1, 4]) if known else None
    log_q = np.log(rng.uniform(0.01, 0.3, 7)).astype(np.float32) if corrected else None
    given = tf.constant(scores)
    with tf.GradientTape() as tape:
        tape.watch(given)
        batch = InBatchScores(
            given,
            tf.constant(positive),
            tf.constant(weights),
            ids=None if ids is None else tf.constant(ids),
            log_q=None if log_q is None else tf.constant(log_q),
        )
        loss = batch.loss()

    def by_hand(x):
        return (weights * _losses(x, ids=ids, log_q=log_q)).sum() / positive.sum()

    assert float(loss) == pytest.approx(by_hand(scores.astype(float)), rel=1e-6)
    wanted, small = np.zeros((7, 7)), 1e-6
    for place in np.ndindex(7, 7):
        up, down = scores.astype(float), scores.astype(float)
        up[place] += small
        down[place] -= small
        wanted[place] = (by_hand(up) - by_hand(down)) / (2 * small)
    np.testing.assert_allclose(tape.gradient(loss, given).numpy(), wanted, atol=1e-6)


def test_a_batch_without_positives_teaches_nothing():
    scores = tf.random.stateless_normal([3, 3], [1, 2])
    with tf.GradientTape() as tape:
        tape.watch(scores)
        loss = InBatchScores(scores, tf.zeros([3]), tf.zeros([3])).loss()
    assert float(loss) == 0
    assert not tape.gradient(loss, scores).numpy().any()


def test_metrics_are_among_different_items_and_count_ties_as_every_order():
    """By scores as they are: the correction is for how often an item is in a batch."""
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 3, (12, 12)).astype(np.float32)
    ids, weights = rng.integers(0, 8, 12), rng.uniform(0.5, 2, 12).astype(np.float32)
    log_q = rng.normal(size=12).astype(np.float32)
    hits, reciprocals, losses = [], [], []
    for row in range(12):
        different = sorted(set(ids.tolist()) - {ids[row]})
        others = [scores[row, ids.tolist().index(item)] for item in different]
        total = np.sum(np.exp([scores[row, row], *others]))
        losses.append(np.log(total) - scores[row, row])
        higher = sum(x > scores[row, row] for x in others)
        places = range(higher + 1, higher + sum(x == scores[row, row] for x in others) + 2)
        hits.append(np.mean([place <= 3 for place in places]))
        reciprocals.append(np.mean([1 / place if place <= 3 else 0 for place in places]))
    with tf.Graph().as_default(), v1.Session() as session:
        given = {"ids": tf.constant(ids), "log_q": tf.constant(log_q)}
        batch = InBatchScores(tf.constant(scores), tf.ones([12]), tf.constant(weights), **given)
        metrics = batch.metrics(3)
        session.run(v1.local_variables_initializer())
        session.run([update for _, update in metrics.values()])
        found = session.run({name: value for name, (value, _) in metrics.items()})
    assert set(found) == {"average_loss", "hit_rate@3", "mrr@3"}
    assert found["average_loss"] == pytest.approx(np.average(losses, weights=weights), rel=1e-6)
    assert found["hit_rate@3"] == pytest.approx(np.average(hits, weights=weights), abs=1e-6)
    assert found["mrr@3"] == pytest.approx(np.average(reciprocals, weights=weights), abs=1e-6)


def _by_hand(read, given, *, normalize):
    """Returns the vectors of users and items, `[rows, size]` each, with NumPy alone."""

    def tower(side, ids, numbers):
        table = read[f"{_TABLES}/{side}_embedding/embedding_weights"]
        names = {"user": "delay", "item": "weight"}
        parts = {f"{side}_embedding": table[ids], names[side]: numbers[:, None]}
        x = np.concatenate([parts[name] for name in sorted(parts)], axis=1)
        scope = f"{side}/hiddenlayer_0"
        x = np.maximum(x @ read[f"{scope}/kernel"] + read[f"{scope}/bias"], 0)
        x = x @ read[f"{side}/vector/kernel"] + read[f"{side}/vector/bias"]
        length = np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-3)
        return x / length if normalize else x

    return tower("user", given["user"], given["delay"]), tower(
        "item", given["item"], given["weight"]
    )


def _rows(count=20):
    rng = np.random.default_rng(2)
    return {
        "user": rng.integers(0, USERS, count),
        "item": rng.integers(0, ITEMS, count),
        "delay": rng.normal(size=count).astype(np.float32),
        "weight": rng.normal(size=count).astype(np.float32),
    }


@pytest.mark.parametrize("normalize", [True, False])
def test_the_model_is_the_formula(normalize):
    job = _job(normalize=normalize, temperature=0.2, item_id="item", log_q=True)
    counts = np.arange(1, ITEMS + 2)
    model, _ = _model(job, counts)
    given, labels = _rows(), np.arange(20) % 3 == 0
    weight = np.linspace(0.5, 2, 20).astype(np.float32)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        features = {name: tf.constant(x) for name, x in given.items()}
        features[WEIGHT] = tf.constant(weight)
        spec = model.model_fn(
            features=features, labels=tf.constant(labels.astype(int)), mode="eval", config=None
        )
        session.run(v1.global_variables_initializer())
        read = {v.op.name: session.run(v) for v in v1.trainable_variables()}
        loss, found = session.run([spec.loss, spec.predictions])
    user, item = _by_hand(read, given, normalize=normalize)
    np.testing.assert_allclose(found["user"], user, atol=1e-5)
    np.testing.assert_allclose(found["item"], item, atol=1e-5)
    np.testing.assert_allclose(found["score"], (user * item).sum(axis=1), atol=1e-5)
    log_q = np.log(counts / counts.sum())[given["item"]]
    losses = _losses(user @ item.T / 0.2, ids=given["item"], log_q=log_q)
    assert loss == pytest.approx((losses * weight)[labels].sum() / labels.sum(), rel=1e-4)


def _trained(folder, job, rows, *, counts=None, steps=300, batch=50):
    """Trains; returns the loaded export and the Estimator."""
    model, transforms = _model(job, counts, ("adam", 0.02))
    run = tf.estimator.RunConfig(str(folder), tf_random_seed=1)

    def model_fn(features, labels, mode):
        return model.model_fn(features=features, labels=labels, mode=mode, config=run)

    def input_fn():
        data = tf.data.Dataset.from_tensor_slices(rows).shuffle(len(rows["item"]), seed=1)
        batches = data.repeat().batch(batch)
        return batches.map(lambda some: transforms.examples(some, training=True))

    estimator = tf.estimator.Estimator(model_fn, config=run)
    estimator.train(input_fn, steps=steps)
    receiver = serving_graph.build_serving_input_fn(transforms)
    path = estimator.export_saved_model(f"{folder}/export", receiver).decode()
    exporters.name_signatures(path)
    return tf.saved_model.load(path), estimator, input_fn


def _asked(loaded, signature, given):
    fed = {name: tf.constant(x) for name, x in given.items()}
    return {name: x.numpy() for name, x in loaded.signatures[signature](**fed).items()}


def _preferences(count=2000):
    """Returns rows of users who take items of their group alone; of others the label is 0."""
    rng = np.random.default_rng(3)
    user, item = rng.integers(0, USERS, count), rng.integers(0, ITEMS, count)
    late = (item % 5 == user % 5).astype(np.int64)
    numbers = rng.normal(size=(2, count)).astype(np.float32)
    return {"user": user, "item": item, "delay": numbers[0], "weight": numbers[1], "late": late}


def test_it_finds_the_items_and_each_tower_answers_alone(tmp_path):
    job, rows = _job(item_id="item", temperature=0.2), _preferences()
    loaded, estimator, input_fn = _trained(tmp_path, job, rows, batch=200)
    found = estimator.evaluate(input_fn, steps=20)
    # What training minimizes has items as often as they are in a batch. Of batches with more
    # positives there are more examples in the mean.
    assert found[means.LOSS] > found["average_loss"]
    assert found["loss"] != pytest.approx(found[means.LOSS], rel=1e-6)
    # The group of a user has 6 of the 30 items.
    assert found["hit_rate@3"] > 0.4 > 3 * 3 / 30
    every = {"item": np.arange(ITEMS), "weight": np.zeros(ITEMS, np.float32)}
    users = {"user": np.arange(USERS), "delay": np.zeros(USERS, np.float32)}
    items = _asked(loaded, "item", every)
    asked = _asked(loaded, "user", users)
    assert list(items) == ["item"] and list(asked) == ["user"]
    best = np.argsort(-(asked["user"] @ items["item"].T), axis=1)[:, :6]
    assert (best % 5 == np.arange(USERS)[:, None] % 5).mean() > 0.95
    both = _asked(loaded, "serving_default", {n: x for n, x in rows.items() if n != "late"})
    alone = _asked(loaded, "user", {n: rows[n] for n in SIDES["user"]})
    np.testing.assert_allclose(both["user"], alone["user"], atol=1e-6)
    alone = _asked(loaded, "item", {n: rows[n] for n in SIDES["item"]})
    np.testing.assert_allclose(both["item"], alone["item"], atol=1e-6)
    np.testing.assert_allclose(both["score"], (both["user"] * both["item"]).sum(axis=1), atol=1e-5)


def test_log_q_learns_that_popular_items_are_taken(tmp_path):
    """Items are taken by Zipf's law, whoever the user is. In a batch that is no news of an item:
    without the correction, its score says nothing of how popular it is."""
    rng = np.random.default_rng(4)
    shares = 1 / np.arange(1, ITEMS + 1)
    rows = _preferences(4000)
    rows["item"] = rng.choice(ITEMS, 4000, p=shares / shares.sum())
    counts = np.append(np.bincount(rows["item"], minlength=ITEMS), 0)
    every = {"item": np.arange(ITEMS), "weight": np.zeros(ITEMS, np.float32)}
    users = {"user": np.arange(USERS), "delay": np.zeros(USERS, np.float32)}
    found = {}
    for log_q in (True, False):
        params = {"normalize": False, "temperature": 1, "positives": "all", "item_id": "item"}
        job = _job(log_q=log_q, **params)
        loaded, *_ = _trained(tmp_path / str(log_q), job, rows, counts=counts)
        user, item = _asked(loaded, "user", users)["user"], _asked(loaded, "item", every)["item"]
        mean = (user @ item.T).mean(axis=0)
        found[log_q] = np.polyfit(np.log(shares), mean, 1)[0]
    assert found[True] == pytest.approx(1, abs=0.3)
    assert found[False] == pytest.approx(0, abs=0.3)


def test_towers_can_share_a_table(tmp_path):
    features = {
        **FEATURES,
        "seen": {"steps": [{"identity": {"ids": ITEMS + 1}}], "embedding": {"table": "item"}},
    }
    job = _job(features, user=["user", "delay", "seen"])
    rows = _preferences(100)
    rows["seen"] = np.stack([rows["item"], np.full(100, -1), np.full(100, -1)], axis=1)
    loaded, estimator, _ = _trained(tmp_path, job, rows, steps=2)
    tables = [n for n in estimator.get_variable_names() if n.endswith("embedding_weights")]
    assert tables == [f"{_TABLES}/{side}_embedding/embedding_weights" for side in ("item", "user")]
    asked = {n: rows[n] for n in ("user", "delay", "seen")}
    assert _asked(loaded, "user", asked)["user"].shape == (100, 4)


def test_a_tower_of_many_numbers_needs_none_of_the_other(tmp_path):
    """Many numbers are normalised by one op."""
    names = {side: [f"{side}{n}" for n in range(20)] for side in ("user", "item")}
    every = [*names["user"], *names["item"]]
    columns = {name: {"type": "float32"} for name in every}
    step = {"z_score": {"mean": 1, "deviation": 2}}
    job = make(
        {name: {"steps": [step]} for name in every},
        columns=columns,
        model={"name": "two_tower", "params": {**names, "hidden_units": []}},
        eval={"metric": "loss", "higher_is_better": False},
    )
    x = np.random.default_rng(5).normal(size=(60, 40)).astype(np.float32)
    rows = {name: x[:, n] for n, name in enumerate(every)}
    rows |= {"late": np.ones(60, np.int64), "item": np.arange(60)}
    loaded, *_ = _trained(tmp_path, job, rows, steps=1)
    assert set(loaded.signatures["user"].structured_input_signature[1]) == set(names["user"])
