"""Compares two sets of records column by column, and fails if they differ more than they may.

    estimator-pipeline drift --a=flights --b=flights_june
    estimator-pipeline drift --a=flights:train --b=flights:eval

Limits are those of --config; of two splits of a shipped config's records, those of that config.

It takes a second: only the statistics in the manifests are read. Exits with 65 if a column drifted.
"""

from __future__ import annotations

import re

from absl import flags

from pipeline import cli, errors, storage
from pipeline.config import config_file
from pipeline.config.drift_config import Drift
from pipeline.console import terminal
from pipeline.records import builds, drift
from preprocessing.statistics import drift_page

_A = flags.DEFINE_string(
    "a", None, "One set of records: NAME or FOLDER/, and :SPLIT.", required=True
)
_B = flags.DEFINE_string("b", None, "Record set to compare with --a.", required=True)
_CONFIG = flags.DEFINE_string("config", "", "Config with the limits. Default: see above.")
_SET = cli.set_flag()
_STORAGE = cli.storage_flag()


def main() -> None:
    """Prints the table, writes the page, and checks the limits."""
    of = _CONFIG.value or _find_shipped_config(_A.value, _B.value)
    if _SET.value and not of:
        raise errors.UsageError(
            f"--set={_SET.value[0]}: changes a config, and these records name none; give --config="
        )
    job = config_file.load(of, _SET.value) if of else None
    limits = job.drift if job else Drift()
    if job and _CONFIG.value and job.name in {n.partition(":")[0] for n in (_A.value, _B.value)}:
        builds.find_config_build(_STORAGE.value, job, given=of)  # refuses those of another config
    elif job and not _CONFIG.value and (why := builds.compare_inputs(_STORAGE.value, job)):
        print(
            f"warning: the limits are of the shipped config {of!r}, and the records may be of "
            f"another: {why}. If so, name theirs with CONFIG=",
            flush=True,
        )
    a, b = (drift.find(name, _STORAGE.value) for name in (_A.value, _B.value))
    found = drift.compare(a, b, limits)
    print(drift.table(found, a, b))
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", f"{a.name}-{b.name}").strip("-")[-200:]
    page = storage.join(storage.make_absolute(_STORAGE.value), "drift", f"{name}.html")
    storage.makedirs(storage.parent(page))
    storage.write_text(page, drift_page.render(found, a, b))
    print(drift.check(found, terminal.display_path(page)))


def _find_shipped_config(a: str, b: str) -> str:
    """Returns the name of the shipped config whose records both sets are of, or nothing."""
    names = {given.partition(":")[0] for given in (a, b)}
    return names.pop() if len(names) == 1 and names <= set(config_file.list_shipped()) else ""


if __name__ == "__main__":
    cli.run(main)
