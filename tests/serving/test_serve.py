"""The command that serves, as a process."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request

import pytest

from tests.pipeline.process_help import child_environment
from tests.trainer.commands import error_line


@contextlib.contextmanager
def _process(storage, *flags):
    arguments = [sys.executable, "-m", "serving.serve", f"--storage={storage}", *flags]
    process = subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=child_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _until(process, start):
    """Returns what the process prints up to the line that begins with `start`."""
    lines = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if line.startswith(start):
            return lines
    raise AssertionError(lines)


def test_it_answers_until_ctrl_c_and_ends_well(classifier):
    with _process(classifier.storage, "--port=0") as process:
        lines = _until(process, "try it: ")
        note, *lines = lines
        assert note.startswith("note: this is the model of the last step, 60; that of step 40 did ")
        assert f": make serve EXPORT=best RUN={classifier.run.name} STORAGE=" in note
        assert lines[0].startswith("loading /") and "/export/" in lines[0]
        url = re.match(
            r"serving (http://127\.0\.0\.1:\d+/v1/models/punctual), version 60", lines[1]
        )[1]
        body = re.search(r"curl -d '(.*)' http", lines[2])[1]
        with urllib.request.urlopen(f"{url}:predict", body.encode()) as answer:
            assert len(json.load(answer)["predictions"]) == 1
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        assert re.search(r"^POST /v1/models/punctual:predict  200  [\d.]+ ms$", rest, re.MULTILINE)
        assert "Traceback" not in rest
        assert rest.endswith("stopped\n")


def test_it_continues_when_its_output_is_not_read_until_sigterm(classifier):
    with _process(classifier.storage, "--port=0", "--export=best") as process:
        lines = _until(process, "try it: ")
        assert "version 40" in lines[1]
        url = lines[1].split()[1].rstrip(",")
        process.stdout.close()
        for _ in range(3):
            with urllib.request.urlopen(url) as answer:
                assert answer.status == 200
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.fixture
def error(commands):
    """Returns a function that returns the line that the command ends with."""

    def run(storage, *flags, code=64):
        output = commands.run("serving.serve", f"--storage={storage}", *flags, code=code)
        line = error_line(output)
        assert output.splitlines()[-1] == line
        return line

    return run


def test_a_port_that_is_taken_is_one_line(error, classifier):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = error(classifier.storage, f"--port={port}")
    assert line == f"error: --port {port}: Address already in use; choose another with --port="


def test_an_altered_export_is_not_served(error, classifier, tmp_path):
    shutil.copytree(classifier.run.path, tmp_path / "runs" / "altered")
    (tmp_path / "runs/altered/export/final/60/saved_model.pb").write_bytes(b"other")
    line = error(tmp_path, code=65)
    assert "'saved_model.pb' was altered after it was published" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--run=punctal-1"], r"run 'punctal-1': not in .* \(did you mean 'punctual-1'\?\)"),
        (["--port=70000"], "--port=70000: 70000 is not an integer in the range"),
    ],
)
def test_a_bad_request_is_one_line(error, classifier, flags, message):
    line = error(classifier.storage, *flags)
    assert re.search(message, line), line


def test_flags_are_a_contract(commands):
    listing = commands.run("serving.serve", "--help")
    assert re.findall(r"^ +--(\w+): ", listing, re.MULTILINE) == [
        "config",
        "export",
        "port",
        "run",
        "storage",
    ]
