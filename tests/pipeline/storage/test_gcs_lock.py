"""A lock on gs://; what other hosts do, the tests write into its object."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading

import pytest

from pipeline import errors, storage
from pipeline.runs import run_lock
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import gcs_lock

OTHER = {"host": "host-b", "pid": 7, "machine": "another", "key": "k", "beats": 1}


@pytest.fixture
def path(cloud) -> str:
    return cloud.path("run/launcher.lock")


def never(*_: object) -> None:
    raise AssertionError("must not be called")


def held(path: str, **how: object) -> contextlib.AbstractContextManager[None]:
    settings = {"sleep": never, "lost": never, "is_alive": run_lock.is_alive, **how}
    return gcs_lock.hold(path, what="run 'r'", **settings)


def beat(path: str, beats: int) -> None:
    storage.write_text(path, json.dumps({**OTHER, "beats": beats}))


def test_it_is_there_while_held_and_gone_after(path, cloud):
    with held(path):
        assert json.loads(cloud.data("run/launcher.lock"))["pid"] == os.getpid()
    assert cloud.names() == []


def test_a_holder_that_gives_signs_of_life_is_not_disturbed(path, cloud):
    beat(path, 1)
    beats = iter(range(2, 9))
    with (
        pytest.raises(
            errors.UsageError, match=r"^run 'r': process 7 on host-b is working on it. W"
        ),
        held(path, sleep=lambda _: beat(path, next(beats))),
    ):
        pass
    assert json.loads(cloud.data("run/launcher.lock"))["host"] == "host-b"


def test_one_that_gives_none_is_watched_and_then_followed(path, cloud, capsys):
    beat(path, 1)
    waits = []
    with held(path, sleep=waits.append, patience=20):
        assert sum(waits) == 20
        assert json.loads(cloud.data("run/launcher.lock"))["pid"] == os.getpid()
    assert capsys.readouterr().out == (
        "run 'r': process 7 on host-b had it last; watching for 20 s\n"
    )


def test_one_that_goes_meanwhile_is_not_waited_for(path):
    beat(path, 1)
    waits = []
    with held(path, sleep=lambda _: waits.append(storage.remove(path))):
        assert len(waits) == 1


def test_a_process_of_this_machine_that_is_gone_is_not_waited_for(path):
    with held(path):
        mine = json.loads(storage.read_text(path))
    storage.write_text(path, json.dumps({**mine, "key": "k"}))
    with held(path, is_alive=lambda pid: False):
        pass


def test_of_two_that_find_it_free_one_gets_it(path, cloud):
    """The other has written between our look and our write."""
    cloud.fault("GET .*/o/.*launcher.lock", status=404)
    cloud.put("run/launcher.lock", json.dumps(OTHER).encode())
    with pytest.raises(errors.UsageError, match="process 7 on host-b is working on it"), held(path):
        pass


def test_it_is_rewritten_so_that_others_see_life_and_requests_may_fail(path, cloud):
    with held(path, beat=0.01):
        cloud.fault("POST .*/upload/", status=403, times=2)
        first = json.loads(cloud.data("run/launcher.lock"))["beats"]
        ended = threading.Event()
        while json.loads(cloud.data("run/launcher.lock"))["beats"] < first + 3:
            ended.wait(0.01)


def test_one_that_stood_still_for_too_long_learns_that_it_has_lost_it(path, cloud):
    lost = threading.Event()
    with held(path, beat=0.01, lost=lost.set):
        cloud.put("run/launcher.lock", json.dumps(OTHER).encode())
        assert lost.wait(30)
    assert json.loads(cloud.data("run/launcher.lock")) == OTHER


def test_an_answer_that_is_lost_does_not_lock_us_out(path, cloud):
    cloud.fault("POST .*/upload/.*", kind="lose_answer")
    with held(path):
        pass
    assert cloud.names() == []


def test_launchers_of_a_run_on_gs_hold_it(cloud):
    run = RunFolder(cloud.path("r"))
    with run_lock.hold(run):
        assert cloud.names() == ["r/launcher.lock"]
    assert cloud.names() == []


def test_a_chief_of_a_run_on_gs_is_alone(cloud):
    """A platform that has moved it starts it again; a launcher is told, and ends."""
    run = RunFolder(cloud.path("r"))
    storage.write_text(f"{run.path}/chief.lock", json.dumps(OTHER))
    text = r"^run 'r': chief: process 7 on host-b is working on it\. Wait"
    for how, error in (({}, errors.RetryableError), ({"is_launcher": True}, errors.UsageError)):
        cloud.fault("GET .*/o/.*chief.lock", status=404)
        with pytest.raises(error, match=text), run_lock.hold_role(run, "chief", **how):
            pass
    assert json.loads(cloud.data("r/chief.lock")) == OTHER


def test_a_chief_that_another_has_replaced_ends_without_a_save(cloud, monkeypatch):
    run, ended, codes = RunFolder(cloud.path("r")), threading.Event(), []
    monkeypatch.setattr(gcs_lock, "hold", functools.partial(gcs_lock.hold, beat=0.01))
    monkeypatch.setattr(run_lock.os, "_exit", lambda code: (codes.append(code), ended.set()))
    with run_lock.hold_role(run, "chief"):
        cloud.put("r/chief.lock", json.dumps(OTHER).encode())
        assert ended.wait(30)
    assert codes == [75]


def test_on_a_disk_there_is_no_such_object(tmp_path):
    with run_lock.hold_shared(str(tmp_path / "x"), "run 'r'"):
        assert list(tmp_path.iterdir()) == []
