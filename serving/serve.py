"""Answers TensorFlow Serving's REST API with the exported model of a run, to try it out.

    estimator-pipeline serve --run=NAME [--port=8501]     the newest run without --run
    make serve [RUN=name] [PORT=8501] [EXPORT=best]

It is for this machine alone, and prints a request to begin with; Ctrl-C ends it. What it answers is
what TensorFlow Serving answers for the same SavedModel, but it also refuses rows that break the
rules of the config. Starts in about five seconds.
"""

from __future__ import annotations

from pipeline import cli, versions
from pipeline.config import own_input
from pipeline.records import builds
from pipeline.reports import better_model
from pipeline.runs import exported, run_search
from serving.rest import session

_RUN, _CONFIG, _STORAGE = cli.run_flags()
_EXPORT = cli.export_flag(exported.KINDS)
_PORT = cli.port_flag(8501)


def main() -> None:
    """Finds the model and hands over."""
    versions.require_estimators()
    run = run_search.find_run(_STORAGE.value, _RUN.value, _CONFIG.value, trained=True)
    job = run.read_config(import_steps=False)
    own_input.refuse(job, "serve", instead=exported.ELSEWHERE)
    export = exported.find(run, _EXPORT.value)
    records = builds.find_run_build(_STORAGE.value, run, job.name)
    if note := better_model.describe(run, export.step, "make serve EXPORT=best"):
        print(note, flush=True)
    session.serve(job, export, port=_PORT.value, records_path=records)


if __name__ == "__main__":
    cli.run(main, outlives_reader=True, native_log="3")
