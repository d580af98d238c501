import pytest

from pipeline import config
from pipeline.runs import start_patience


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, 300), ("", 300), ("3600", 3600), ("5", 300), ("soon", 300)]
)
def test_a_place_may_ask_for_more_patience_than_by_hand(given, seconds):
    environment = {} if given is None else {start_patience.VARIABLE: given}
    assert start_patience.seconds(environment, config.Cluster()) == seconds


@pytest.mark.parametrize(("given", "seconds"), [(None, 1800), ("60", 1800), ("3600", 3600)])
def test_a_config_may_ask_for_more_or_less_than_the_default(given, seconds):
    environment = {} if given is None else {start_patience.VARIABLE: given}
    cluster = config.Cluster(start_wait_seconds=1800)
    assert start_patience.seconds(environment, cluster) == seconds
    assert start_patience.seconds({}, config.Cluster(start_wait_seconds=2)) == 2
