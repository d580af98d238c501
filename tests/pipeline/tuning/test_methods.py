"""Which trial is continued, by what all of them have reached."""

from __future__ import annotations

import dataclasses

import pytest

from pipeline.tuning import methods
from pipeline.tuning.methods import Begin, Continue, Copy, Prune, Trial
from tests.pipeline.tuning.trials import plan


def trial(number, *reached, **given):
    values = {"train.optimizer.learning_rate": 0.01, "model.params.hidden_units": [16]}
    return Trial(number, values, f"s-{number:03d}", reached, len(reached) - 1, **given)


def test_asha_begins_all_then_continues_the_best_third():
    wanted = plan(trials=6)
    assert methods.choose_next_action(wanted, [trial(0, 0.5)], ()) == Begin()
    ended = [trial(n, value) for n, value in enumerate((0.5, 0.9, 0.1, 0.8, 0.7, 0.2))]
    assert methods.choose_next_action(wanted, ended, ()) == Continue(1, 1)
    ended[1] = trial(1, 0.9, 0.95)
    assert methods.choose_next_action(wanted, ended, ()) == Continue(3, 1)
    ended[3] = trial(3, 0.8, 0.99)
    # Of two at the second rung the better one goes to the end, and then all is done.
    assert methods.choose_next_action(wanted, ended, ()) == Continue(3, 2)
    ended[3] = trial(3, 0.8, 0.99, 0.99, state="done")
    assert methods.choose_next_action(wanted, ended, ()) is None
    assert methods.find_best(wanted, ended).number == 3


def test_less_is_better_by_the_config():
    wanted = plan(trials=3, higher=False)
    ended = [trial(0, 0.5), trial(1, 0.1), trial(2, 0.9)]
    assert methods.choose_next_action(wanted, ended, ()) == Continue(1, 1)
    assert methods.find_best(wanted, ended).number == 1


def test_asha_does_not_continue_the_best_of_few_while_others_may_come():
    wanted = plan(trials=2)
    trials = [trial(0, 0.5), dataclasses.replace(trial(1), target=0)]
    assert methods.choose_next_action(wanted, trials, (1,)) is None
    assert methods.choose_next_action(wanted, [trial(0, 0.5), trial(1, 0.6)], ()) == Continue(1, 1)


def test_failed_trials_are_passed_over():
    wanted = plan(trials=3)
    ended = [trial(0, 0.9, state="failed"), trial(1, 0.5), trial(2, 0.6)]
    assert methods.choose_next_action(wanted, ended, ()) == Continue(2, 1)
    failed = [trial(n, state="failed") for n in range(3)]
    assert methods.choose_next_action(wanted, failed, ()) is None
    assert methods.find_best(wanted, failed) is None


def test_a_trial_that_has_failed_is_not_the_best():
    """Its settings, trained again, would end the same way."""
    wanted = plan(trials=3)
    trials = [trial(0, 0.9, 0.95, state="failed"), trial(1, 0.5), trial(2, 0.6)]
    assert methods.find_best(wanted, trials).number == 2
    failed = [trial(n, 0.9, state="failed") for n in range(3)]
    assert methods.find_best(wanted, failed) is None


def test_a_trial_that_stopped_early_keeps_its_value_at_later_rungs():
    wanted = plan(trials=4)
    early = trial(3, 0.9, state="done")
    ended = [trial(0, 0.5), trial(1, 0.6, 0.7), trial(2, 0.4), early]
    assert methods.find_best(wanted, ended).number == 3
    # It is the best third of the first rung, and nothing is left to train in it.
    assert methods.choose_next_action(wanted, [trial(1, 0.6), *ended[::2], early], ()) is None
    # A bad one is not among those of the second rung, where the best of three is promoted.
    ended = [trial(n, 0.5 + n / 100) for n in range(6)]
    ended += [trial(n, 0.8, 0.8 + n / 100) for n in (6, 7, 8)]
    bad = [trial(n, 0.1, state="done") for n in (9, 10, 11)]
    others = plan(trials=12)
    ended.append(trial(12, 0.8, 0.8))
    assert methods.choose_next_action(others, [*ended, *bad], ()) == Continue(8, 2)
    done = [one for one in ended if one.number != 8]
    done.append(trial(8, 0.8, 0.88, 0.9, state="done"))
    assert methods.choose_next_action(others, [*done, *bad], ()) is None


