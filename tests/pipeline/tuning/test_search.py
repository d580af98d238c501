"""Searches whose trials are not trained: order, kills, failures, and what is written."""

from __future__ import annotations

import dataclasses
import json

import pytest

from pipeline import errors
from pipeline.command_line import hints
from pipeline.tuning import methods, page, result, search, trial_jobs
from tests.pipeline.tuning.trials import (
    EXAMPLES,
    SPACE,
    FakeJobs,
    FakeProcess,
    open_journal,
    plan,
    run_search,
    value,
)


def outcome(trials):
    return [(one.values, one.reached, one.state, one.parent) for one in trials]


class Killed(Exception):
    pass


@pytest.mark.parametrize("method", ["asha", "median", "pbt"])
@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_search_that_is_killed_again_and_again_has_the_same_trials(tmp_path, method, sampler):
    wanted, whole, broken = plan(method), tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    broken.mkdir()
    expected = run_search(whole, wanted, FakeJobs(), sampler=sampler)
    starts = 0
    while True:
        starts += 1
        budget = starts % 3 + 1

        def launch(trial, words):
            nonlocal budget
            budget -= 1
            if budget < 0:
                raise Killed
            return FakeProcess()

        try:
            found = run_search(broken, wanted, FakeJobs(), launch=launch, sampler=sampler)
            break
        except Killed:
            assert starts < 60
    assert starts > 3
    assert outcome(found) == outcome(expected)


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_search_that_is_killed_at_any_line_of_its_journal_ends_the_same(
    tmp_path, method, monkeypatch
):
    monkeypatch.setattr("os.fsync", lambda file: None)  # thousands of lines
    wanted, journal = plan(method, trials=6), tmp_path / "journal.jsonl"
    expected = outcome(run_search(tmp_path, wanted, FakeJobs()))
    lines = journal.read_text().splitlines(keepends=True)
    for kept in range(len(lines)):
        journal.write_text("".join(lines[:kept]))
        assert outcome(run_search(tmp_path, wanted, FakeJobs())) == expected


def test_asha_finds_the_best_of_all_for_a_third_of_the_examples(tmp_path):
    wanted = plan(trials=18)
    trials = run_search(tmp_path, wanted, FakeJobs())
    spent = search.examples(trials)
    assert spent <= 18 * EXAMPLES[-1] / 3
    assert spent == search.count_planned_examples(wanted, EXAMPLES)
    best = max(trials, key=lambda one: value(one.values, 2))
    assert methods.find_best(wanted, trials).number == best.number


def test_as_many_train_at_a_time_as_are_asked_for(tmp_path):
    alive, most = set(), 0

    class Counted(FakeProcess):
        def poll(self):
            code = super().poll()
            if code is not None:
                alive.discard(self)
            return code

    def launch(trial, words):
        nonlocal most
        process = Counted(looks=trial.number % 3 + 1)
        alive.add(process)
        most = max(most, len(alive))
        return process

    trials = run_search(tmp_path, plan(), FakeJobs(), launch=launch, parallel=2)
    assert most == 2
    assert sum(one.state == "done" for one in trials) >= 1


def test_a_trial_that_fails_is_recorded_and_the_search_continues(tmp_path):
    said: list[str] = []
    jobs = FakeJobs(broken={1: "auc is nan at step 100"})
    trials = run_search(tmp_path, plan(), jobs, said=said)
    assert trials[1].state == "failed"
    assert trials[1].error == "auc is nan at step 100"
    assert sum(one.state == "done" for one in trials) == 1
    assert any(line.startswith("trial 1: failed: auc is nan") for line in said)


def test_trials_that_all_fail_end_the_search(tmp_path):
    def launch(trial, words):
        return FakeProcess(code=65, error="raw data: no such file")

    with pytest.raises(errors.DataError, match="5 trials in a row have failed, the last one, run "):
        run_search(tmp_path, plan(), FakeJobs(), launch=launch)
    assert len(open_journal(tmp_path, plan()).trials()) == 5


def test_the_code_of_the_last_failure_is_known(tmp_path):
    one = search.Search(
        plan(trials=2),
        open_journal(tmp_path, plan(trials=2)),
        FakeJobs(),
        name="s",
        metric="auc",
        parallel=1,
        launch=lambda trial, words: FakeProcess(code=64, error="eval.metric: nope"),
        say=lambda line: None,
        sleep=lambda seconds: None,
    )
    one.run()
    assert one.failure.exit_code == 64


