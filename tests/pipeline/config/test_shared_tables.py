"""Tables that several features use: which are refused, in which words, and how wide they are."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.config import shared_tables
from pipeline.records import feature_plan
from tests.pipeline.feature_tables import contents, make

LIST = {"type": "string", "list": True, "max_items": 3, "vocabulary": {}}
COLUMNS = {"flown": LIST, "numbers": {"type": "int64", "list": True, "max_items": 3}}
OWNER = {"steps": ["vocabulary"], "embedding": 5}


def _features(steps, owner=OWNER, **embedding):
    user = {"steps": steps, "embedding": {"table": "carrier", "combiner": "sum", **embedding}}
    return {"carrier": owner, "flown": user}


def _of(step, **settings):
    return [{step: settings}]


def test_the_same_vocabulary_in_one_table():
    job = make(_features(_of("vocabulary", of="carrier")), columns=COLUMNS)
    owner, user = feature_plan.plan(job, contents(job)).features
    assert owner.steps[-1].values == user.steps[-1].values == ("UA", "AA", "DL")
    assert (owner.table, user.table) == ("carrier", "carrier")
    assert user.feature.embedding.size == 5
    assert shared_tables.tables(job.features) == {"carrier": "carrier", "flown": "carrier"}


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (_of("hash", buckets=9), _of("hash", buckets=9)),
        (_of("vocabulary", values=["a"], oov=2), _of("vocabulary", values=["a"], oov=2)),
    ],
)
def test_the_same_ids_of_no_statistics(own, other):
    make(_features(own, {"steps": other, "embedding": 5}), columns=COLUMNS)


def _parts(owner, user, of="time"):
    steps = {"owner": owner, "user": user}
    made = {name: {"of": of, "steps": steps[name]} for name in steps}
    made["owner"]["embedding"] = 5
    made["user"]["embedding"] = {"table": "owner"}
    return made


_IDENTITY = {"identity": {"ids": 13}}


def test_ids_of_other_parts_of_a_date():
    columns = {"day": {"type": "string", "dates": "iso"}}
    month, weekday = {"date": {"part": "month"}}, {"date": {"part": "weekday"}}
    make(_parts([month, _IDENTITY], [month, _IDENTITY], "day"), columns=columns)
    with pytest.raises(
        errors.UsageError,
        match=r"features\.user\.embedding\.table: date \{part: month\}, identity \{ids: 13\} "
        r"gives its ids, and date \{part: weekday\}, identity \{ids: 13\} those of 'owner': one id "
        "would mean two values; write the steps of 'owner', with their settings$",
    ):
        make(_parts([weekday, _IDENTITY], [month, _IDENTITY], "day"), columns=columns)


@pytest.mark.parametrize("before", ["clock", "log1p", {"cycle": {"period": 7}}])
def test_ids_of_numbers_that_a_step_changes(before):
    cut = {"buckets": {"boundaries": [1.0, 2.0]}}
    make(_parts([before, cut], [before, cut]))
    for owner, user in (([before, cut], [cut]), ([cut], [before, cut])):
        with pytest.raises(
            errors.UsageError, match="one id would mean two values; write the steps"
        ):
            make(_parts(owner, user))


def test_gaps_that_are_filled_and_extremes_do_not_change_what_ids_mean():
    make(_parts([{"missing": {"fill": 0}}, _IDENTITY], [_IDENTITY]))
    cut = {"buckets": {"boundaries": [1.0, 2.0]}}
    make(_parts([{"clip": {"max": 20}}, cut], [cut]))


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            _features(["vocabulary"]),
            r"features\.flown\.embedding\.table: vocabulary of 'flown' gives its ids, and "
            r"vocabulary of 'carrier' those of 'carrier': one id would mean two values; write "
            r"\{vocabulary: \{of: carrier\}\}, with the other settings of 'carrier'",
        ),
        (
            _features(_of("vocabulary", of="carrier", oov=2)),
            r"vocabulary \{oov: 2\} of 'carrier' gives its ids, and vocabulary of 'carrier' those",
        ),
        (
            _features(_of("hash", buckets=9), {"steps": _of("hash", buckets=8), "embedding": 5}),
            r"hash \{buckets: 9\} gives its ids, and hash \{buckets: 8\} those of 'carrier': one "
            "id would mean two values; write the step of 'carrier', with its settings",
        ),
        (
            _features(_of("hash", buckets=9)),
            r"hash \{buckets: 9\} gives its ids, and vocabulary of",
        ),
        (
            _features(_of("vocabulary", of="carrier"), size=6),
            "the vectors of 'carrier' have size 5, and size is 6; leave size out",
        ),
        (
            _features(_of("vocabulary", of="carrier"), {"steps": ["vocabulary"]}),
            "the width of 'carrier' is auto, which may be no table; write embedding: 16 in "
            r"features\.carrier, or another width",
        ),
        (
            _features(["vocabulary"], table="carier"),
            r"'carier' is no feature \(did you mean 'carri",
        ),
        (_features(["vocabulary"], table="flown"), "'flown' is the feature itself; leave it out"),
        (
            _features(_of("pool", by="count")),
            "'flown' has no step that gives ids, and so no table",
        ),
        (
            _features(
                _of("vocabulary", of="carrier"),
                {"steps": ["vocabulary"], "embedding": {"table": "flown"}},
            ),
            "'flown' uses the table of 'carrier'; name that one",
        ),
        (
            _features(_of("vocabulary", of="carier")),
            r"features\.flown: vocabulary: of: 'carier' is not a column \(did you mean 'carr",
        ),
        (
            _features(_of("vocabulary", of="time")),
            "of: column 'time' is integer, and the step gets text",
        ),
        (
            _features(_of("vocabulary", of="carrier", values=["a"])),
            "values and of exclude each other",
        ),
    ],
)
def test_what_cannot_be_shared(features, message):
    with pytest.raises(errors.UsageError, match=message):
        make(features, columns=COLUMNS)
