"""Beam's counters, as the page of a job shows them."""

from apache_beam.metrics import MetricsFilter
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from preprocessing import sources
from preprocessing.build import beam_pipeline, counters
from preprocessing.shards import record_folders
from tests.preprocessing import tables


def counted(tmp_path, **changes) -> dict[str, int]:
    data = tables.make_config(tmp_path / "in.csv", error_budget=9, **changes).data
    source = sources.choose(data)
    found = {}

    def follow(result):
        result.wait_until_finish()
        for one in result.metrics().query(MetricsFilter().with_namespace(counters.NAMESPACE))[
            "counters"
        ]:
            name = one.key.metric.name
            found[name] = found.get(name, 0) + one.committed

    beam_pipeline.run(
        [chunk for split in data.inputs for chunk in source.plan(split)],
        source,
        data,
        folders=record_folders.prepare(str(tmp_path / "records"), "0123456789ab"),
        runner=FnApiRunner(),
        options=PipelineOptions([]),
        follow=follow,
    )
    return found


def test_rows_are_counted_by_input_and_outcome(tmp_path):
    rows = [*tables.rows(20), "x,n,1,1"]
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    assert counted(tmp_path) == {"train_read": 21, "train_rejected": 1}


def test_repeated_keys_are_counted_as_rejected(tmp_path):
    rows = [*tables.rows(20), tables.rows(1)[0], "x,n,1,1"]
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    assert counted(tmp_path, key=["id"]) == {"train_read": 22, "train_rejected": 2}
