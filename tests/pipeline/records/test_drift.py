"""Two sets of records are compared column by column, and judged by the limits of the config."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re

import numpy as np
import pytest

from pipeline import config, errors
from pipeline.config.drift_config import Drift
from pipeline.records import drift
from preprocessing.build import job
from preprocessing.statistics import drift_page
from tests.preprocessing import tables
from tests.support.drifted import make_records


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drift")
    make_records(folder, "before")
    make_records(folder, "after", shift=15.0, missing=80, word="m")
    return folder


def _compare(root, a: str, b: str, **limits):
    sides = drift.find(a, str(root)), drift.find(b, str(root))
    return drift.compare(*sides, Drift.model_validate(limits)), sides


def test_what_changed_is_found_the_worst_first(root):
    found, sides = _compare(root, "before", "after")
    assert [(one.column, one.drifted) for one in found] == [
        ("name", True),
        ("size", True),
        ("id", False),
        ("label", False),
    ]
    by_name = {one.column: one for one in found}
    assert by_name["name"].distance.middle == 1.0 and by_name["name"].measure == "JS"
    assert by_name["name"].missing[0] == 0 and abs(by_name["name"].missing[1] - 0.2) < 0.05
    size = by_name["size"]
    assert size.measure == "KS" and abs(size.distance.middle - 0.3) < 0.1
    text = drift.table(found, *sides)
    assert "KS 0." in text and " ± 0." in text and text.count("  drifted") == 2
    with pytest.raises(errors.DataError, match=r"2 of 4 columns have drifted: name, size\. See p"):
        drift.check(found, "page")


def test_splits_of_one_set_do_not_drift(root):
    found, _ = _compare(root, "before:train", "before:eval")
    assert not any(one.drifted for one in found)
    drift.check(found, "page")


def test_limits(root):
    loose = {"distance": 1.0, "missing": 0.5}
    found, _ = _compare(root, "before", "after", columns={"name": loose}, ignore=["size"])
    assert [one.column for one in found if one.drifted] == [] and len(found) == 3
    found, _ = _compare(root, "before", "after", columns={"name": {"distance": 1.0}})
    assert {one.column for one in found if one.drifted} == {"name", "size"}, "missing values"
    with pytest.raises(errors.UsageError, match=r"drift: 'nmae' is not a column .* mean 'name'"):
        _compare(root, "before", "after", ignore=["nmae"])


def test_folders_and_what_is_not_there(root):
    found, _ = _compare(root, "before", f"{root}/records/after:eval")
    assert any(one.drifted for one in found)
    with pytest.raises(
        errors.DataError, match=r"no records 'absent' below .*: make prep.* CONFIG=co"
    ):
        drift.find("absent", str(root))
    with pytest.raises(errors.DataError, match="no manifest"):
        drift.find(f"{root}/absent", str(root))
    with pytest.raises(errors.DataError, match="split 'test' has no records"):
        drift.find("before:test", str(root))


def test_columns_that_came_went_or_changed_their_type(root, tmp_path):
    columns = {
        "id": {"type": "string"},
        "other": {"type": "int64"},
        "label": {"type": "int64", "vocabulary": {}},
    }
    lines = "\n".join(f"x{i},{i},{i % 2}" for i in range(50))
    (tmp_path / "in.csv").write_text(f"id,other,label\n{lines}\n")
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(tables.make_config(tmp_path / "in.csv", columns), str(tmp_path))
    found, sides = _compare(root, "before", f"{tmp_path}/records/table")
    problems = {one.column: one.problem for one in found if one.drifted}
    assert problems["id"].startswith("int64 in before, string in ")
    assert problems["name"] == problems["size"] == "only in A (before)"
    assert problems["other"].startswith("only in ") and "label" not in problems
    rows = [line.split(maxsplit=1) for line in drift.table(found, *sides).splitlines()]
    assert ["name", "drifted: only in A (before)"] in rows


def _counted(root, name: str, first: int, **of_code) -> None:
    columns = {"code": {"type": "int64", **of_code}, "label": {"type": "int64"}}
    lines = "\n".join(f"{first + i % 5},{i % 2}" for i in range(400))
    (root / f"{name}.csv").write_text(f"code,label\n{lines}\n")
    made = tables.make_config(root / f"{name}.csv", columns)
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made.model_copy(update={"name": name}), str(root))


def test_numbers_are_compared_though_one_side_has_no_vocabulary_of_them(tmp_path):
    _counted(tmp_path, "with", 0, vocabulary={})
    _counted(tmp_path, "without", 100)
    for pair in (("with", "without"), ("without", "with")):
        found, _ = _compare(tmp_path, *pair)
        assert [(one.measure, one.drifted) for one in found] == [("KS", True), ("KS", False)]


def test_what_the_statistics_cannot_tell_is_undecided(root):
    """As with manifests of earlier versions, whose percentiles of narrow numbers are all alike."""
    sides = []
    for name, quantiles in (("before", (5.0,) * 100 + (5.4,)), ("after", (5.0,) * 99 + (5.4,) * 2)):
        side = drift.find(name, str(root))
        size = side.column("size").model_copy(
            update={"min": 5.0, "max": 5.4, "quantiles": quantiles, "quantile_bits": 2}
        )
        statistics = side.contents.statistics["train"]
        changed = statistics.model_copy(update={"columns": {**statistics.columns, "size": size}})
        contents = side.contents.model_copy(update={"statistics": {"train": changed}})
        sides.append(dataclasses.replace(side, contents=contents))
    limits = Drift.model_validate({"ignore": ["name", "id", "label"]})
    (size,) = found = drift.compare(*sides, limits)
    assert (size.drifted, size.undecided) == (False, True)
    assert drift.table(found, *sides).endswith("undecided")
    assert drift.check(found, "page") == (
        "no column has drifted for certain; undecided, because their distance is known only "
        "roughly: size. See page"
    )
    page = drift_page.render(found, *sides)
    assert "<small>undecided</small>" in page and "; 1 are undecided" in page


def test_columns_that_identify_rows_have_no_distribution(root):
    """A new dump has other ids: all would have drifted, in any set."""
    sides = [drift.find(name, str(root)) for name in ("before", "after")]
    keyed = [
        dataclasses.replace(side, contents=side.contents.model_copy(update={"key": ("id",)}))
        for side in sides
    ]
    names = {one.column for one in drift.compare(*keyed, Drift())}
    assert names == {"name", "size", "label"}
    wanted = Drift.model_validate({"columns": {"id": {"distance": 0.1}}})
    assert "id" in {one.column for one in drift.compare(*keyed, wanted)}


def test_an_image_is_no_number(root):
    side = drift.find("before", str(root))
    image = config.Column(type="image")
    columns = {**side.contents.columns, "size": image}
    other = dataclasses.replace(
        side, contents=side.contents.model_copy(update={"columns": columns})
    )
    (size,) = (one for one in drift.compare(side, other, Drift()) if one.column == "size")
    assert size.drifted and size.problem == "float32 in before, image in before"


def _lists(root, name: str, emptied: float) -> None:
    """Makes records of 400 lists of 1 to 5 words, a share of which is emptied."""
    rng = np.random.default_rng(len(name))
    lines = []
    for i in range(400):
        words = [f"w{word}" for word in rng.integers(0, 3, rng.integers(1, 6))]
        lines.append(f"{'|'.join([] if rng.random() < emptied else words)},{i % 2}")
    (root / f"{name}.csv").write_text("\n".join(["tags,label", *lines]) + "\n")
    tags = {"type": "string", "list": True, "max_items": 9, "separator": "|", "vocabulary": {}}
    columns = {"tags": tags, "label": {"type": "int64", "vocabulary": {}}}
    made = tables.make_config(root / f"{name}.csv", columns, csv={"missing": []})
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made.model_copy(update={"name": name}), str(root))


def test_lists_that_lost_their_items_have_drifted(tmp_path):
    """What items are left are those there were: only how many there are a row has changed."""
    _lists(tmp_path, "whole", 0.0)
    _lists(tmp_path, "emptied", 0.5)
    found, sides = _compare(tmp_path, "whole", "emptied")
    tags = found[0]
    assert tags.column == "tags" and tags.drifted and not found[1].drifted
    assert tags.distance.least < tags.limit and tags.missing == (0.0, 0.0)
    assert abs(tags.lengths.middle - 0.5) < 0.1
    assert re.search(r"drifted: items a row KS 0\.\d+ ± 0\.\d+, limit", drift.table(found, *sides))
    page = drift_page.render(found, *sides)
    assert "<figcaption>items a row</figcaption><svg" in page
    assert "<dt>distance of items a row</dt><dd>KS 0." in page
    found, _ = _compare(tmp_path, "whole", "emptied", columns={"tags": {"lengths": 0.7}})
    assert not any(one.drifted for one in found)
    found, _ = _compare(tmp_path, "whole", "emptied", lengths=0.7)
    assert not any(one.drifted for one in found)


def test_lists_of_which_all_are_empty_have_drifted(tmp_path):
    _lists(tmp_path, "whole", 0.0)
    _lists(tmp_path, "none", 1.0)
    found, sides = _compare(tmp_path, "whole", "none")
    assert found[0].drifted and "no values; items a row KS 1.000" in drift.table(found, *sides)


def _with_infinite(root, name: str, share: float) -> None:
    """Makes records of 400 numbers, a share of which is infinite."""
    rng = np.random.default_rng(len(name))
    sizes = ["inf" if i < share * 400 else f"{rng.uniform():.4f}" for i in range(400)]
    lines = "\n".join(f"{size},{i % 2}" for i, size in enumerate(sizes))
    (root / f"{name}.csv").write_text(f"size,label\n{lines}\n")
    columns = {"size": {"type": "float32", "max": float("inf")}, "label": {"type": "int64"}}
    made = tables.make_config(root / f"{name}.csv", columns)
    with contextlib.redirect_stdout(io.StringIO()):
        job.run(made.model_copy(update={"name": name}), str(root))


def test_numbers_that_became_infinite_have_drifted(tmp_path):
    for name, share in (("whole", 0.0), ("broken", 0.3), ("all", 1.0)):
        _with_infinite(tmp_path, name, share)
    found, sides = _compare(tmp_path, "whole", "broken")
    size, label = found
    assert (size.column, size.drifted, label.drifted) == ("size", True, False)
    assert size.not_finite[0] == 0 and abs(size.not_finite[1] - 0.3) < 0.05 and size.severity > 1
    assert re.search(
        r"drifted: not finite in A 0\.00%, in B [23]\d\.\d\d%, limit", drift.table(found, *sides)
    )
    with pytest.raises(errors.DataError, match="1 of 2 columns have drifted: size"):
        drift.check(found, "page")
    page = drift_page.render(found, *sides)
    assert re.search(r"<dt>not finite in B</dt><dd>[23]\d\.\d\d%</dd>", page)
    found, _ = _compare(tmp_path, "whole", "broken", columns={"size": {"missing": 0.5}})
    assert not any(one.drifted for one in found)
    found, sides = _compare(tmp_path, "whole", "all")
    assert "drifted: no finite values; not finite in A" in drift.table(found, *sides)