def test_a_trial_on_other_records_is_not_compared_with_the_others(tmp_path):
    trials = run_search(tmp_path, plan(), FakeJobs(records={4: "second"}))
    assert [one.number for one in trials if one.state == "failed"] == [4]
    assert trials[4].error == ("its records are not those of trial 0, as the raw data has changed")
    with pytest.raises(
        errors.UsageError, match=r"search 's': trial 0 was trained on records first"
    ):
        trial_jobs.refuse_other_records("second", "s", trials)
    trial_jobs.refuse_other_records("first", "s", trials)


def test_examples_of_copies_are_those_they_were_trained_on_themselves(tmp_path):
    jobs = FakeJobs(more=3)  # each is stopped three steps after its rung
    trials = run_search(tmp_path, plan("pbt"), jobs)
    assert any(one.parent is not None for one in trials)
    by_rung = [1030, 3030 - 1030, 9030 - 3030]
    made = sum(by_rung[rung] for one in trials for rung in one.facts)
    assert search.examples(trials) == made
    assert search.examples(trials, lambda one: 10_000 if one.number == 0 else 0) > made


def test_a_trial_that_continues_between_two_rungs_is_reported_as_interrupted(tmp_path):
    jobs, codes = FakeJobs(), iter([0, 0, -9])

    def launch(trial, words):
        code = next(codes, 0)
        if code:
            jobs.saved[trial.number] = 43  # it has saved, and then was killed
        return FakeProcess(code=code, error="killed by SIGKILL")

    trials = run_search(tmp_path, plan(), jobs, launch=launch)
    assert [one.interrupted for one in trials[:4]] == [(), (), (43,), ()]
    assert not any(one.interrupted for one in trials[4:])


def test_what_is_hit_from_outside_is_tried_again_and_then_left_for_the_next_start(tmp_path):
    codes = iter([75, -9])

    def launch(trial, words):
        return FakeProcess(code=next(codes, 0), error="the disk is full")

    assert not any(one.error for one in run_search(tmp_path, plan(), FakeJobs(), launch=launch))

    other = tmp_path / "other"
    other.mkdir()

    def full(trial, words):
        return FakeProcess(code=75, error="the disk is full")

    with pytest.raises(errors.RetryableError, match=r"was stopped 3 times: the disk is full"):
        run_search(other, plan(), FakeJobs(), launch=full)
    assert [one.state for one in open_journal(other, plan()).trials()] == ["open"]


def test_an_interrupt_stops_the_trials_and_says_what_is_done(tmp_path):
    started = []

    def launch(trial, words):
        if trial.number == 2:
            raise KeyboardInterrupt
        process = FakeProcess(looks=99)
        started.append(process)
        return process

    with pytest.raises(errors.StoppedError, match="stopped with 0 of 9 trials done"):
        run_search(tmp_path, plan(), FakeJobs(), launch=launch, parallel=3)
    assert all(process.stopped for process in started)


def test_copies_are_made_once_and_before_their_parent_trains_on(tmp_path):
    jobs = FakeJobs()
    trials = run_search(tmp_path, plan("pbt"), jobs)
    copies = [one for one in trials if one.parent is not None]
    assert copies
    assert [(one.number, one.parent) for one in copies] == jobs.copies
    assert all(one.reached[0] == trials[one.parent].reached[0] for one in copies)


def test_another_space_is_refused(tmp_path):
    run_search(tmp_path, plan(), FakeJobs())
    other = methods.SearchPlan("asha", 9, 3, 3, seed=5, higher=True, space=SPACE[:1])
    with pytest.raises(errors.UsageError, match=r"begun otherwise \(space model.params.hidden_un"):
        open_journal(tmp_path, other)


def test_a_line_that_was_written_in_part_is_dropped(tmp_path):
    expected = outcome(run_search(tmp_path, plan(), FakeJobs()))
    journal = tmp_path / "journal.jsonl"
    journal.write_text(journal.read_text() + '{"op_code": 4, "wor')
    assert outcome(open_journal(tmp_path, plan()).trials()) == expected
    journal.write_text("rubbish\n" + journal.read_text())
    with pytest.raises(errors.DataError, match="line 1: not a line of a search"):
        open_journal(tmp_path, plan())


@pytest.fixture
def found(tmp_path):
    wanted = plan(trials=12)
    trials = run_search(tmp_path, wanted, FakeJobs(broken={3: "auc is nan <&>"}))
    study = open_journal(tmp_path, wanted)
    return result.SearchResult(
        name="s",
        config="flights",
        metric="auc",
        plan=wanted,
        sampler="random",
        rungs=EXAMPLES,
        trials=trials,
        importance=study.importance(),
        examples=search.examples(trials),
        settings=["train.steps=9", "model.params.hidden_units=[128, 64]"],
        config_given="flights",
    )


