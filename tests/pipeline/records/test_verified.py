"""What is remembered of shards that were read whole, over starts of a run."""

from __future__ import annotations

import pytest

from pipeline.records import verified
from pipeline.runs.run_folder import RunFolder


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


def test_a_shard_is_known_as_the_version_and_the_checksum_that_were_found(run):
    known = verified.Verified(run, "all")
    assert not known.knows("a/train-0", "1", "abcd")
    known.add("a/train-0", "1", "abcd")
    known.save()
    known = verified.Verified(run, "all")
    assert known.knows("a/train-0", "1", "abcd")
    for other in (("b/train-0", "1", "abcd"), ("a/train-0", "2", "abcd"), ("a/train-0", "1", "0")):
        assert not known.knows(*other)
    assert not verified.Verified(run, "only checksums").knows("a/train-0", "1", "abcd")


def test_a_kill_costs_half_a_minute_at_most(run):
    now = [0.0]
    known = verified.Verified(run, "all", clock=lambda: now[0])
    known.add("a", "1", "x")
    now[0] = 30.0
    known.add("b", "1", "x")
    now[0] = 31.0
    known.add("c", "1", "x")
    found = verified.Verified(run, "all")
    assert [found.knows(path, "1", "x") for path in "abc"] == [True, True, False]


@pytest.mark.parametrize("content", ["", "[1]", "{}", '{"checked": "other", "shards": {}}'])
def test_a_damaged_file_is_nothing_known(run, tmp_path, content):
    (tmp_path / verified.FILE).write_text(content)
    assert not verified.Verified(run, "all").knows("a", "1", "x")


def test_one_that_cannot_be_written_does_not_matter(tmp_path):
    (tmp_path / "run").touch()
    known = verified.Verified(RunFolder(str(tmp_path / "run")), "all")
    known.add("a", "1", "x")
    known.save()


def test_what_is_forgotten_is_read_again(run):
    known = verified.Verified(run, "all")
    known.add("a", "1", "x")
    known.save()
    verified.forget(run)
    assert not verified.Verified(run, "all").knows("a", "1", "x")
