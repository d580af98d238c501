"""A run under the real launcher, in which `injected.Faults` do what they are told."""

from __future__ import annotations

import pathlib

from pipeline.faults import launched
from tests.pipeline.process_help import ROOT, child_environment


class LaunchedRun(launched.LaunchedRun):
    """One run of this checkout."""

    def __init__(self, storage: pathlib.Path, name: str, config_path: str, settings: list[str]):
        words = [f"--config={config_path}", *(f"--set={setting}" for setting in settings)]
        environment = {**child_environment(), "PIPELINE_FAULTS": str(storage / "runs" / name)}
        super().__init__(storage, name, words, environment=environment, folder=ROOT)

    def set_faults(self, faults: list[dict], pace: float) -> None:
        """Sets what `injected.Faults` does in this run."""
        pathlib.Path(self.run.path).mkdir(parents=True, exist_ok=True)
        self.run.write("faults.json", {"faults": faults, "pace": pace})

    def set_pace(self, pace: float) -> None:
        """Changes the pause after each step, in seconds, while the run continues."""
        self.run.write("pace.json", {"pace": pace})
