"""Which topologies are planned for, refused or left out."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.planning import topologies
from pipeline.planning.topologies import Counts

MIRRORED, SERVED = "multi_worker_mirrored", "parameter_server"


def select(refused, *, workers=None, ps=None, strategy=SERVED):
    def check(named, size):
        assert named == strategy
        if refused(*size):
            raise errors.UsageError("cluster.key: cannot work")

    return topologies.select(
        strategy,
        Counts("workers", workers or [1, 2, 4], given=workers is not None),
        Counts("ps", ps or [1, 2], given=ps is not None),
        check=check,
    )


def test_all_that_can_be_trained_are_selected():
    found = select(lambda workers, ps: False, workers=[1, 3], ps=[1, 2])
    assert found.sizes == [(1, 1), (3, 1), (1, 2), (3, 2)] and found.left_out == []


def test_a_strategy_without_servers_has_none():
    assert select(lambda workers, ps: ps, strategy=MIRRORED).sizes == [(1, 0), (2, 0), (4, 0)]


def test_defaults_that_cannot_be_trained_are_left_out_with_the_reason():
    found = select(lambda workers, ps: ps > 1 or workers > 2)
    assert found.sizes == [(1, 1), (2, 1)]
    assert found.left_out == [
        "left out: parameter_server 4 + 1, 1 + 2, 2 + 2, 4 + 2: cluster.key: cannot work"
    ]
    found = select(lambda workers, ps: workers > 2, strategy=MIRRORED)
    assert found.left_out == ["left out: multi_worker_mirrored 4: cluster.key: cannot work"]


def test_a_default_number_of_servers_does_not_refuse_the_given_workers():
    found = select(lambda workers, ps: ps > 1, workers=[2, 3])
    assert found.sizes == [(2, 1), (3, 1)] and len(found.left_out) == 1


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"ps": [1, 2]}, "--ps=2"),
        ({"workers": [1, 8]}, "--workers=8"),
        ({"workers": [2], "ps": [2]}, "--workers=2 --ps=2"),
    ],
)
def test_a_given_number_that_cannot_be_trained_is_refused(given, named):
    with pytest.raises(errors.UsageError) as refused:
        select(lambda workers, ps: ps > 1 or workers > 4, **given)
    assert str(refused.value) == f"{named}: cluster.key: cannot work"


def test_a_config_that_no_topology_trains_is_refused():
    with pytest.raises(errors.UsageError, match=r"^cluster\.key: cannot work$"):
        select(lambda workers, ps: True)
