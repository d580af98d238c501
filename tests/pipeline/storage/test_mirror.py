import pytest

from pipeline import errors
from pipeline.storage import mirror


def of(folder, target: str) -> mirror.Copies:
    made = mirror.Copies()
    made.add(str(folder), target)
    return made


def test_only_what_has_grown_is_copied(cloud, tmp_path):
    logs = of(tmp_path, cloud.path("logs"))
    (tmp_path / "a.log").write_bytes(b"one")
    logs.copy()
    assert cloud.data("logs/a.log") == b"one"
    cloud.api.seen.clear()
    logs.copy()
    assert not cloud.api.asked_of_storage
    with open(tmp_path / "a.log", "ab") as file:
        file.write(b"two")
    (tmp_path / "b.log").write_bytes(b"three")
    logs.copy()
    assert cloud.data("logs/a.log") == b"onetwo"
    assert cloud.data("logs/b.log") == b"three"


def test_a_file_may_be_wanted_in_several_places(cloud, tmp_path):
    logs = mirror.Copies()
    logs.add(str(tmp_path), cloud.path("here"), cloud.path("there"))
    (tmp_path / "a.log").write_bytes(b"one")
    logs.copy()
    assert cloud.names() == ["here/a.log", "there/a.log"]


def test_a_folder_that_is_not_there_yet_is_waited_for(cloud, tmp_path):
    logs = of(tmp_path / "later", cloud.path("logs"))
    logs.copy()
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a.log").write_bytes(b"one")
    logs.copy()
    assert cloud.names() == ["logs/a.log"]


def test_a_copy_that_fails_is_made_later():
    logs, made, waits = mirror.Copies(), [], iter([False, False, True])
    logs.copy = lambda: made.append(1) or 1 / 0
    logs.follow(lambda pause: next(waits))
    assert len(made) == 2


def test_the_pause_grows_with_what_a_copy_costs():
    logs, times, pauses = mirror.Copies(), iter([0.0, 3.0]), []
    logs.follow(lambda pause: pauses.append(pause) or len(pauses) == 2, lambda: next(times))
    assert pauses == [30, 60]


def test_the_last_copy_is_made_at_the_end_and_its_failure_is_reported(cloud, tmp_path):
    with mirror.keep_up(of(tmp_path, cloud.path("logs"))):
        (tmp_path / "a.log").write_bytes(b"last words")
    assert cloud.data("logs/a.log") == b"last words"
    with (
        pytest.raises(errors.UsageError, match="bucket does not exist"),
        mirror.keep_up(of(tmp_path, "gs://absent/logs")),
    ):
        pass
