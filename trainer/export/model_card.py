"""What a published model is, for people: a page of Markdown next to it.

Its chapters are those of Mitchell et al., Model cards for model reporting, 2019, as far as a
program can know them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pipeline import config
from pipeline.config import strategy_table
from pipeline.console.figures import bound, figure
from pipeline.records import feature_plan, manifest
from pipeline.reports import certainty
from trainer.metrics import report_page, reported, slice_metrics
from trainer.metrics.slice_metrics import SliceResult

# Split to metric to value.
Metrics = Mapping[str, Mapping[str, float]]
_FEW = 5  # values of a list that are shown


def render(
    job: config.Config,
    contents: manifest.Manifest,
    plan: feature_plan.FeaturePlan,
    *,
    step: int,
    metrics: Metrics,
    intervals: Mapping[str, reported.Intervals],
    results: Mapping[str, SliceResult],
    warnings: Sequence[str] = (),
) -> str:
    """Returns the card of the model of `job` at a step; `metrics`, their `intervals` and `results`,
    with slices, are by split; `warnings` are of its data."""
    parts = [
        f"# {job.name}, step {step}",
        _describe_model(job, step),
        "## Data",
        _describe_data(contents, plan.labels),
        _format_table(
            ("column", "type", "missing in train", "used as"), _list_columns(contents, plan)
        ),
        "## Features",
        _describe_features(plan),
        "## Metrics",
        _describe_metrics(
            metrics, intervals, {split: of.records for split, of in contents.splits.items()}
        ),
        "## Metrics by slice",
        _describe_slices(results),
        "## Limits",
        "\n".join(f"- {line}" for line in (*warnings, *_list_limits(job, contents, plan))),
    ]
    return "\n\n".join(parts) + "\n"


def _describe_model(job: config.Config, step: int) -> str:
    updates = job.train.optimizer
    return (
        f"`{job.model.name}`, trained for {step:,} steps of batches of {job.train.batch_size:,} "
        f"under `{job.cluster.strategy}` with {updates.name} at a learning rate of "
        f"{updates.learning_rate:g}, seed {job.train.seed}. The whole config is in `config.yaml`."
    )


def _describe_data(contents: manifest.Manifest, labels: Sequence[str]) -> str:
    counts = ", ".join(f"{split.records:,} {name}" for name, split in contents.splits.items())
    sources = "\n".join(
        f"- `{source.name}`, {source.bytes:,} bytes, SHA-256 `{source.sha256}`"
        for source in contents.sources
    )
    return (
        f"Records: {counts}. Their manifest has the SHA-256 `{contents.sha256}`. "
        f"Label: {', '.join(f'`{name}`' for name in labels)}.\n\n{sources}"
    ).rstrip()


def _list_columns(
    contents: manifest.Manifest, plan: feature_plan.FeaturePlan
) -> Iterable[Sequence[str]]:
    statistics = contents.statistics.get("train")
    used: dict[str, list[str]] = {name: [] for name in contents.columns}
    for feature in plan.features:
        for name in feature.feature.reads(feature.name):
            used.get(name, []).append(feature.name)
    for name, column in contents.columns.items():
        found = statistics.columns.get(name) if statistics else None
        rows = found.rows(column) + found.missing if found else 0
        missing = f"{found.missing / rows:.2%}" if found and rows else ""
        roles = [*(["label"] if name in plan.labels else []), *used[name]]
        if not plan.features and name in plan.columns and not roles:
            roles = [name]
        shape = f" {list(column.shape)}" if column.shape else " list" if column.list else ""
        yield f"`{name}`", f"{column.type}{shape}", missing, ", ".join(roles) or "not used"


def _describe_features(plan: feature_plan.FeaturePlan) -> str:
    if not plan.features:
        return "The columns as they are."
    rows = (
        (feature.name, ", ".join(feature.inputs), ", ".join(map(_format_step, feature.steps)))
        for feature in plan.features
    )
    return _format_table(("feature", "of", "steps"), rows)


def _format_step(step: Any) -> str:
    """Returns a step as the graph has it, with what statistics filled in."""
    hidden = {"step", "stand_in"}  # its name, and what is of the records
    settings = step.model_dump(mode="json", exclude_unset=True, exclude_none=True, exclude=hidden)
    listed = ", ".join(f"{name}: {_format_setting(value)}" for name, value in settings.items())
    return f"`{step.step} {{{listed}}}`" if listed else f"`{step.step}`"


def _format_setting(value: Any) -> str:
    if isinstance(value, list):
        more = f", … {len(value):,} in all" if len(value) > _FEW else ""
        return f"[{', '.join(map(_format_setting, value[:_FEW]))}{more}]"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _describe_metrics(
    metrics: Metrics, intervals: Mapping[str, reported.Intervals], records: Mapping[str, int]
) -> str:
    names = sorted({name for of in metrics.values() for name in of} - {"global_step"})

    def format_value(split: str, name: str) -> str:
        of = metrics[split]
        ends = intervals.get(split, {}).get(name)
        sure = certainty.describe_metric(name, of, records.get(split), ends=ends)
        return " ".join(filter(None, [figure(of[name], 5), certainty.bracket(sure)]))

    rows = [
        (split, *(format_value(split, name) if name in of else "" for name in names))
        for split, of in metrics.items()
    ]
    notes = ["In brackets: 95 % intervals.", *certainty.list_causes(intervals)] if intervals else []
    return "\n\n".join(filter(None, [_format_table(("split", *names), rows), " ".join(notes)]))


def _describe_slices(results: Mapping[str, SliceResult]) -> str:
    cells = report_page.build_cells({split: one.rows for split, one in results.items()})
    none = "`eval.slices` names no column. Those of groups in a split may be worse."
    said = report_page.describe(results)
    if not cells:
        return "\n\n".join([f"None: {none}", *said])
    lead = (
        "Intervals take examples for independent, or with `eval.group` groups. The baseline is the "
        "most frequent label, or the mean, of the split; for probabilities the share of positives, "
        "for an area under the ROC a half, and within groups an order by chance. Each record "
        "counts once."
    )
    sliced = any(row.slice != slice_metrics.ALL for one in results.values() for row in one.rows)
    notes = "\n".join(f"- {line}" for line in (*said, *([] if sliced else [none])))
    return f"{lead}\n\n{_format_table(report_page.COLUMNS, cells)}" + (
        f"\n\n{notes}" if notes else ""
    )


def _list_limits(
    job: config.Config, contents: manifest.Manifest, plan: feature_plan.FeaturePlan
) -> Iterable[str]:
    count = contents.splits["train"].records
    yield f"It was trained only on data like the {count:,} records above."
    ranges = [
        f"`{name}` {bound(column.min)} to {bound(column.max)}"
        for name, column in contents.columns.items()
        if column.min is not None and column.max is not None and name in plan.columns
    ]
    if ranges:
        yield f"Nothing was learned of values out of these ranges: {', '.join(ranges)}."
    sensitive = [f"`{name}`" for name in plan.columns if contents.columns[name].sensitive]
    if sensitive:
        yield f"It uses columns that are declared sensitive: {', '.join(sensitive)}."
    if "test" not in contents.splits:
        yield "There is no test split: the metrics are of the split by which models were chosen."
    if strategy_table.STRATEGIES[job.cluster.strategy].servers:
        yield "Trained again, its parameters come out differently in their last digits, or more."


def _format_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(_escape_cell(cell) for cell in line)} |" for line in lines)


def _escape_cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
