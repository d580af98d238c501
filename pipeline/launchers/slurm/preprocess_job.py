"""Preprocessing as a job of one task, with as many processes as it is given processors."""

from __future__ import annotations

import time
from collections.abc import Callable

from pipeline import errors, storage
from pipeline.console import interrupts
from pipeline.launchers.preprocessing import PreprocessingRequest
from pipeline.launchers.slurm import advice, commands, script, waits
from pipeline.launchers.slurm.settings import Slurm

_MODULE = "preprocessing.main"
_POLL = 2.0  # seconds


def submit(
    request: PreprocessingRequest,
    *,
    say: Callable[[str], None] = lambda line: print(line, flush=True),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Submits the job, and follows it to its end; only shows the script of a dry run.

    Raises `UsageError` where Slurm refuses the job, and `ReportedError` with the exit code of a job
    that has failed.
    """
    job, slurm = request.config, Slurm.of(request.config)
    root = storage.make_absolute(request.storage_root)
    if storage.is_remote(root):
        log = f"slurm-preprocess-{job.name}.out"
    else:
        log = storage.join(root, "slurm", f"preprocess-{job.name}-{time.time_ns()}.out")
    cpus = max(request.num_workers, slurm.cpus)
    text = script.render_one(
        slurm,
        f"preprocess-{job.name}",
        [
            "-m",
            "pipeline.run_module",
            _MODULE,
            *request.arguments,
            f"--storage={root}",
            f"--num_workers={cpus}",
        ],
        cpus=cpus,
        output=script.HERE if request.dry_run else log.replace("%", "%%"),
        folder=None,
    )
    if request.dry_run:
        say(text.rstrip())
        return
    commands.require()
    storage.makedirs(storage.parent(log))
    key = "NUM_WORKERS" if request.num_workers > slurm.cpus else "slurm.cpus"
    try:
        number = commands.submit(text)
    except errors.UsageError as error:
        raise errors.UsageError(advice.adapt_to_one_task(str(error), key)) from None
    say(f"Slurm job {number}, which says the same in {log}")
    try:
        _follow(number, log, key, say=say, sleep=sleep)
    except KeyboardInterrupt:
        if interrupts.wants_to_cancel(f"Slurm job {number}"):
            commands.cancel(number)
            raise errors.StoppedError(f"Slurm job {number} is cancelled") from None
        raise errors.StoppedError(f"Slurm job {number} keeps running") from None


def _follow(
    number: str,
    log: str,
    key: str,
    *,
    say: Callable[[str], None],
    sleep: Callable[[float], None],
) -> None:
    """Says what the job says, until it has ended; its processors are chosen with `key`. Raises the
    error of one that failed."""
    before, read = "", 0
    while True:
        state, reason = commands.state(number)
        prospect = waits.find_prospect(number, state, reason)
        if prospect.text != before:
            say(f"Slurm: {advice.adapt_to_one_task(prospect.text, key)}")
        before = prospect.text
        read = _say_new(log, read, say, whole=state in commands.ENDED)
        if state in commands.ENDED:
            break
        if prospect.never is not None:
            commands.cancel(number)
            raise errors.UsageError(advice.adapt_to_one_task(str(prospect.never), key))
        sleep(_POLL)
    exit_code = commands.exit_of(number)
    code, _, signal = exit_code.partition(":")
    if state == "COMPLETED" and code in ("", "0"):
        return
    if code not in ("", "0"):
        raise errors.ReportedError(int(code))
    how = f" by signal {signal}" if signal not in ("", "0") else ""
    raise errors.RetryableError(
        f"Slurm job {number} ended as {state.lower()}{how}. Run the same command again."
    )


def _say_new(log: str, start: int, say: Callable[[str], None], *, whole: bool) -> int:
    """Says the lines of a log from a byte on, the last one too if it is `whole`; returns the byte
    of the next."""
    if not storage.exists(log):
        return start
    with storage.open_file(log) as file:
        file.seek(start)
        text = file.read()
    end = len(text) if whole else text.rfind(b"\n") + 1
    for line in text[:end].decode(errors="replace").splitlines():
        say(line)
    return start + end
