"""What the final checkpoint of a run holds: its ledger, and what the witness has counted."""

from __future__ import annotations

from pipeline.records import manifest
from tests.faults import verdict, witness
from trainer.checkpoints import checkpoint_files
from trainer.exactly_once import saved_counts
from trainer.input.dataset import RecordDataset


class Final:
    """The final checkpoint of the run of a `Rig`."""

    def __init__(self, rig, folder=None):
        folder = folder or rig.records.folder
        blocks = RecordDataset(rig.records.job, folder, manifest.read(folder)).list_blocks("train")
        saved = checkpoint_files.find_newest(str(rig.path))
        self.blocks, self.counts = blocks, saved_counts.read_counts(saved, blocks)
        self.by_name = witness.read_applied(saved)
        self.names = witness.read_names(folder, manifest.read(folder))
        self.applied = verdict.compare_applied(saved, folder, rig.records.job)

    def check(self, twice):
        """Of finished epochs no record is missing; at most `twice` were applied once more."""
        seen = self.applied
        assert not seen.never and not seen.ledger_more and not seen.ledger_never
        assert seen.more <= twice
        assert 0 <= seen.apart <= twice
