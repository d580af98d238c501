"""Runs a command that knows the attic: `-m tests.pipeline.launchers.attic pipeline.launch`."""

from __future__ import annotations

import runpy
import sys

from pipeline import places

PACKAGE = "tests.pipeline.launchers.attic"


def register() -> None:
    """Adds the row."""
    places.PLACES["attic"] = places.Place(
        "machines in the attic",
        launcher=f"{PACKAGE}.launcher:AtticLauncher",
        settings=f"{PACKAGE}.settings:Attic",
        jobs="attic/",
        variables={"shelf": "attic.shelf"},
        preprocessing=f"{PACKAGE}.launcher:preprocess",
    )


if __name__ == "__main__":
    register()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
