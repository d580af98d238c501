import pytest

from pipeline.runs import start_patience


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, 300), ("", 300), ("3600", 3600), ("5", 300), ("soon", 300)]
)
def test_a_place_may_ask_for_more_patience_than_by_hand(given, seconds):
    environment = {} if given is None else {start_patience.VARIABLE: given}
    assert start_patience.seconds(environment) == seconds
