"""A thread shows progress while the work is done, and ends with it."""

from __future__ import annotations

import threading

import pytest

from preprocessing.runners import worker_files


@pytest.mark.parametrize("fails", [False, True])
def test_it_looks_again_until_the_body_has_ended(tmp_path, fails):
    looks, twice = [], threading.Event()

    def show(more):
        while more():
            looks.append(threading.current_thread())
            if len(looks) > 1:
                twice.set()

    try:
        with worker_files.watch_files(str(tmp_path), show):
            assert twice.wait(30)
            if fails:
                raise KeyError
    except KeyError:
        assert fails
    assert not looks[0].is_alive() and looks[0] is not threading.current_thread()
