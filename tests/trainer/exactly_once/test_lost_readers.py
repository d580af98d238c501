import numpy as np

from pipeline.config import config_file
from trainer.exactly_once.lost_readers import LeaseTimeouts

PATIENCE = ("cluster.watchdog_seconds=10", "cluster.watchdog_start_seconds=100")


def _timeouts(*applied):
    found = config_file.load("mnist", list(PATIENCE)).cluster
    return LeaseTimeouts(found, np.array(applied or [0, 5, 5]), now=0)


def test_looks_are_a_quarter_of_the_patience_apart():
    timeouts = _timeouts()
    assert not timeouts.is_due(2.4)
    assert timeouts.is_due(2.5)
    timeouts.find_lost(np.array([0, 0, 0]), 4)
    assert not timeouts.is_due(6.4)
    assert timeouts.is_due(6.5)


def test_a_reader_that_continues_is_not_lost():
    timeouts = _timeouts()
    for now in range(0, 1000, 9):
        assert timeouts.find_lost(np.array([0, now, now + 1]), now) == []


def test_one_that_was_seen_before_the_first_look_only_is_not_given_longer():
    timeouts = _timeouts(9, 5, 5)
    assert timeouts.find_lost(np.array([12, 6, 5]), 3) == []
    assert timeouts.find_lost(np.array([15, 6, 5]), 12) == []
    assert timeouts.find_lost(np.array([16, 6, 5]), 13) == [1]
    assert timeouts.find_lost(np.array([17, 6, 5]), 100) == [2]


def test_one_that_has_not_been_seen_for_long_is_lost_once():
    timeouts = _timeouts()
    timeouts.find_lost(np.array([0, 5, 5]), 0)
    assert timeouts.find_lost(np.array([0, 6, 6]), 8) == []
    assert timeouts.find_lost(np.array([0, 6, 7]), 17) == []
    assert timeouts.find_lost(np.array([0, 6, 8]), 18) == [1]
    assert timeouts.find_lost(np.array([0, 6, 9]), 27) == []


def test_one_that_comes_back_can_be_lost_again():
    timeouts = _timeouts()
    timeouts.find_lost(np.array([0, 5, 5]), 0)
    timeouts.find_lost(np.array([0, 6, 6]), 1)
    assert timeouts.find_lost(np.array([0, 6, 6]), 11) == [1, 2]
    assert timeouts.find_lost(np.array([0, 7, 6]), 500) == []
    assert timeouts.find_lost(np.array([0, 7, 6]), 510) == [1]


def test_one_that_starts_is_given_longer():
    timeouts = _timeouts()
    timeouts.find_lost(np.array([9, 5, 5]), 0)
    assert timeouts.find_lost(np.array([10, 5, 5]), 99) == []
    assert timeouts.find_lost(np.array([11, 5, 5]), 100) == [1, 2]


def test_the_one_that_looks_is_never_lost():
    timeouts = _timeouts()
    assert timeouts.find_lost(np.zeros(1024), 0) == []
    assert timeouts.find_lost(np.zeros(1024), 10_000) == [1, 2]
