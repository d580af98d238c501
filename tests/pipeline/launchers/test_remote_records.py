import pytest

from pipeline import errors
from pipeline.jobs import job as jobs
from pipeline.launchers import remote_records
from pipeline.records import builds
from pipeline.runs import run_record


def test_a_job_without_records_is_refused_with_what_to_do(tmp_path):
    job = jobs.plan("mnist", [], run="r", storage_root=str(tmp_path))
    with pytest.raises(errors.DataError, match="make preprocess"):
        remote_records.attach_records(job)
    assert not (tmp_path / "runs").exists()


def test_a_run_is_pinned_to_the_records_that_it_is_submitted_with(small_records, capsys):
    job = jobs.plan(
        str(small_records.config_path), [], run="pinned", storage_root=str(small_records.storage)
    )
    job = remote_records.attach_records(job)
    record = run_record.begin(job.config, job.run)
    remote_records.pin(job, record)
    assert builds.find_run_build(job.storage_root, job.run, job.config.name) == job.records
    assert len(record.manifest) == 64
    assert "warning" not in capsys.readouterr().out


def test_records_that_may_be_of_another_config_are_named(small_records, capsys):
    job = jobs.plan(
        str(small_records.config_path),
        ["data.inputs.train.images=other.gz"],
        run="other",
        storage_root=str(small_records.storage),
    )
    job = remote_records.attach_records(job)
    assert capsys.readouterr().out == ""
    remote_records.pin(job, run_record.begin(job.config, job.run))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(
        f"warning: {job.records!r} may be of another config called 'small': its "
    )
    assert "/other.gz'. If so, run make preprocess, and give one another name: or" in line
