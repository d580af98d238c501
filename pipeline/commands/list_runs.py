"""Lists all runs of a storage, that with the newest launch first.

    estimator-pipeline runs [--config=name] [--status=done,failed] [--tag=name] [--sort=metric]
    estimator-pipeline runs --run=name --tags=baseline,-draft    gives a run a tag, takes one away
    estimator-pipeline runs --page                               writes runs.html with links

`best` is the best value of eval.metric so far; `started` is when its first launch
began, `took` how long it was running in all of them.
"""

from __future__ import annotations

import time

from absl import flags

from pipeline import cli, errors, storage
from pipeline.console import terminal
from pipeline.reports import runs_page
from pipeline.runs import run_list, run_search, tags

_CONFIG = flags.DEFINE_string("config", None, "Only runs of the config of this name or path.")
_STORAGE = cli.storage_flag()
_STATUS = flags.DEFINE_list(
    "status", [], "Only runs with these statuses, such as done, failed or running."
)
_TAG = flags.DEFINE_list("tag", [], "Only runs that have all of these tags.")
_SORT = flags.DEFINE_enum(
    "sort",
    "newest",
    ["newest", "started", "metric", "name", "status", "step", "took"],
    "What comes first: the newest launch, the newest run, the best, the name, the status, the "
    "farthest or the longest.",
)
_RUN = flags.DEFINE_string("run", None, "The run whose --tags are changed.")
_TAGS = flags.DEFINE_list("tags", [], "Tags to give to --run; a - before one removes it.")
_PAGE = flags.DEFINE_bool("page", False, "Write the list as a page, too, with reports linked.")


def main() -> None:
    """Prints the table."""
    if _RUN.value or _TAGS.value:
        _tag()
        return
    statuses = [status for status in _STATUS.value if status]
    for status in statuses:
        if status not in run_list.STATUSES:
            raise errors.UsageError(
                f"--status {status!r}: must be one of {', '.join(run_list.STATUSES)}"
                f"{errors.suggest(status, run_list.STATUSES)}"
            )
    config, others = _CONFIG.value or None, set[str]()
    if config is not None and config.endswith((".yaml", ".yml")):
        config, others = run_search.find_others(_STORAGE.value, config)
    of_name = run_list.read(_STORAGE.value, now=time.time(), config=config)
    rows = [row for row in of_name if row.name not in others]
    tagged = [tag for tag in _TAG.value if tag]
    found = run_list.select(rows, statuses=statuses, tagged=tagged, sort=_SORT.value)
    if found:
        print("\n".join(run_list.lines(found)))
    else:
        of = f" of config {config!r}" if config else ""
        of += f" with status {', '.join(statuses)}" if statuses else ""
        of += f" with tag {', '.join(tagged)}" if tagged else ""
        there = f"; there are {len(rows):,} others" if rows else ""
        print(f"no runs{of} in {terminal.display_path(_STORAGE.value)!r}{there}")
    if left_out := len(of_name) - len(rows):
        print(f"{left_out:,} of another config called {config!r}: CONFIG={config} lists them too")
    if _PAGE.value and storage.exists(storage.make_absolute(_STORAGE.value)):
        print(f"page in {terminal.display_path(runs_page.write(_STORAGE.value, found))}")


def _tag() -> None:
    if not (_RUN.value and _TAGS.value):
        raise errors.UsageError(
            "--run and --tags: give both to change the tags of a run; --tag lists runs by tag"
        )
    run = run_search.find_run(_STORAGE.value, _RUN.value, scripts=True)
    found = tags.change(run, [tag for tag in _TAGS.value if tag])
    print(f"tags of {run.name}: {', '.join(found) or 'none'}")


if __name__ == "__main__":
    cli.run(main)
