"""A checkpoint of a run as a Keras model: what is left of it when Estimators are gone.

`migrated/<step>/` of the run holds `model.keras`, from values of columns to answers; `saved_model`,
with the signatures of an export; and `migration.json`, written last. Nothing is published that
answers otherwise than `Estimator.predict`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from pipeline import errors, storage, versions
from pipeline.cluster import topology
from pipeline.records import manifest
from pipeline.runs import export_files
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer import experiment
from trainer.checkpoints import checkpoint_files
from trainer.checkpoints.parameters import Parameters
from trainer.export import exporters, parity, parity_client, parity_worker
from trainer.input import parsing
from trainer.input.dataset import Records
from trainer.migration import networks
from trainer.models import heads
from trainer.models.keras_columns import KerasColumns
from trainer.models.names import of_arguments

_FOLDER, _LAST = "migrated", "migration.json"
_KERAS, _SAVED_MODEL = "model.keras", "saved_model"


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
        keras = storage.join(self.path, _KERAS)
        lines = [
            f"step {self.step}: {how}" if self.new else f"step {self.step}: was there already",
            f"  {keras}: tf.keras.models.load_model takes it",
            f"  {storage.join(self.path, _SAVED_MODEL)}: for TensorFlow Serving",
        ]
        lines += [
            f"  it takes {len(columns):,} columns side by side in {name!r}, in the order that "
            f"{_LAST} has under 'packed'"
            for name, columns in self.packed.items()
        ]
        if self.needs:
            lines.append(f"  load_model(…, custom_objects=…) needs {', '.join(self.needs)}")
        return "\n".join([*lines, "What to do next: docs/migrate.md"])


class Migration:
    """A run, and what its checkpoints become."""

    def __init__(self, run: RunFolder, records_path: str) -> None:
        """Raises `UsageError` for a model that is no Keras network and cannot be made one."""
        self._run, self._job = run, run.read_config()
        networks.check(self._job.model)
        contents = manifest.read(records_path)
        manifest.check_schema(contents, self._job.data, records_path)
        self._records = Records(self._job, records_path, contents)
        self._columns = KerasColumns(self._records.transforms)
        # An evaluator, as far as the Estimator is concerned: it may not start a server or train.
        task = topology.Task(topology.EVALUATOR, 0)
        self._estimator = experiment.estimator(
            self._job, run, task, transforms=self._records.transforms
        )
        self._gate = parity.Gate(self._records)

    def publish(self, checkpoint: str) -> Migrated:
        """Migrates a checkpoint; what is there already stays as it is.

        Raises `ModelError` if the result answers otherwise than `Estimator.predict`, `DataError` if
        what is there was altered.
        """
        step = checkpoint_files.step_of(checkpoint)
        target = storage.join(self._run.path, _FOLDER, str(step))
        if storage.exists(storage.join(target, _LAST)):
            return _found(target)
        beside = exporters.staging(storage.join(self._run.path, _FOLDER))
        storage.makedirs(beside)
        try:
            parity_client.shared()  # is started while the model is made
            model = self._model(checkpoint)
            rows = self._gate.check_all(self._estimator, checkpoint, self._written(model, beside))
            needs = tuple(sorted(_needs(model)))
            content = {
                "step": step,
                "rows": rows,
                "needs": needs,
                "packed": self._columns.packed,
                "manifest": self._records.manifest.sha256,
                "versions": versions.installed(),
                "sha256": export_files.digests(beside),
            }
            storage.write_text(
                storage.join(beside, _LAST), strict_json.dumps(content, indent=1) + "\n"
            )
            storage.publish_folder(beside, target, last=_LAST)
        finally:
            storage.remove(beside)
        return Migrated(target, step, rows, needs, self._columns.packed, new=True)

    def _model(self, checkpoint: str) -> Any:
        averaged = self._job.train.optimizer.average is not None
        parameters = Parameters(checkpoint, averaged=averaged)
        return networks.whole(self._job.model, self._columns, parameters)

    def _written(self, model: Any, folder: str) -> Iterator[str | parity.KerasFile]:
        """Writes both files, and yields each once it is there."""
        keras, saved_model = (storage.join(folder, name) for name in (_KERAS, _SAVED_MODEL))
        model.save(keras)
        yield parity.KerasFile(keras, self._columns.fed, tuple(sorted(_needs(model))))
        servable = _Servable(model, self._columns, self._records)
        tf.saved_model.save(servable, saved_model, signatures=servable.signatures())
        yield saved_model


class _Servable(tf.Module):
    """The model with the signatures of an export.

    Only the variables and resources of the model are saved. With the model itself Keras would trace
    each layer, minutes for a thousand columns, for loading it as Keras; `model.keras` is for that.
    """

    def __init__(self, model: Any, columns: KerasColumns, records: Records) -> None:
        super().__init__()
        self._variables = model.variables
        self._resources = [
            held
            for held in tf.train.TrackableView(model).descendants()
            if isinstance(held, tf.saved_model.experimental.TrackableResource)
        ]
        self._fed = columns.fed
        self._columns = records.transforms.serving_columns
        # Traced once for both signatures.
        self._answers = tf.function(lambda inputs: model(inputs, training=False), autograph=False)

    def signatures(self) -> dict[str, Any]:
        """Returns functions of stored columns and of serialized Examples."""
        names = of_arguments(self._columns)
        columns = {
            name: tf.TensorSpec(spec.shape, spec.dtype, names[name])
            for name, spec in parsing.stored_specs(self._columns).items()
        }
        examples = tf.TensorSpec([None], tf.string, parity_worker.EXAMPLES)
        return {
            heads.SERVING: tf.function(self._of_columns).get_concrete_function(columns),
            parity_worker.EXAMPLES: tf.function(self._of_examples).get_concrete_function(examples),
        }

    def _of_columns(self, stored: dict[str, tf.Tensor]) -> Any:
        decoded = {n: parsing.decode(x, self._columns[n]) for n, x in stored.items()}
        return self._answers(self._fed(decoded))

    def _of_examples(self, serialized: tf.Tensor) -> Any:
        return self._answers(self._fed(parsing.parse(serialized, self._columns)))


def _needs(model: Any) -> Iterator[str]:
    """Yields the classes of layers that are not of Keras, as `package.module:Class`."""
    layers = [m for m in model.submodules if isinstance(m, tf.keras.layers.Layer)]
    for kind in {type(layer) for layer in layers}:
        if kind.__module__.partition(".")[0] not in ("keras", "tensorflow"):
            yield f"{kind.__module__}:{kind.__qualname__}"


def _found(target: str) -> Migrated:
    content = strict_json.loads(storage.read_text(storage.join(target, _LAST)))
    there = export_files.digests(target)
    there.pop(_LAST)
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
