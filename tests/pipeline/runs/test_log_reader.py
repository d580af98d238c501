import pytest

from pipeline import errors, storage
from pipeline.runs import log_reader
from pipeline.runs.run_folder import RunFolder


@pytest.fixture(params=["disk", "gs"])
def run(request, tmp_path, cloud) -> RunFolder:
    """A run with logs of two processes; the same on a disk and on gs://."""
    made = RunFolder(str(tmp_path / "r") if request.param == "disk" else cloud.path("r"))
    write(made, "chief-0", "one\ntwo\n")
    write(made, "worker-1", "three\n")
    return made


def write(run: RunFolder, name: str, text: str) -> None:
    path = run.log_path(name)
    storage.makedirs(storage.parent(path))
    storage.write_text(path, text)


def test_every_line_says_who_said_it(run):
    assert list(log_reader.Logs(run).read_new_lines()) == [
        "chief-0  | one",
        "chief-0  | two",
        "worker-1 | three",
    ]


def test_the_last_lines_are_of_a_process_and_no_noise(run):
    """A failure is the last that a role has said; it is looked for at the end."""
    cuda = "E external/local_xla/cuda_fft.cc:607] Unable to register cuFFT factory: Attempting to"
    write(run, "fork-server", f"{cuda}\nready\n{cuda}")
    write(run, "worker-1", "error: no loss\nW GPU trace was not collected.\n")
    assert list(log_reader.Logs(run).read_new_lines(last=True)) == [
        "fork-server | ready",
        "chief-0     | one",
        "chief-0     | two",
        "worker-1    | error: no loss",
    ]


def test_lines_of_all_processes_are_by_time(run):
    write(run, "chief-0", "begin\n2026-01-01 10:00:00,100 I one\n2026-01-01 10:00:02,000 I three\n")
    write(
        run,
        "worker-1",
        "2026-01-01 10:00:01.500000: W two\nTraceback\n  a line of it\n"
        "2026-01-01 10:00:00,000 I a clock that was put back\nerror: last\n",
    )
    assert [line.partition(" | ")[2] for line in log_reader.Logs(run).read_new_lines()] == [
        "begin",
        "2026-01-01 10:00:00,100 I one",
        "2026-01-01 10:00:01.500000: W two",
        "Traceback",
        "  a line of it",
        "2026-01-01 10:00:00,000 I a clock that was put back",
        "error: last",
        "2026-01-01 10:00:02,000 I three",
    ]


@pytest.mark.parametrize(
    ("role", "lines"), [("worker", ["worker-1 | three"]), ("worker-1", ["three"])]
)
def test_a_role_or_one_process_can_be_asked_for(run, role, lines):
    assert list(log_reader.Logs(run, role).read_new_lines()) == lines


def test_a_role_without_a_log_is_refused_with_those_there_are(run):
    with pytest.raises(
        errors.UsageError, match=r"^ROLE=ps: no log .*; there are chief-0, worker-1"
    ):
        list(log_reader.Logs(run, "ps").read_new_lines())


def test_only_what_is_new_comes_and_lines_come_whole(run):
    logs = log_reader.Logs(run, "chief-0")
    assert list(logs.read_new_lines()) == ["one", "two"]
    write(run, "chief-0", "one\ntwo\nthr")
    assert list(logs.read_new_lines()) == []
    write(run, "chief-0", "one\ntwo\nthree\nfo")
    assert list(logs.read_new_lines()) == ["three"]
    write(run, "chief-0", "one\ntwo\nthree\nfour")
    assert list(logs.read_new_lines(last=True)) == ["four"]
    assert list(logs.read_new_lines(last=True)) == []


def test_a_log_that_was_truncated_is_read_from_its_start(run):
    logs = log_reader.Logs(run, "chief-0")
    list(logs.read_new_lines())
    write(run, "chief-0", "new\n")
    assert list(logs.read_new_lines()) == ["new"]


def test_logs_longer_than_a_part_are_whole(run):
    write(run, "chief-0", "twelve bytes\nand more of them\n")
    logs = log_reader.Logs(run, "chief-0", part_bytes=5)
    assert list(logs.read_new_lines()) == ["twelve bytes", "and more of them"]


def test_what_is_no_text_is_shown_all_the_same(tmp_path):
    run = RunFolder(str(tmp_path))
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "ps-0.log").write_bytes(b"\xff!\n")
    assert list(log_reader.Logs(run, "ps-0").read_new_lines()) == ["\N{REPLACEMENT CHARACTER}!"]


def test_following_shows_new_processes_and_ends_with_the_run(run):
    said, looks = [], []

    def wait() -> None:
        looks.append(1)
        if len(looks) == 1:
            write(run, "ps-0", "serving\n")
        else:
            write(run, "ps-0", "serving\nlast words")

    log_reader.follow(log_reader.Logs(run), said.append, lambda: len(looks) == 2, wait=wait)
    assert said[:3] == ["chief-0  | one", "chief-0  | two", "worker-1 | three"]
    assert said[3:] == ["ps-0     | serving", "ps-0     | last words"]
