"""The command line with fake stages below one storage root."""

import fcntl
import json
import subprocess
import sys
import termios

from tests.pipeline.process_help import ROOT, child_environment, wait_until
from tests.support import commands

FAKE = "tests.pipeline.fake_launch"
RUN = "by-test"


class Launch:
    """Runs the command line with fake stages below one storage root."""

    def __init__(self, root):
        self.root = root
        self.started = []

    def start(
        self,
        *arguments,
        run=RUN,
        environment=None,
        output=None,
        before=(),
    ):
        """Starts the command; its output can be read while it runs, or goes to a terminal."""
        process = subprocess.Popen(
            [*before, sys.executable, "-m", FAKE, *self._words(arguments, run)],
            cwd=ROOT,
            env={**child_environment(), **(environment or {})},
            stdin=output,
            stdout=output or subprocess.PIPE,
            stderr=output or subprocess.PIPE,
            text=True,
            start_new_session=True,
            # Makes the terminal its own.
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if output else None,
        )
        self.started.append(process)
        return process

    def run(self, *arguments, code=0, run=RUN, environment=None, module=FAKE):
        """Runs the command to its end; returns its two outputs."""
        done = commands.run(module, *self._words(arguments, run), environment=environment)
        assert done.returncode == code, done
        return done.stdout, done.stderr

    def _words(self, arguments, run):
        named = [f"--run={run}"] if run else []
        storage = f"--storage={self.root}"
        return ["--config=mnist", storage, "--set=train.steps=20", *named, *arguments]

    def of_run(self, module, code=0, run=RUN):
        """Runs a command about a run; returns what it says."""
        done = commands.run(module, f"--storage={self.root}", f"--run={run}")
        assert done.returncode == code, done
        return done.stdout + done.stderr

    def end(self, process, code):
        out, err = process.communicate(timeout=120)
        assert process.returncode == code, (out, err)
        return out, err

    def script(self, run=RUN, **plays):
        self.folder(run).mkdir(parents=True, exist_ok=True)
        script = {name.replace("_", "-"): behaviours for name, behaviours in plays.items()}
        (self.folder(run) / "script.json").write_text(json.dumps(script))

    def folder(self, run=RUN):
        return self.root / "runs" / run

    def record(self, run=RUN):
        return json.loads((self.folder(run) / "run.json").read_text())

    def pids(self, run=RUN):
        notes = self.folder(run).glob("attempts-*")
        lines = [line for path in notes for line in path.read_text().splitlines()]
        return [int(line.split()[0]) for line in lines]

    def wait_for(self, *files, run=RUN):
        wait_until(lambda: all((self.folder(run) / file).exists() for file in files))
