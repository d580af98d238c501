"""The collector of a command."""

from __future__ import annotations

import gc

import pytest

from pipeline.processes import collector


@pytest.fixture
def restored():
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def test_it_looks_less_often_but_still_looks(restored):
    collector.relax()
    assert gc.isenabled()
    assert all(now > before for now, before in zip(gc.get_threshold(), restored, strict=True))
