import contextlib
import os
import pathlib
import signal
import sys
import time

import pytest

from pipeline import errors
from pipeline.cluster import topology
from pipeline.processes.fork_client import (
    Ended,
    ForkServer,
    Spawn,
    Started,
    StopRequest,
    describe_exit,
    run_command,
)
from tests.pipeline import small_roles
from tests.pipeline.process_help import ROOT, child_environment, is_alive, wait_until

ROLES = small_roles.__name__


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "process.log")


@pytest.fixture
def server(tmp_path):
    with ForkServer(
        ROLES, log=str(tmp_path / "server.log"), environment=child_environment()
    ) as started:
        yield started


def collect(server, count, seconds=15.0):
    """Returns the next `count` events."""
    events = []
    deadline = time.monotonic() + seconds
    while len(events) < count and time.monotonic() < deadline:
        events += server.wait(0.2)
    assert len(events) == count, events
    return events


def spawn(server, log, function, *args, name="worker-0", environment=None):
    """Starts a process and returns its id."""
    server.spawn(Spawn(name, f"{ROLES}:{function}", args, log, environment or {}))
    (started,) = collect(server, 1)
    assert isinstance(started, Started) and started.name == name
    return started.pid


def test_a_package_of_the_same_name_in_the_current_folder_is_not_taken_for_ours(
    tmp_path, log, monkeypatch
):
    (tmp_path / "pipeline.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "own_role.py").write_text("def play(): print('own')")
    monkeypatch.chdir(tmp_path)
    with ForkServer(
        ROLES, log=str(tmp_path / "server.log"), environment=child_environment()
    ) as server:
        server.spawn(Spawn("worker-0", "own_role:play", (), log))
        _, ended = collect(server, 2, seconds=120.0)
    assert ended.code == 0
    assert pathlib.Path(log).read_text() == "own\n"


@pytest.mark.parametrize(
    ("function", "args", "code"),
    [
        ("nothing", (), 0),
        ("fail_with", (errors.UsageError("bad flag"),), 64),
        ("fail_with", (errors.RetryableError("preempted"),), 75),
        ("fail_with", (ValueError("a bug"),), 1),
        ("fail_with", (SystemExit(3),), 3),
        ("signal_self", (signal.SIGKILL,), -9),
        ("signal_self", (signal.SIGTERM,), -15),
    ],
)
def test_how_a_process_ended_is_reported(server, log, function, args, code):
    server.spawn(Spawn("worker-0", f"{ROLES}:{function}", args, log))
    started, ended = collect(server, 2)
    assert ended == Ended("worker-0", started.pid, code)


def test_arguments_arrive_and_output_is_appended_to_the_log(server, log):
    task = topology.Task("worker", 0, {"chief": ("h:1",), "worker": ("h:2",)})
    pathlib.Path(log).write_text("before\n")
    for text in ("one", "two"):
        server.spawn(Spawn("worker-0", f"{ROLES}:show", (text, task), log, {"PIPELINE_X": text}))
        collect(server, 2)
    assert pathlib.Path(log).read_text().splitlines() == [
        "before",
        "one worker-0 one",
        "to stderr",
        "two worker-0 two",
        "to stderr",
    ]


def test_errors_of_ours_are_one_line_and_bugs_keep_their_traceback(server, log):
    for error in (errors.DataError("shard 3: altered"), KeyError("a bug")):
        server.spawn(Spawn("worker-0", f"{ROLES}:fail_with", (error,), log))
        collect(server, 2)
    first, *rest = pathlib.Path(log).read_text().splitlines()
    assert first == "error: shard 3: altered"
    assert rest[0].startswith("Traceback") and rest[-1] == "KeyError: 'a bug'"


@pytest.mark.skipif(sys.platform != "linux", reason="names are set through prctl")
def test_a_process_is_its_own_group_with_its_own_name_and_no_input(server, log):
    pid = spawn(server, log, "sleep", name="evaluator-0")
    assert os.getpgid(pid) == pid != os.getpgid(server.pid)
    comm = pathlib.Path(f"/proc/{pid}/comm")
    wait_until(lambda: comm.read_text() == "evaluator-0\n")
    assert os.readlink(f"/proc/{pid}/fd/0") == "/dev/null"


def test_signals_reach_the_process_they_are_meant_for(server, log):
    first = spawn(server, log, "sleep", name="worker-0")
    second = spawn(server, log, "sleep", name="worker-1")
    server.signal("worker-1", signal.SIGTERM)
    assert collect(server, 1) == [Ended("worker-1", second, -15)]
    server.signal("worker-1", signal.SIGTERM)  # it is gone; no other process is hit
    server.signal("worker-0", signal.SIGKILL)
    assert collect(server, 1) == [Ended("worker-0", first, -9)]


def test_what_a_process_has_started_ends_with_it(server, log, tmp_path):
    note = tmp_path / "pid"
    pid = spawn(server, log, "breed", str(note))
    wait_until(lambda: note.exists() and note.read_text())
    grandchild = int(note.read_text())
    assert is_alive(grandchild)
    os.kill(pid, signal.SIGKILL)
    assert collect(server, 1) == [Ended("worker-0", pid, -9)]
    wait_until(lambda: not is_alive(grandchild))


def test_leaving_the_context_kills_everything(tmp_path, log):
    with ForkServer(
        ROLES, log=str(tmp_path / "server.log"), environment=child_environment()
    ) as server:
        pids = [spawn(server, log, "stubborn", name=f"ps-{i}") for i in range(3)]
        pids.append(server.pid)
    assert not any(map(is_alive, pids))


def test_when_the_server_is_killed_its_processes_die_and_the_launcher_knows(server, log):
    pid = spawn(server, log, "stubborn")
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(errors.RetryableError, match=r"is lost: killed by SIGKILL\..*resume"):
        collect(server, 1)
    wait_until(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_the_server_leaves_it_to_the_launcher_to_end(server, log, number):
    """Else what is told to end together with everybody, as when a machine shuts down, could save
    nothing."""
    before = spawn(server, log, "sleep", name="worker-0")
    os.kill(server.pid, number)
    after = spawn(server, log, "sleep", name="worker-1")
    assert is_alive(before)
    os.kill(after, number)  # those it forks are as they would be without
    assert collect(server, 1) == [Ended("worker-1", after, -number)]


def test_a_preload_that_fails_says_why(tmp_path):
    with (
        ForkServer(
            "no_such_package.anywhere",
            log=str(tmp_path / "server.log"),
            environment=child_environment(),
        ) as server,
        pytest.raises(
            errors.PipelineError,
            match=r"^cannot import no_such_package.anywhere: ModuleNotFoundError: No module named "
            r"'no_such_package'\. Log: /.*/server.log$",
        ),
    ):
        collect(server, 1)


def test_a_library_that_cannot_be_loaded_is_final(tmp_path):
    (tmp_path / "tensorflow.py").write_text('raise ImportError("libx.so: cannot open it")')
    environment = {**child_environment(), "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    log = tmp_path / "server.log"
    with (
        ForkServer("trainer.task", log=str(log), environment=environment) as server,
        pytest.raises(errors.UsageError, match=r"^tensorflow cannot be imported: libx.so: cannot "),
    ):
        collect(server, 1)


def test_a_preload_that_fails_in_many_words_is_one_line(tmp_path):
    """As TensorFlow and NumPy do, whose libraries cannot be loaded."""
    (tmp_path / "wordy.py").write_text('raise ImportError("\\nIMPORTANT\\n\\nRead on.\\n")')
    environment = {**child_environment(), "PYTHONPATH": f"{ROOT}:{tmp_path}"}
    log = tmp_path / "server.log"
    with (
        ForkServer("wordy", log=str(log), environment=environment) as server,
        pytest.raises(
            errors.PipelineError,
            match=rf"^cannot import wordy: ImportError: IMPORTANT. Log: {log}$",
        ),
    ):
        collect(server, 1)
    assert "Read on." in log.read_text()


def test_a_log_that_cannot_be_written_is_reported(tmp_path):
    with pytest.raises(errors.UsageError, match=rf"^cannot write '{tmp_path}': Is a directory\."):
        ForkServer(ROLES, log=str(tmp_path), environment=child_environment())


def test_processes_keep_the_descriptors_they_are_to_hold(tmp_path, log):
    read_end, write_end = os.pipe()
    with ForkServer(
        ROLES,
        log=str(tmp_path / "server.log"),
        environment=child_environment(),
        held=[write_end],
    ) as server:
        os.close(write_end)
        spawn(server, log, "stubborn")
        os.set_blocking(read_end, False)
        with pytest.raises(BlockingIOError):  # held open by them alone
            os.read(read_end, 1)
    assert os.read(read_end, 1) == b""
    os.close(read_end)


def test_a_stop_request_counts_signals_and_wakes_the_waiting(server):
    before = signal.getsignal(signal.SIGTERM)
    with StopRequest().install() as stop:
        collect_nothing = server.wait(0.0, also=[stop.descriptor])
        assert collect_nothing == [] and stop.count == 0
        os.kill(os.getpid(), signal.SIGTERM)
        start = time.monotonic()
        server.wait(10.0, also=[stop.descriptor])
        assert time.monotonic() - start < 5.0
        assert (stop.count, stop.name) == (1, "SIGTERM")
        stop.drain()
    assert signal.getsignal(signal.SIGTERM) is before


def test_what_comes_twice_by_itself_counts_once():
    with StopRequest().install() as stop:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP, signal.SIGTERM):
            os.kill(os.getpid(), number)
        assert (stop.count, stop.name) == (1, "SIGHUP")
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.count == 2


def test_a_command_runs_in_the_given_environment_and_its_code_comes_back():
    program = "import os, sys; sys.exit(int(os.environ['PIPELINE_CODE']))"
    with StopRequest().install() as stop:
        code = run_command(
            [sys.executable, "-c", program], environment={"PIPELINE_CODE": "65"}, stop=stop
        )
    assert code == 65


@pytest.mark.parametrize(("program", "code"), [("", -15), ("signal.signal(15, 1);", -9)])
def test_a_stop_request_ends_a_command(program, code, tmp_path):
    note = tmp_path / "pid"
    source = (
        f"import os, pathlib, signal, time; {program}"
        f"pathlib.Path({str(note)!r}).write_text(str(os.getpid())); time.sleep(60)"
    )

    def stop_soon() -> None:
        if note.exists() and note.read_text() and not stop.count:
            os.kill(os.getpid(), signal.SIGINT)

    with StopRequest().install() as stop:
        found = run_command(
            [sys.executable, "-c", source], environment={}, stop=stop, grace=0.3, poll=stop_soon
        )
    assert found == code
    assert not is_alive(int(note.read_text()))


@pytest.mark.parametrize(
    ("code", "text"),
    [(0, "exit code 0"), (75, "exit code 75"), (-9, "killed by SIGKILL"), (-99, "by signal 99")],
)
def test_ends_are_described_for_people(code, text):
    assert text in describe_exit(code)


def test_nothing_is_left_when_the_launcher_is_killed(tmp_path):
    """SIGKILL leaves no time to clean up: the kernel and the closed connection must do it."""
    note = tmp_path / "pids"
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            server = ForkServer(
                ROLES, log=str(tmp_path / "server.log"), environment=child_environment()
            )
            pids = [spawn(server, str(tmp_path / "log"), "stubborn", name=n) for n in "ab"]
            (tmp_path / "pids.tmp").write_text(" ".join(map(str, [server.pid, *pids])))
            (tmp_path / "pids.tmp").rename(note)
            time.sleep(60)
        os._exit(1)
    wait_until(note.exists)
    pids = [int(text) for text in note.read_text().split()]
    assert all(map(is_alive, pids))
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_until(lambda: not any(map(is_alive, pids)))