def test_the_median_counts_trials_that_stopped_early():
    others = [trial(n, 0.5, state="done") for n in range(4)]
    wanted = plan("median", trials=5)
    assert methods.choose_next_action(wanted, [*others, trial(4, 0.6, 0.4)], ()) == Prune(4)


def test_what_a_killed_search_had_begun_comes_first():
    begun = dataclasses.replace(trial(0, 0.5), target=1)
    assert methods.choose_next_action(plan(trials=6), [begun, trial(1, 0.9)], ()) == Continue(0, 1)
    assert methods.choose_next_action(plan(trials=6), [begun, trial(1, 0.9)], (0,)) == Begin()


def test_more_trials_continue_a_search_that_was_done():
    ended = [trial(0, 0.5), trial(1, 0.9, 0.9, 0.9, state="done"), trial(2, 0.1)]
    assert methods.choose_next_action(plan(trials=3), ended, ()) is None
    assert methods.choose_next_action(plan(trials=4), ended, ()) == Begin()


def test_the_median_is_of_four_others_at_the_same_rung():
    wanted = plan("median", trials=9)
    others = [trial(n, 0.5, 0.6, 0.7, state="done") for n in range(4)]
    assert methods.choose_next_action(wanted, [*others, trial(4, 0.4)], ()) == Prune(4)
    assert methods.choose_next_action(wanted, [*others, trial(4, 0.6)], ()) == Continue(4, 1)
    assert methods.choose_next_action(wanted, [*others[1:], trial(4, 0.4)], ()) == Continue(4, 1)


def test_a_population_waits_for_all_and_replaces_the_worst_quarter():
    wanted = plan("pbt", trials=4)
    behind = [trial(0, 0.5), trial(1, 0.9), trial(2, 0.1), dataclasses.replace(trial(3), target=0)]
    assert methods.choose_next_action(wanted, behind, (3,)) is None
    together = [*behind[:3], trial(3, 0.3)]
    made = methods.choose_next_action(wanted, together, ())
    assert isinstance(made, Copy)
    assert (made.parent, made.replaces) == (1, 2)
    assert methods.choose_next_action(wanted, together, ()) == made  # as after a kill
    copy = trial(4, 0.9, parent=1, replaces=2, copied_at=0)
    assert methods.choose_next_action(wanted, [*together, copy], ()) == Continue(0, 1)
    moved = [trial(0, 0.5, 0.6), *together[1:], copy]
    assert methods.choose_next_action(wanted, moved, ()) == Continue(1, 1)


def test_all_copies_are_of_the_best_quarter():
    last = set()
    for seed in range(30):
        wanted = plan("pbt", trials=12, seed=seed)
        trials = [trial(n, 0.1 * n) for n in range(12)]
        for number in range(3):
            made = methods.choose_next_action(wanted, trials, ())
            assert isinstance(made, Copy)
            assert made.replaces == number
            given = {"parent": made.parent, "replaces": number, "copied_at": 0}
            trials.append(trial(12 + number, 0.9, **given))
        assert isinstance(methods.choose_next_action(wanted, trials, ()), Continue)
        last.add(trials[-1].parent)
    assert last == {9, 10, 11}


def test_a_population_of_one_is_trained_to_the_end():
    assert methods.choose_next_action(plan("pbt", trials=1), [trial(0, 0.5)], ()) == Continue(0, 1)


@pytest.mark.parametrize("method", methods.METHODS)
def test_a_search_of_failures_ends(method):
    failed = [trial(n, state="failed") for n in range(3)]
    assert methods.choose_next_action(plan(method, trials=3), failed, ()) is None
