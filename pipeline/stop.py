"""Asks a run to end: it saves, evaluates and exports what it has learned, then ends with exit 0.

  python -m pipeline.stop --run=NAME           the newest run without --run
  make stop [RUN=name]

Works from any host that sees the run folder. `make train` with the same RUN= goes on later.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, errors, run_folder

_RUN = flags.DEFINE_string("run", None, "Name of the run; the newest one if empty.")
_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written.")


def main() -> None:
    """Writes the stop file."""
    run = run_folder.find_run(_STORAGE.value, _RUN.value or None)
    stop(run)
    print(f"run {run.name}: asked to stop; it saves, evaluates and exports before it ends")


def stop(run: run_folder.RunFolder) -> None:
    """Asks `run` to end. Raises `UsageError` if it has ended already."""
    record = run.read("run.json") or {}
    if run.read(run_folder.TRAINING_DONE) or record.get("status") in ("done", "stopped", "failed"):
        raise errors.UsageError(
            f"run {run.name!r}: is not training ({record.get('status', 'ended')}); nothing to stop"
        )
    run.write(run_folder.STOP, {"reason": "stop requested"})


if __name__ == "__main__":
    cli.run(main)