def test_the_result_names_the_best_and_how_to_make_it_again(found):
    lines = result.lines(found)
    assert "rung 1: all 11 ledgers are equal: trained on the same records" in lines
    again = "make train CONFIG=flights SET='train.steps=9 model.params.hidden_units=[128, 64]'"
    assert f"again    {again}" in lines


def test_a_best_trial_that_its_settings_do_not_make_reports_it(found):
    assert result.lines(found)[-1].strip() == (
        "trained without pauses, records come in another order, so that the result may differ as "
        "between two seeds"
    )
    best = found.best
    others = [one for one in found.trials if one != best]
    straight = dataclasses.replace(best, reached=best.reached[-1:])
    assert dataclasses.replace(found, trials=[straight]).note == ""
    copy = dataclasses.replace(best, parent=others[0].number)
    note = dataclasses.replace(found, trials=[copy]).note
    assert note.startswith(
        f"trial {best.number} began as a copy of trial {others[0].number}, which"
    )


def test_trials_are_counted_by_what_became_of_them(found, tmp_path):
    begun = methods.Trial(number=12, run="s-012", values=found.trials[0].values)
    first = found.trials[1]
    cut = dataclasses.replace(first, facts={0: {**first.facts[0], "interrupted": [43]}})
    more = dataclasses.replace(found, trials=[*found.trials[:1], cut, *found.trials[2:], begun])
    done = sum(one.state == "done" for one in found.trials)
    assert result.lines(more)[0].startswith(
        f"13 trials: {done} trained to the end, {11 - done} paused, 1 begun, 1 failed; "
    )
    states = [one["state"] for one in more.to_json()["trials"]]
    assert "open" not in states
    assert states[3] == "failed"
    assert states[12] == "begun"
    assert "interrupted at step 43" in page.render(more, str(tmp_path))


def test_failed_trials_leave_less_to_train_on():
    wanted = plan(trials=9)
    assert search.count_planned_examples(wanted, EXAMPLES) == 9 * 1000 + 3 * 2000 + 6000
    failed = [methods.Trial(number=n, run="", values={}, state="failed") for n in range(3)]
    assert search.count_planned_examples(wanted, EXAMPLES, failed) == 6 * 1000 + 2 * 2000 + 6000
    assert search.count_planned_examples(plan("full", trials=9), EXAMPLES, failed) == 6 * 9000


def test_ledgers_that_differ_are_reported_with_their_examples(found):
    apart = result.SameRecords(1, 3, 3, 3, (77_056, 77_312))
    assert str(apart).endswith(
        "3 different ledgers of 3 trials, which stopped after 77,056 to 77,312 examples"
    )
    assert str(result.SameRecords(1, 3, 3, 2, (5, 5))).endswith("2 different ledgers of 3 trials")


def test_the_result_names_commands_as_the_search_was_started(found, monkeypatch):
    monkeypatch.setenv(hints.VIA, "command")
    settings = "--set=train.steps=9 --set='model.params.hidden_units=[128, 64]'"
    again = f"estimator-pipeline train --config=flights {settings}"
    assert f"again    {again}" in result.lines(found)
    content = json.loads(json.dumps(found.to_json()))
    assert content["best"]["value"] == max(
        one["rungs"][-1]["value"] for one in content["trials"] if one["state"] == "done"
    )
    assert content["examples"] == sum(
        one["rungs"][-1]["examples"] for one in content["trials"] if one["rungs"]
    )
    assert found.importance == {}


def test_keys_are_compared_once_the_best_part_is_not_one_or_two_trials(tmp_path):
    wanted = plan("full", trials=20)
    run_search(tmp_path, wanted, FakeJobs())
    found = open_journal(tmp_path, wanted).importance()
    assert sum(found.values()) == pytest.approx(1) and set(found) == {
        one.key for one in wanted.space
    }


def test_the_page_shows_every_trial_and_escapes_what_it_quotes(found, tmp_path):
    text = page.render(found, str(tmp_path))
    assert text.count("s-0") >= len(found.trials)
    assert "auc is nan &lt;&amp;&gt;" in text
    for title in ("Best so far", "What matters", "Parallel coordinates", "The same records"):
        assert title in text
    assert "<script" not in text


@pytest.mark.parametrize("count", [0, 1])
def test_pages_of_nothing_can_be_written(found, tmp_path, count):
    few = dataclasses.replace(found, trials=found.trials[:count], importance={})
    assert "Search s" in page.render(few, str(tmp_path))
    json.dumps(few.to_json())
