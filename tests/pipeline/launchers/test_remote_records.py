import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers import remote_records
from pipeline.records import builds
from pipeline.runs import run_record


def test_a_job_without_records_is_refused_with_what_to_do(tmp_path):
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    with pytest.raises(errors.DataError, match="make preprocess"):
        remote_records.with_records(job)
    assert not (tmp_path / "runs").exists()


def test_a_run_is_pinned_to_the_records_that_it_is_submitted_with(small_records):
    job = jobs.plan(
        str(small_records.config_path), [], run="pinned", storage_root=str(small_records.storage)
    )
    job = remote_records.with_records(job)
    record = run_record.begin(job.config, job.run)
    remote_records.pin(job, record)
    assert builds.of_run(job.storage_root, job.run, job.config.name) == job.records
    assert len(record.manifest) == 64
