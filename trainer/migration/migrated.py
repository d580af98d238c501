"""What `migrated/` of a run holds. Reading it needs no TensorFlow."""

from __future__ import annotations

import dataclasses

from pipeline import errors, storage
from pipeline.runs import export_files
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer.checkpoints import checkpoint_files

LAST, KERAS, SAVED_MODEL = "migration.json", "model.keras", "saved_model"


@dataclasses.dataclass(frozen=True)
class Migrated:
    """A published model: `new` if it was not there before.

    `rows` were compared; `needs` are the classes outside of Keras that `model.keras` is made of;
    `packed` are its inputs that many columns lie in side by side, with these in their order.
    """

    path: str
    step: int
    rows: int
    needs: tuple[str, ...]
    packed: dict[str, list[str]]
    new: bool

    def __str__(self) -> str:
        how = f"{self.rows} rows answered as Estimator.predict does"
        keras = storage.join(self.path, KERAS)
        lines = [
            f"step {self.step}: {how}" if self.new else f"step {self.step}: was there already",
            f"  {keras}: tf.keras.models.load_model takes it",
            f"  {storage.join(self.path, SAVED_MODEL)}: for TensorFlow Serving",
        ]
        lines += [
            f"  it takes {len(columns):,} columns side by side in {name!r}, in the order that "
            f"{LAST} has under 'packed'"
            for name, columns in self.packed.items()
        ]
        if self.needs:
            lines.append(f"  load_model(…, custom_objects=…) needs {', '.join(self.needs)}")
        return "\n".join([*lines, "What to do next: docs/migrate.md"])


def get_folder(run: RunFolder, step: int) -> str:
    """Returns where the model of a step is published."""
    return storage.join(run.path, "migrated", str(step))


def find(run: RunFolder, checkpoint: str) -> Migrated | None:
    """Returns what is published of a checkpoint, `None` if nothing is.

    Raises `DataError` if a file was altered.
    """
    target = get_folder(run, checkpoint_files.read_step(checkpoint))
    if not storage.exists(storage.join(target, LAST)):
        return None
    content = strict_json.loads(storage.read_text(storage.join(target, LAST)))
    there = export_files.digests(target)
    there.pop(LAST)
    changed = sorted(
        name
        for name in {*there, *content["sha256"]}
        if there.get(name) != content["sha256"].get(name)
    )
    if changed:
        raise errors.DataError(
            f"{target!r}: {changed[0]!r} is not as it was published. Remove the folder and run "
            "make migrate again"
        )
    return Migrated(
        target,
        content["step"],
        content["rows"],
        tuple(content["needs"]),
        content.get("packed", {}),  # not in those of before
        new=False,
    )
