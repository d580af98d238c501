"""Paired differences against scikit-learn, scipy, brute force and repetition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics

from trainer.comparison import paired
from trainer.metrics import class_metrics
from trainer.metrics.class_metrics import Answers


def _answers(labels, probability, groups=None):
    likelihood = np.where(labels == 1, probability, 1 - probability)
    return Answers(labels, (probability > 0.5).astype(int), probability, likelihood, groups)


def _pair(rng, count, gain=0.5, rate=0.4):
    """Labels, and the scores of two models that share most of their noise; B sees more."""
    labels = (rng.random(count) < rate).astype(int)
    shared = rng.normal(size=count)
    logits = [
        strength * labels - strength / 2 + shared + 0.4 * rng.normal(size=count)
        for strength in (1.0, 1.0 + gain)
    ]
    return labels, *(1 / (1 + np.exp(-x)) for x in logits)


def _delong(labels, a, b):
    """The variance of the difference by the double sums of the paper, in no clever way."""
    positive, negative = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
    kernels = []
    for scores in (a, b):
        rows = scores[positive][:, None], scores[negative][None, :]
        kernels.append((rows[0] > rows[1]) + 0.5 * (rows[0] == rows[1]))
    v10 = np.stack([kernel.mean(axis=1) for kernel in kernels])
    v01 = np.stack([kernel.mean(axis=0) for kernel in kernels])
    covariance = np.cov(v10) / len(positive) + np.cov(v01) / len(negative)
    contrast = np.array([-1, 1])
    return contrast @ covariance @ contrast


def test_areas_are_those_of_scikit_learn_and_the_interval_is_delongs():
    labels, a, b = _pair(np.random.default_rng(1), 500)
    a, b = np.round(a, 2), np.round(b, 2)  # with ties
    found = paired.compare_areas_under_roc(labels, a, b)
    assert found.a == pytest.approx(sklearn.metrics.roc_auc_score(labels, a))
    assert found.b == pytest.approx(sklearn.metrics.roc_auc_score(labels, b))
    half = scipy.stats.norm.ppf(0.975) * np.sqrt(_delong(labels, a, b))
    change = found.b - found.a
    # By the points of t, which of so many records are hardly larger.
    for end, sign in ((found.change.low, -1), (found.change.high, 1)):
        assert half < sign * (end - change) < 1.01 * half


@pytest.mark.parametrize(("count", "held"), [(30, 0.83), (300, 0.88)])
def test_intervals_hold_the_truth_of_rare_large_changes(count, held):
    """The points of t held it 0.65 and 0.81 of the times."""
    rng, found = np.random.default_rng(3), []
    for _ in range(1000):
        change = rng.lognormal(0, 2, count)
        errors = paired.compare_regressors(np.zeros(count), np.ones(count), 1 + change)
        found.append(errors["mean_absolute_error"].change)
    assert held <= np.mean([one.low <= np.exp(2) <= one.high for one in found]) <= 0.97


def test_means_are_students_t_of_the_pairs():
    labels, a, b = _pair(np.random.default_rng(2), 200)
    found = paired.compare_classifiers(_answers(labels, a), _answers(labels, b), 10)["log_loss"]
    assert found.b == pytest.approx(sklearn.metrics.log_loss(labels, b))
    losses = [-np.log(np.where(labels == 1, p, 1 - p)) for p in (a, b)]
    truth = scipy.stats.ttest_rel(losses[1], losses[0]).confidence_interval()
    assert (found.change.low, found.change.high) == pytest.approx((truth.low, truth.high))


def test_newcombe_holds_the_truth_over_all_tables():
    """Exactly: the chance of every table of 30 pairs whose interval has the true difference."""
    n = 30
    tables = [
        (both, a, b, n - both - a - b)
        for both in range(n + 1)
        for a in range(n + 1 - both)
        for b in range(n + 1 - both - a)
    ]
    found = [
        paired.newcombe(both=both, only_a=a, only_b=b, neither=neither)
        for both, a, b, neither in tables
    ]
    low, high = (np.array([getattr(one, end) for one in found]) for end in ("low", "high"))
    held = []
    for truth in ((0.6, 0.1, 0.1, 0.2), (0.5, 0.05, 0.2, 0.25), (0.85, 0.05, 0.05, 0.05)):
        chance = scipy.stats.multinomial(n, truth).pmf(tables)
        change = truth[2] - truth[1]
        held.append(float(np.sum(chance[(low <= change) & (change <= high)])))
    # With few pairs that differ it is wider than it need be, never narrower.
    assert all(0.95 <= share <= 0.995 for share in held), held


def _covered(draw, truth, names, times):
    held = {name: [] for name in names}
    for _ in range(times):
        found = draw()
        for name in names:
            held[name].append(found[name].change.low <= truth[name] <= found[name].change.high)
    return {name: np.mean(hits) for name, hits in held.items()}


CLASSES = ("accuracy", "auc", "log_loss", "normalized_entropy", "calibration", "average_precision")


def test_nineteen_of_twenty_intervals_hold_the_true_difference():
    rng = np.random.default_rng(3)

    def draw(count=400):
        labels, a, b = _pair(rng, count)
        return paired.compare_classifiers(_answers(labels, a), _answers(labels, b), 10)

    truth = {name: one.b - one.a for name, one in draw(300_000).items()}
    found = _covered(draw, truth, CLASSES, 400)
    assert all(0.92 <= share <= 0.985 for share in found.values()), found


def test_nineteen_of_twenty_intervals_of_regressors_hold_the_true_difference():
    rng = np.random.default_rng(4)

    def draw(count=400):
        labels, noise = rng.normal(size=count), rng.normal(size=count)
        return paired.compare_regressors(labels, labels + noise, labels + 0.9 * noise + 0.2)

    truth = {name: one.b - one.a for name, one in draw(500_000).items()}
    found = _covered(draw, truth, ("mean_absolute_error", "rmse", "mean_squared_error"), 300)
    assert all(0.92 <= share <= 0.985 for share in found.values()), found


def test_pairing_is_what_makes_the_interval_narrow():
    labels, a, b = _pair(np.random.default_rng(5), 2000)
    found = paired.compare_classifiers(_answers(labels, a), _answers(labels, b), 10)
    alone = class_metrics.build_mask_metrics(_answers(labels, b), 10)(np.ones(2000, bool))[0]
    for name in ("auc", "log_loss"):
        assert _width(found[name].change) < 0.7 * _width(alone[name]), name


def _width(one):
    return one.high - one.low


def test_values_are_those_of_make_evaluate():
    rng = np.random.default_rng(6)
    labels, a, b = _pair(rng, 500)
    groups = rng.integers(-1, 40, 500)
    one, other = _answers(labels, a, groups), _answers(labels, b, groups)
    found = paired.compare_classifiers(one, other, 5)
    for side, of in (("a", one), ("b", other)):
        metrics, _ = class_metrics.build_mask_metrics(of, 5)(np.ones(500, bool))
        assert metrics.keys() == found.keys()
        for name, metric in metrics.items():
            assert getattr(found[name], side) == pytest.approx(metric.value), name


def test_records_of_a_group_are_not_independent():
    labels, a, b = _pair(np.random.default_rng(7), 200)
    often = np.repeat(np.arange(200), 10)
    once = paired.compare_classifiers(_answers(labels, a), _answers(labels, b), 10)
    ten = paired.compare_classifiers(
        _answers(labels[often], a[often], often), _answers(labels[often], b[often], often), 10
    )
    for name in ("auc", "log_loss", "accuracy", "average_precision"):
        assert _width(ten[name].change) == pytest.approx(_width(once[name].change), rel=0.12), name


def test_the_same_predictions_do_not_differ():
    labels, a, _ = _pair(np.random.default_rng(8), 300)
    for name, one in paired.compare_classifiers(
        _answers(labels, a), _answers(labels, a), 10
    ).items():
        assert one.a == one.b and one.change.low <= 0 <= one.change.high, name
        assert one.verdict(True) == ""


def test_more_than_two_classes():
    rng = np.random.default_rng(9)
    labels = rng.integers(0, 5, 300)
    likelihood = rng.random(300)
    one = Answers(labels, labels, None, likelihood)
    other = Answers(labels, (labels + 1) % 5, None, likelihood**2)
    found = paired.compare_classifiers(one, other, 10)
    assert set(found) == {"accuracy", "log_loss"}
    assert found["accuracy"].verdict(True) == "worse" and found["accuracy"].change.value == -1
    assert found["log_loss"].a == pytest.approx(np.mean(-np.log(likelihood)))
    assert found["log_loss"].verdict(paired.higher_is_better("log_loss")) == "worse"


def test_one_label_or_few_records_say_nothing():
    found = paired.compare_classifiers(*[_answers(np.ones(30, int), np.full(30, 0.4))] * 2, 10)
    assert "auc" not in found and "average_precision" not in found
    labels = np.array([0, 1, 1, 0])
    sure = 0.9 * labels + 0.05
    found = paired.compare_classifiers(_answers(labels, sure), _answers(labels, 1 - sure), 10)
    assert all(one.change.few and one.verdict(True) == "" for one in found.values())


@pytest.mark.parametrize("metric", ["log_loss", "rmse"])
def test_less_is_better_for_errors(metric):
    assert paired.higher_is_better(metric) is False


def test_metrics_by_other_names():
    assert paired.find_metric("loss", ["accuracy", "log_loss"]) == "log_loss"
    assert paired.find_metric("loss", ["rmse", "mean_squared_error"]) == "mean_squared_error"
    assert (
        paired.find_metric("auc", ["auc"]) == "auc" and paired.find_metric("mine", ["auc"]) is None
    )
    assert paired.higher_is_better("calibration") is None
    assert paired.higher_is_better("auc") is True


def test_newcombe_is_symmetric_and_within_its_bounds():
    for both, a, b, neither in itertools.product((0, 1, 7), repeat=4):
        one, other = (
            paired.newcombe(both=both, only_a=a, only_b=b, neither=neither),
            paired.newcombe(both=both, only_a=b, only_b=a, neither=neither),
        )
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
        assert -1 <= one.low <= one.value <= one.high <= 1


def test_metrics_are_named_whether_these_records_define_them_or_not():
    labels = np.array([1])
    one = _answers(labels, np.array([0.7]))
    assert set(paired.compare_classifiers(one, one, 10)) - {"accuracy"} < set(
        paired.list_probability_metrics(one, 10)
    )
    assert "auc" in paired.list_probability_metrics(one, 10)
    grouped = _answers(labels, np.array([0.7]), np.array([0]))
    assert "ndcg@5" in paired.list_probability_metrics(grouped, 5)
    assert paired.list_probability_metrics(Answers(labels, labels, None, labels), 10) == ()


def test_what_is_independent_is_told():
    labels, scores = np.arange(80) % 2, np.random.default_rng(4).random(80)
    one, other = (_answers(labels, x, np.arange(80) // 20) for x in (scores, scores[::-1]))
    found = paired.compare_classifiers(one, other, 10)
    for name, units in (
        ("accuracy", "groups: 4, of 80 records"),
        ("auc", "groups: 4, of 80 records"),
        ("log_loss", "groups: 4, of 80 records"),
        ("ndcg@10", "groups: 4 with both labels, of 80 records"),
    ):
        assert (found[name].change.few, found[name].change.units) == (True, units)
    found = paired.compare_classifiers(*(_answers(labels, x) for x in (scores, scores[::-1])), 10)
    assert {one.change.units for one in found.values()} == {"records: 80"}


def test_changes_that_are_all_alike_have_no_interval():
    labels = np.arange(60) % 2
    found = paired.compare_regressors(labels, labels + 0.5, labels + 0.25)
    for name, one in found.items():
        assert (one.change.few, one.change.alike, one.verdict(False)) == (True, True, ""), name
    sure = _answers(labels, 0.8 * labels + 0.1)
    assert paired.compare_classifiers(sure, sure, 10)["auc"].change.alike


def test_groups_count_where_no_record_changes():
    labels = np.arange(80) % 2
    found = {
        count: paired.compare_classifiers(
            *[_answers(labels, 0.8 * labels + 0.1, np.arange(80) // 2 % count)] * 2, 10
        )["accuracy"].change
        for count in (2, 20, 40)
    }
    assert _width(found[2]) > _width(found[20]) > _width(found[40])
    assert [one.few for one in found.values()] == [True, False, False]


def _skewed(rng, count):
    """Returns labels and predictions of two models that are equally good by the squared error."""
    z = 0.9 * rng.normal(size=count)
    labels, a = np.exp(0.8 * z + 1.8 * rng.normal(size=count)), 0.8 * np.exp(0.8 * z + 1.62)
    # The truth of cov(a, label) for the scale at which the squared error is least.
    best = np.exp(1.62) / (0.8 * np.exp(1.62))
    return labels, a, (2 * best - 1) * a


@pytest.mark.parametrize("count", [300, 2400])
def test_a_difference_that_few_records_carry_has_no_verdict(count):
    """Of equally good models B was certainly worse 0.22 and 0.15 of the times."""
    rng = np.random.default_rng(11)
    found = [
        paired.compare_regressors(*_skewed(rng, count))["mean_squared_error"].verdict(False)
        for _ in range(400)
    ]
    assert found.count("worse") + found.count("better") <= 0.05 * 400
    assert found.count("undecided") >= 0.05 * 400


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_normal_or_exponential_errors_are_not_carried_by_few(draw):
    rng, found = np.random.default_rng(12), []
    for _ in range(100):
        a, b = getattr(rng, draw)(size=(2, 300))
        found.append(paired.compare_regressors(np.zeros(300), a, 0.5 * b)["mean_absolute_error"])
    assert sum(one.change.few_carry for one in found) <= 3
    assert sum(one.verdict(False) == "better" for one in found) >= 97


def test_few_records_carry_nothing_where_there_are_few_like_any_others():
    rng = np.random.default_rng(13)
    change = 1 + 0.1 * rng.normal(size=12)
    found = paired.compare_regressors(np.zeros(12), np.ones(12), 1 + change)["mean_absolute_error"]
    assert found.verdict(False) == "worse"


@pytest.mark.parametrize("scale", [1.0, 1.03, 1.1, 3.0])
def test_rmse_has_the_verdict_of_the_squared_error(scale):
    rng = np.random.default_rng(14)
    for count in (12, 50, 400):
        for _ in range(50):
            labels, noise = np.zeros(count), rng.lognormal(size=(2, count))
            a, b = noise[0], scale * (0.9 * noise[0] + 0.1 * noise[1])
            found = paired.compare_regressors(labels, a, b)
            root, square = found["rmse"], found["mean_squared_error"]
            assert root.change.value == pytest.approx(root.b - root.a)
            assert root.verdict(False) == square.verdict(False)
            for end in ("low", "high"):
                assert np.sign(getattr(root.change, end)) == np.sign(getattr(square.change, end))
