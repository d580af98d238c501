"""Compares runs with run A: metrics on the same records, and what differs in config, data and code.

    estimator-pipeline compare --a=RUN --b=RUN[,RUN,...]
    make compare A=run B=run,run [SPLIT=test] [SLICES=origin,carrier] [METRIC=auc] [FAIL_IF=worse]

Both models predict the same records, and the 95 % intervals of their differences are paired.
With --fail_if=worse it exits with 70 if a B is certainly worse than A by eval.metric or --metric.
A B that cannot be compared does not stop the others; the exit code is that of its error, then.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from absl import flags

from pipeline import cli, errors, storage, versions
from pipeline.config import own_input
from pipeline.console import terminal
from pipeline.records import builds, manifest, quarantine, shard_check
from pipeline.reports import differences
from pipeline.reports import facts as facts_of
from pipeline.runs import resuming, run_record, run_search
from trainer.checkpoints import checkpoint_files
from trainer.comparison import pairing
from trainer.comparison.pairing import ComparedRun, Pairs
from trainer.evaluation import request

if TYPE_CHECKING:  # they import TensorFlow
    from trainer.comparison.predictions import SplitPredictions
    from trainer.comparison.result import Comparison

_A = flags.DEFINE_string("a", None, "Name of the run to compare with.", required=True)
_B = flags.DEFINE_list("b", None, "Runs that are compared with it.", required=True)
_STORAGE = cli.storage_flag()
_SPLIT = flags.DEFINE_enum("split", "eval", ["eval", "test"], "The records to compare them on.")
_SLICES = cli.slices_flag()
_CHECKPOINT = cli.checkpoint_flag()
_METRIC = flags.DEFINE_string("metric", None, "The metric that decides; eval.metric of A if empty.")
_FAIL_IF = flags.DEFINE_enum("fail_if", None, ["worse"], "Exit with 70 if a B is certainly worse.")


def main() -> None:
    """Prints the tables, writes the page, and fails if a B was not compared, or if asked to."""
    versions.require_estimators()
    name_of_a, *others = names = _read_names()
    a = _load_side(name_of_a)
    slices = [name for name in _SLICES.value if name] or list(a.job.eval.slices)
    request.check_slices(slices, a.job)
    a.contents.split(_SPLIT.value)
    refused: dict[str, errors.PipelineError] = {}
    pairs: dict[str, tuple[ComparedRun, Pairs]] = {}
    for name in others:
        with _collect_refusal(name, refused):
            pairs[name] = _pair(a, name)
    if not pairs:
        raise next(iter(refused.values()))
    from trainer.comparison import page, predictions
    from trainer.monitoring import tf_logging

    tf_logging.configure_logging(verbose=False)

    of_a = predictions.predict(a, _SPLIT.value, _CHECKPOINT.value or None, slices=slices)
    found = []
    for name, (b, shared) in pairs.items():
        with _collect_refusal(name, refused):
            found.append(_compare((a, b), shared, of_a))
    if not found:
        raise next(iter(refused.values()))
    refused = {name: refused[name] for name in others if name in refused}
    print("\n".join(page.format_lines(found, refused)))
    path = _prepare_page_path(page.build_file_name(names, _SPLIT.value, _CHECKPOINT.value or None))
    storage.write_text(path, page.render_page(found, refused))
    shown = terminal.display_path(path)
    print(f"page in {shown}")
    worse = [page.attribute_verdict(one, len(others)) for one in found if one.verdict == "worse"]
    worse = worse if _FAIL_IF.value else []
    if refused:
        raise errors.build_from_exit_code(
            next(iter(refused.values())).exit_code,
            f"--b: {len(refused):,} of {len(others):,} runs could not be compared "
            f"({', '.join(refused)}), see {shown}. Follow what it says, or leave them out"
            + "".join(f"; {line}" for line in worse),
        )
    if worse:
        raise errors.ModelError(f"{'; '.join(worse)}. See {shown}")


@contextlib.contextmanager
def _collect_refusal(name: str, refused: dict[str, errors.PipelineError]) -> Iterator[None]:
    """Keeps in `refused` why run `name` cannot be compared, so that others still are."""
    try:
        yield
    except errors.StoppedError:
        raise
    except errors.PipelineError as error:
        refused[name] = error


def _pair(a: ComparedRun, name: str) -> tuple[ComparedRun, Pairs]:
    """Returns run `name`, and the records that it is compared with A on."""
    b = _load_side(name)
    b.contents.split(_SPLIT.value)
    pairing.check_alike(a, b)
    return b, pairing.pair(a, b, _SPLIT.value)


def _compare(
    sides: tuple[ComparedRun, ComparedRun], pairs: Pairs, of_a: SplitPredictions
) -> Comparison:
    """Returns the comparison of A with one B. Raises `UsageError` without the metric that has to
    decide."""
    from trainer.comparison import comparing, page, result

    a, b = sides
    facts = [facts_of.gather(side.run) for side in sides]
    compared = comparing.compare(
        sides,
        pairs,
        of_a,
        split=_SPLIT.value,
        checkpoint=_CHECKPOINT.value or None,
        metric=_METRIC.value or None,
        differing=result.Differing(
            differences.compare_configs(a.job, b.job),
            differences.compare_code(*facts),
            differences.compare_statistics(a.contents, b.contents),
            differences.compare_outcomes(*facts),
        ),
    )
    if compared.metric is None and (_FAIL_IF.value or _METRIC.value):
        raise errors.UsageError(page.describe_verdict(compared))
    return compared


def _read_names() -> list[str]:
    """Returns A, and every B. Raises `UsageError` if a name is given twice."""
    names = [_A.value, *(name.strip() for name in _B.value if name.strip())]
    twice = next((name for n, name in enumerate(names) if name in names[:n]), None)
    if twice is not None or len(names) < 2:
        given = "--b: names no run" if twice is None else f"--a and --b: name {twice!r} twice"
        raise errors.UsageError(f"{given}; name two or more runs. make runs lists them")
    return names


def _load_side(name: str) -> ComparedRun:
    """Returns a run and its records. Raises `UsageError` for a run that does not exist or never
    trained, `DataError` for records that are gone."""
    run = run_search.find_run(_STORAGE.value, name)
    job = run.read_config()
    own_input.refuse(job, "compare", instead="make report has the evaluations made")
    if run_record.read(run) is None:
        raise resuming.build_record_error(run)
    wanted = _check_single(_CHECKPOINT.value or None)
    (path,) = checkpoint_files.find(run.path, wanted)
    if wanted is None and path.endswith("-0"):
        raise errors.UsageError(
            f"run {name!r}: has only the checkpoint of step 0, from before it trained. Train it "
            f"with {resuming.command(run)}, or compare the untrained models with CHECKPOINT=0"
        )
    folder = builds.find_run_build(_STORAGE.value, run, job.name)
    excluded = quarantine.read(run)
    with resuming.explain_record_errors(run):
        contents = manifest.read(folder)
        manifest.check_schema(contents, job.data, folder)
        shard_check.verify(folder, contents, contents=False)
    return ComparedRun(run, job, folder, contents, excluded)


def _check_single(checkpoint: str | None) -> str | None:
    if checkpoint == "all":
        raise errors.UsageError("--checkpoint 'all': must be best or a step; one is compared")
    return checkpoint


def _prepare_page_path(name: str) -> str:
    path = storage.join(storage.make_absolute(_STORAGE.value), "compare", name)
    storage.makedirs(storage.parent(path))
    return path


if __name__ == "__main__":
    cli.run(main, native_log="3")
