"""Checks whether this machine can run jobs; each line says ok, or FIX and what to do.

  estimator-pipeline doctor --storage=output
  estimator-pipeline doctor --cluster=slurm     that it can submit jobs there

Takes a few seconds, most of them the import of TensorFlow. Exits with 0, or 64 if there is
something to fix.
"""

from __future__ import annotations

from absl import flags

from pipeline import cli, errors, places
from pipeline.launchers import base, checks

_STORAGE = flags.DEFINE_string("storage", "output", "Root of everything written, local or gs://.")
_CLUSTER = flags.DEFINE_enum("cluster", places.HERE, places.training(), "Where jobs are to run.")


def main() -> None:
    """Prints every finding, and fails if one of them needs fixing."""
    if not checks.report(base.choose(_CLUSTER.value).checks(_STORAGE.value)):
        raise errors.UsageError("some checks failed; see the lines with FIX")


if __name__ == "__main__":
    cli.run(main)
