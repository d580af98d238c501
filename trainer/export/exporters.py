"""What is published of a run: the best and the final model, as SavedModels."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import pathlib
import tempfile
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tensorflow.core.protobuf import saved_model_pb2

from pipeline import config, errors, storage
from pipeline.config import config_file, model_config
from pipeline.records import quarantine
from pipeline.runs import export_files, exported
from pipeline.runs.run_folder import RunFolder
from pipeline.storage import strict_json
from trainer.checkpoints import bundle, checkpoint_files
from trainer.export import (
    backward_walk,
    known_values,
    model_card,
    model_check,
    parity,
    parity_client,
    parity_worker,
    serving_graph,
)
from trainer.heads import heads
from trainer.input.dataset import RecordDataset
from trainer.metrics import one_pass, report_page, reported, slice_metrics
from trainer.monitoring.status_reporter import Reporter

_STAGING = ".staging-"
_quiet = contextlib.nullcontext()


class Publishing(abc.ABC):
    """Exports models of one run, and publishes those that answer as the Estimator does. What they
    are fed and compared on depends on where the examples of the run come from."""

    def __init__(
        self, job: config.Config, run: RunFolder, reporter: Reporter | None = None
    ) -> None:
        """The `reporter` is told how far it is."""
        self._job, self._run, self._reporter = job, run, reporter

    def build_hooks(self, split: str) -> Sequence[Any]:
        """Returns the hooks of evaluations of a split, which evaluate its slices for exports."""
        return ()

    def keep_results(self, split: str, checkpoint: str) -> None:
        """Keeps what these hooks have found in the last evaluation of a split."""
        assert not self.build_hooks(split)

    def compute_intervals(
        self, checkpoint: str, metrics: model_card.Metrics
    ) -> dict[str, reported.Intervals]:
        """Returns the intervals of the `metrics` of a checkpoint, by split, or why none."""
        return {split: reported.find_intervals(found, {}) for split, found in metrics.items()}

    def check_model(self, estimator: Any, *, evaluated: bool) -> Sequence[str]:
        """Returns the variables that exports read from a checkpoint. Raises `UsageError` if no
        model could be exported, or evaluated for it, before it is trained in vain. `evaluated` says
        that the graph of an evaluation predicts what slices need."""
        receiver = serving_graph.put_in_scope(self._build_receiver())
        return model_check.build_served(estimator, receiver).variables

    @abc.abstractmethod
    def _build_receiver(self) -> Any:
        """Returns the `serving_input_fn` of exported models."""

    @abc.abstractmethod
    def _check(self, estimator: Any, checkpoint: str, folder: str) -> None:
        """Raises `ModelError` if the model in a folder answers otherwise than the Estimator."""

    @abc.abstractmethod
    def _describe_origin(self, checkpoint: str) -> dict[str, str]:
        """Returns the files of an export that tell what it was made from."""

    @abc.abstractmethod
    def _build_extra_files(
        self, estimator: Any, checkpoint: str, step: int, *, metrics: model_card.Metrics
    ) -> dict[str, str]:
        """Returns the other files that go with the model, for people and machines."""

    def publish(
        self,
        estimator: Any,
        kind: str,
        checkpoint: str,
        *,
        step: int,
        metrics: model_card.Metrics,
        before_replacing: Callable[[PublishedModel], None] = lambda export: None,
        like: PublishedModel | None = None,
    ) -> PublishedModel:
        """Exports a checkpoint to `export/<kind>/<step>`, with its `metrics` by split.

        If `like`, another export of the run, is of the same model, its files are copied: they have
        passed the check.

        The folder appears whole: the model is written and checked in another one, and then
        published. An export of the same checkpoint, config and records is left as it is; any other
        of that step is replaced, after `before_replacing` was called with the new one. Raises
        `ModelError` if it fails the check.
        """
        target = storage.join(self._run.exports, kind, str(step))
        made_from = self._describe_origin(checkpoint)
        if export_files.is_published(target) and _is_made_from(target, made_from):
            return PublishedModel(target, self._compute_digests(target))
        for left in storage.listdir(self._run.exports):
            if left.startswith(_STAGING):  # by a process that was killed
                storage.remove(storage.join(self._run.exports, left))
        beside = make_staging_folder(self._run.exports)
        try:
            folder = self._copy_model(like, made_from, storage.join(beside, "copy"))
            folder = folder or self._write_model(estimator, checkpoint, beside)
            extras = self._build_extra_files(estimator, checkpoint, step, metrics=metrics)
            storage.makedirs(storage.join(folder, exported.EXTRAS))
            for name, text in {**made_from, **extras}.items():
                storage.write_text(storage.join(folder, exported.EXTRAS, name), text)
            found = PublishedModel(target, self._compute_digests(folder))
            with self._count_progress("publishing the model"):
                if storage.exists(target):
                    before_replacing(found)
                    storage.replace_folder(folder, target, last=export_files.LAST)
                else:
                    storage.publish_folder(folder, target, last=export_files.LAST)
        finally:
            storage.remove(beside)
        return found

    def _copy_model(
        self, like: PublishedModel | None, made_from: Mapping[str, str], folder: str
    ) -> str | None:
        """Copies the model of `like` to `folder`; `None` if it is another one, or is no longer what
        was published."""
        if like is None or not _is_made_from(like.path, made_from):
            return None
        model = {n: sha for n, sha in like.sha256.items() if not n.startswith(exported.EXTRAS)}
        with self._count_progress("copying the model"):
            for name in model:
                target = storage.join(folder, name)
                storage.makedirs(storage.parent(target))
                try:
                    storage.copy(storage.join(like.path, name), target)
                except FileNotFoundError:
                    return None
            return folder if export_files.digests(folder) == model else None

    def _write_model(self, estimator: Any, checkpoint: str, beside: str) -> str:
        """Writes the model of a checkpoint to a folder in `beside`, and checks it."""
        receiver = serving_graph.put_in_scope(self._build_receiver())
        parity_client.get_shared_server()  # is started while the model is written
        reporter = self._reporter
        watching = reporter.watch_folder("writing the model", beside) if reporter else _quiet
        refusing = serving_graph.refuse_untrained(estimator, receiver, checkpoint)
        with watching, refusing, backward_walk.replace_tensorflow_walk():
            written = estimator.export_saved_model(beside, receiver, checkpoint_path=checkpoint)
        folder: str = written.decode()
        name_signatures(folder)
        with self._count_progress("checking the exported model"):
            _refuse_nan(folder, checkpoint)
            self._check(estimator, checkpoint, folder)
        return folder

    def _count_progress(self, what: str) -> contextlib.AbstractContextManager[None]:
        return self._reporter.count_progress(what) if self._reporter else _quiet

    def _compute_digests(self, folder: str) -> dict[str, str]:
        with self._count_progress("reading checksums"):
            return export_files.digests(folder)


class Publisher(Publishing):
    """Exports models of a run on records."""

    def __init__(
        self,
        job: config.Config,
        run: RunFolder,
        records: RecordDataset,
        *,
        hooks: Sequence[Any] = (),
        reporter: Reporter | None = None,
    ) -> None:
        """`hooks` are called while slices are evaluated. The `reporter` is told how far it is."""
        super().__init__(job, run, reporter)
        self._records, self._hooks = records, hooks
        self._gate = parity.Gate(records)
        self._slice_hooks: dict[str, one_pass.SliceHook] = {}
        # Of the newest checkpoint: the best is often the final one, too.
        self._known: tuple[str, dict[str, Mapping[str | None, slice_metrics.SliceResult]]] = "", {}

    def _build_receiver(self) -> Any:
        return serving_graph.build_serving_input_fn(self._records.transforms)

    def _check(self, estimator: Any, checkpoint: str, folder: str) -> None:
        self._gate.check(estimator, checkpoint, folder)

    def _describe_origin(self, checkpoint: str) -> dict[str, str]:
        return {
            "checkpoint.sha256": f"{checkpoint_files.compute_digest(checkpoint)}\n",
            **self._made_with,
        }

    @functools.cached_property
    def _made_with(self) -> dict[str, str]:
        return {
            "config.yaml": config_file.dump(self._job, redacted=True),
            "manifest.sha256": f"{self._records.manifest.sha256}\n",
        }

    def check_model(self, estimator: Any, *, evaluated: bool) -> Sequence[str]:
        """As of all; but what the models here serve and read is known, and its graph would take
        long to build: of these nothing is returned."""
        by_served = self._has_slices and not evaluated
        if not (model_config.is_own(self._job.model) or by_served):
            return ()
        served = model_check.build_served(
            estimator, serving_graph.put_in_scope(self._build_receiver())
        )
        if by_served:
            model_check.check_slices(self._job, served.shapes)
        return served.variables

    @property
    def _has_slices(self) -> bool:
        return bool(self._job.eval.slices) or self._job.eval.group is not None

    def build_hooks(self, split: str) -> Sequence[Any]:
        """Returns the hook that evaluates slices, and all records, in the same pass."""
        every = 1 if self._has_slices else slice_metrics.find_stride(self._records, split)
        hook = self._slice_hooks.get(split) or one_pass.SliceHook(
            self._records, self._job.eval.slices, every=every
        )
        self._slice_hooks[split] = hook
        return (hook,)

    def keep_results(self, split: str, checkpoint: str) -> None:
        """Keeps what the hook has found, unless it is known."""
        if split not in self._slice_hooks or split in self._get_known_results(checkpoint):
            return
        if (results := self._slice_hooks[split].get_results()) is not None:
            self._get_known_results(checkpoint)[split] = results

    def _get_known_results(
        self, checkpoint: str
    ) -> dict[str, Mapping[str | None, slice_metrics.SliceResult]]:
        """Returns what is known of a checkpoint by split, and forgets that of others."""
        digest = checkpoint_files.compute_digest(checkpoint)
        if self._known[0] != digest:
            self._known = digest, {}
        return self._known[1]

    def _find_results(
        self, estimator: Any, checkpoint: str, split: str
    ) -> Mapping[str | None, slice_metrics.SliceResult]:
        by, known = self._job.eval.slices, self._get_known_results(checkpoint)
        if split not in known and not self._has_slices:
            # It would be read again, for what nobody has asked for.
            return dict.fromkeys(self._job.labels or (None,), slice_metrics.SliceResult([]))
        if split not in known:
            known[split] = slice_metrics.evaluate(
                self._records, estimator, checkpoint, split=split, slices=by, hooks=self._hooks
            )
        return known[split]

    def compute_intervals(
        self, checkpoint: str, metrics: model_card.Metrics
    ) -> dict[str, reported.Intervals]:
        """Returns the intervals of the `metrics` of a checkpoint, by split, or why none."""
        plan, known = self._records.transforms.plan, self._get_known_results(checkpoint)
        weighted = any(
            one.weight is not None or one.class_weights is not None
            for one in (plan.label, *(goal.label for goal in plan.goals))
        )
        return {
            split: reported.find_intervals(found, known.get(split, {}), weighted=weighted)
            for split, found in metrics.items()
        }

    def _build_extra_files(
        self, estimator: Any, checkpoint: str, step: int, *, metrics: model_card.Metrics
    ) -> dict[str, str]:
        results = {
            " ".join(filter(None, (split, label))): one
            for split in metrics
            for label, one in self._find_results(estimator, checkpoint, split).items()
        }
        contents = self._records.manifest
        slices, notes = (
            {split: report_page.build_content(one)[name] for split, one in results.items()}
            for name in ("slices", "notes")
        )
        ends = self.compute_intervals(checkpoint, metrics)
        found = {"step": step, "metrics": metrics, "intervals": ends}
        found |= {"slices": slices, "notes": notes}
        extras = {
            "metrics.json": strict_json.dumps(found, indent=1) + "\n",
            "model_card.md": model_card.render(
                self._job,
                contents,
                self._records.transforms.plan,
                step=step,
                metrics=metrics,
                intervals=ends,
                results=results,
                warnings=(
                    *quarantine.describe(self._records.left_out),
                    *known_values.list_remarks(self._records),
                ),
            ),
        }
        if any(one.rows for one in results.values()):
            title = f"Evaluation of {self._run.name}, step {step}"
            extras[report_page.FILE_NAME] = report_page.render_page(title, results)
        plan = self._records.transforms.plan
        several = [(goal.name, goal.label.values) for goal in plan.goals]
        single: list[tuple[str | None, Any]] = [(None, plan.label.values)]
        for label, classes in several or single:
            if classes is not None:
                name = exported.classes_file(label)
                extras[name] = strict_json.dumps(list(classes)) + "\n"
        return extras


def _refuse_nan(folder: str, checkpoint: str) -> None:
    """Raises `ModelError` for a model with NaN in its variables: where a `relu` takes NaN for 0,
    the loss does not show it."""
    variables = storage.join(folder, "variables", "variables")
    if not storage.exists(f"{variables}.index"):
        return
    if (name := bundle.Bundle(variables).find_nan()) is not None:
        raise errors.ModelError(
            f"checkpoint {checkpoint!r}: {name} holds NaN, so the model is not exported. Look for "
            "features that are not finite, or lower the learning rate, and choose a new RUN="
        )


def _is_made_from(folder: str, made_from: Mapping[str, str]) -> bool:
    paths = {storage.join(folder, exported.EXTRAS, name): made_from[name] for name in made_from}
    return all(storage.exists(p) and storage.read_text(p) == text for p, text in paths.items())


@dataclasses.dataclass(frozen=True)
class PublishedModel:
    """A published model: where it is, and the SHA-256 of each of its files."""

    path: str
    sha256: Mapping[str, str]


def name_signatures(folder: str) -> None:
    """Gives the signature that takes Examples a name of its own: Estimator calls it after two.
    One that is called like an output has that alone, and takes only the columns it needs."""
    path = pathlib.Path(folder, export_files.LAST)
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    for graph in model.meta_graphs:
        long = f"{parity_worker.EXAMPLES}:{heads.SERVING}"
        if long in graph.signature_def:
            graph.signature_def[parity_worker.EXAMPLES].CopyFrom(graph.signature_def[long])
            del graph.signature_def[long]
        for name in graph.signature_def[heads.SERVING].outputs:
            if name in graph.signature_def and list(graph.signature_def[name].outputs) == [name]:
                _keep_needed(graph.signature_def[name], graph.graph_def)
    path.write_bytes(model.SerializeToString(deterministic=True))


def _keep_needed(signature: Any, graph: Any) -> None:
    """Takes inputs away from a signature that its outputs do not depend on."""
    nodes = {node.name: node for node in graph.node}
    fed = {info.name.partition(":")[0]: name for name, info in signature.inputs.items()}
    left = [info.name.partition(":")[0] for info in signature.outputs.values()]
    seen = set(left)
    while left:
        node = nodes[left.pop()]
        if node.name in fed:  # what would be read in its place is not
            continue
        before = {name.removeprefix("^").partition(":")[0] for name in node.input} - seen
        seen |= before
        left += before
    for op, name in fed.items():
        if op not in seen:
            del signature.inputs[name]


def make_staging_folder(folder: str) -> str:
    """Makes a folder for a model that is published below `folder` then; on this machine for gs://,
    where nothing can be renamed. Raises `UsageError` if it cannot be made."""
    if storage.is_remote(folder):
        return tempfile.mkdtemp(prefix="estimator-pipeline-export-")
    storage.makedirs(beside := storage.join(folder, f"{_STAGING}{uuid.uuid4().hex}"))
    return beside
