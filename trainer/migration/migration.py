"""A checkpoint of a run as a Keras model: what is left of it when Estimators are gone.

`migrated/<step>/` of the run holds `model.keras`, from values of columns to answers; `saved_model`,
with the signatures of an export; and `migration.json`, written last. Nothing is published that
answers otherwise than `Estimator.predict`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from pipeline import config, storage, versions
from pipeline.cluster import topology
from pipeline.records import manifest
from pipeline.runs import export_files
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer import experiment
from trainer.checkpoints import checkpoint_files
from trainer.checkpoints.parameters import Parameters
from trainer.export import exporters, parity, parity_client, parity_worker
from trainer.features.names import name_arguments
from trainer.heads import heads
from trainer.input import parsing
from trainer.input.dataset import RecordDataset
from trainer.migration import migrated, networks
from trainer.migration.migrated import Migrated
from trainer.networks.keras_columns import KerasColumns


class Migration:
    """A run, and what its checkpoints become."""

    def __init__(self, run: RunFolder, records_path: str, job: config.Config | None = None) -> None:
        """The `job` is that of the run, which is read unless given. Raises `UsageError` for a model
        that is no Keras network and cannot be made one."""
        self._run, self._job = run, job or run.read_config()
        networks.check(self._job.model)
        contents = manifest.read(records_path)
        manifest.check_schema(contents, self._job.data, records_path)
        self._records = RecordDataset(self._job, records_path, contents)
        self._columns = KerasColumns(self._records.transforms)
        # An evaluator, as far as the Estimator is concerned: it may not start a server or train.
        task = topology.Task(topology.EVALUATOR, 0)
        self._estimator = experiment.build_estimator(
            self._job, run, task, transforms=self._records.transforms
        )
        self._gate = parity.Gate(self._records)

    def publish(self, checkpoint: str) -> Migrated:
        """Migrates a checkpoint that `migrated.find` does not find.

        Raises `ModelError` if the result answers otherwise than `Estimator.predict`.
        """
        step = checkpoint_files.read_step(checkpoint)
        target = migrated.get_folder(self._run, step)
        beside = exporters.make_staging_folder(storage.parent(target))
        try:
            parity_client.get_shared_server()  # is started while the model is made
            model = self._build_model(checkpoint)
            rows = self._gate.check_all(
                self._estimator, checkpoint, self._write_model(model, beside)
            )
            needs = tuple(sorted(_list_needed_classes(model)))
            content = {
                "step": step,
                "rows": rows,
                "needs": needs,
                "packed": self._columns.packed,
                "manifest": self._records.manifest.sha256,
                "versions": versions.list_installed(),
                "sha256": export_files.digests(beside),
            }
            storage.write_text(
                storage.join(beside, migrated.LAST), strict_json.dumps(content, indent=1) + "\n"
            )
            storage.publish_folder(beside, target, last=migrated.LAST)
        finally:
            storage.remove(beside)
        return Migrated(target, step, rows, needs, self._columns.packed, new=True)

    def _build_model(self, checkpoint: str) -> Any:
        averaged = self._job.train.optimizer.average is not None
        parameters = Parameters(checkpoint, averaged=averaged)
        return networks.build_model(self._job.model, self._columns, parameters)

    def _write_model(self, model: Any, folder: str) -> Iterator[str | parity.KerasFile]:
        """Writes both files, and yields each once it is there."""
        keras = storage.join(folder, migrated.KERAS)
        saved_model = storage.join(folder, migrated.SAVED_MODEL)
        model.save(keras)
        yield parity.KerasFile(
            keras, self._columns.prepare_inputs, tuple(sorted(_list_needed_classes(model)))
        )
        servable = _Servable(model, self._columns, self._records)
        tf.saved_model.save(servable, saved_model, signatures=servable.signatures())
        yield saved_model


class _Servable(tf.Module):
    """The model with the signatures of an export.

    Only the variables and resources of the model are saved. With the model itself Keras would trace
    each layer, minutes for a thousand columns, for loading it as Keras; `model.keras` is for that.
    """

    def __init__(self, model: Any, columns: KerasColumns, records: RecordDataset) -> None:
        super().__init__()
        self._variables = model.variables
        self._resources = [
            held
            for held in tf.train.TrackableView(model).descendants()
            if isinstance(held, tf.saved_model.experimental.TrackableResource)
        ]
        self._fed = columns.prepare_inputs
        self._columns = records.transforms.serving_columns
        # Traced once for both signatures.
        self._answers = tf.function(lambda inputs: model(inputs, training=False), autograph=False)

    def signatures(self) -> dict[str, Any]:
        """Returns functions of stored columns and of serialized Examples."""
        names = name_arguments(self._columns)
        columns = {
            name: tf.TensorSpec(spec.shape, spec.dtype, names[name])
            for name, spec in parsing.build_stored_specs(self._columns).items()
        }
        examples = tf.TensorSpec([None], tf.string, parity_worker.EXAMPLES)
        of_columns, of_examples = (
            tf.function(made, autograph=False) for made in (self._of_columns, self._of_examples)
        )
        return {
            heads.SERVING: of_columns.get_concrete_function(columns),
            parity_worker.EXAMPLES: of_examples.get_concrete_function(examples),
        }

    def _of_columns(self, stored: dict[str, tf.Tensor]) -> Any:
        decoded = {n: parsing.decode(x, self._columns[n]) for n, x in stored.items()}
        return self._answers(self._fed(decoded))

    def _of_examples(self, serialized: tf.Tensor) -> Any:
        return self._answers(self._fed(parsing.parse(serialized, self._columns)))


def _list_needed_classes(model: Any) -> Iterator[str]:
    """Yields the classes of layers that are not of Keras, as `package.module:Class`."""
    layers = [m for m in model.submodules if isinstance(m, tf.keras.layers.Layer)]
    for kind in {type(layer) for layer in layers}:
        if kind.__module__.partition(".")[0] not in ("keras", "tensorflow"):
            yield f"{kind.__module__}:{kind.__qualname__}"
