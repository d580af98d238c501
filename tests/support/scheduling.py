"""Which tests run in one process, of the several that `make test` starts, and in which order."""

from __future__ import annotations

import functools
import pathlib
import re
from collections.abc import Mapping, Sequence

from xdist.scheduler import LoadFileScheduling

from tests.support import sets

# Fixtures that take minutes of training or preprocessing, which each process would do again, by the
# name of their group; and where they are known.
COSTLY: Mapping[str, tuple[str, str]] = {
    "modes": ("run_of", "e2e"),
    "finished": ("finished", "trainer"),
    "published": ("classifier|regressor", "."),
}

# Files whose slow tests take more than a minute together, the longest first, so that no worker of
# pytest begins a long file when the others have ended. Files of Slurm and the cloud, which mostly
# wait, stand between files that use the processors.
LONG: Sequence[str] = (
    "faults/test_exactly_once.py",
    "slurm/test_modes_and_losses.py",
    "faults/test_chaos.py",
    "e2e/test_deepctr.py",
    "slurm/test_real_jobs.py",
    "e2e/test_trainer_run.py",
    "e2e/test_goodput.py",
    "slurm/test_scaling.py",
    "e2e/test_shipped_jobs.py",
    "faults/test_lost_processes.py",
    "slurm/test_daemon_losses.py",
    "e2e/test_models_in_every_mode.py",
    "e2e/test_resume_matrix.py",
    "cloud/test_vertex.py",
    "e2e/test_tables_over_servers.py",
    "cloud/test_whole_job.py",
    "e2e/test_rendered_job_set.py",
    "slurm/test_arrays.py",
    "faults/test_kept_promises.py",
    "pipeline/commands/test_plan.py",
    "slurm/test_munge.py",
    "faults/test_soak.py",
    "slurm/test_limits.py",
    "trainer/migration/test_migration.py",
    "faults/test_in_place.py",
    "slurm/test_cgroups.py",
    "faults/test_scaling.py",
    "slurm/test_bad_input.py",
    "faults/test_records_in_use.py",
    "faults/test_launcher.py",
    "e2e/test_own_input.py",
    "e2e/test_own_script.py",
    "faults/test_killed_preprocessing.py",
)


@functools.cache
def find_group(path: pathlib.Path) -> str | None:
    """Returns the group of a file whose tests use a costly fixture."""
    text = path.read_text()
    for name, (fixtures, folder) in COSTLY.items():
        inside = path.is_relative_to(sets.TESTS / folder)
        if inside and re.search(rf"^ *def \w+\([^)]*\b(?:{fixtures})\b[^)]*\)", text, re.MULTILINE):
            return name
    return None


def find_rank(path: pathlib.Path) -> int:
    """Returns when a file comes: what takes long first, so that no process is alone at the end."""
    if find_group(path):
        return 0
    name = path.relative_to(sets.TESTS).as_posix()
    if name in LONG:
        return 1 + LONG.index(name)
    return len(LONG) + (1 if sets.is_heavy(path) else 2)


class Scheduling(LoadFileScheduling):
    """By files, as `--dist loadfile`, but those of a group together."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return find_group(sets.TESTS.parent / file) or file
