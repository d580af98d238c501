"""Submitting, following, stopping and finding jobs: a real kubectl and a double of the API."""

from __future__ import annotations

import pytest

from pipeline import errors
from pipeline.launchers import remote_jobs
from pipeline.runs import run_folder, run_record
from tests.pipeline.launchers.k8s.following import NEEDS_KUBECTL, RESULT, interrupt, kinds

pytestmark = NEEDS_KUBECTL


def test_a_job_is_submitted_and_followed_to_its_end(following, capsys):
    record = following.run(
        lambda: following.pods("Pending"), lambda: following.pods("Running"), following.finishes
    )
    assert record.status == "done"
    assert record.job == f"k8s/team/jobset/{following.name}/here"
    said = capsys.readouterr().out
    assert f"JobSet {following.name} in namespace team: Ctrl-C leaves it running" in said
    assert "Kubernetes: waiting, 0 of 0 pods run\n" in said
    assert "Kubernetes: running, 4 of 4 pods run\n" in said
    assert "Kubernetes: succeeded\n" in said


@pytest.mark.slow
def test_the_cluster_deletes_all_objects_with_the_job(following):
    following.run(following.finishes)
    owner = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": following.name}
    for plural in ("configmaps", "networkpolicies"):
        (one,) = following.api.of(plural)
        (found,) = one["metadata"]["ownerReferences"]
        assert owner.items() <= found.items()


@pytest.mark.slow
def test_without_jobset_it_is_plain_jobs(following):
    following.api.missing_groups = {"jobset.x-k8s.io"}

    def finish() -> None:
        (evaluator,) = [
            one
            for one in following.api.of("jobs")
            if one["metadata"]["labels"]["estimator-pipeline/role"] == "evaluator"
        ]
        evaluator["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
        following.run_folder.write(run_folder.TRAINING_DONE, {"final_step": 7, "reason": "steps"})
        following.run_folder.write(run_folder.RESULT, RESULT)

    record = following.run(finish)
    assert record.status == "done" and record.job.startswith("k8s/team/job/r-")
    assert kinds(following.api) == ["ConfigMap", *["Job"] * 4, "NetworkPolicy", "Service"]


@pytest.mark.slow
def test_ctrl_c_leaves_the_job_and_the_same_command_follows_it(following, capsys):
    with pytest.raises(errors.StoppedError, match=r"keeps running as JobSet r-.* in namespace te"):
        following.run(interrupt)
    assert following.run(following.finishes).status == "done"
    assert len(following.api.of("jobsets")) == 1
    assert "run r has been submitted already; following it" in capsys.readouterr().out


@pytest.mark.slow
def test_ctrl_c_may_cancel_the_job(following):
    following.cancels = True
    with pytest.raises(errors.StoppedError, match=r"is cancelled. The same command continues"):
        following.run(interrupt)
    assert kinds(following.api) == []


@pytest.mark.slow
def test_a_job_is_found_whose_submission_was_not_recorded(following):
    with pytest.raises(errors.RetryableError):
        following.run(interrupt)
    run = following.run_folder
    record = run_record.read(run)
    name, record.job, record.status = record.job, None, "failed"
    run_record.write(run, record)
    with pytest.raises(errors.StoppedError, match="keeps running"):
        following.run(interrupt)
    assert run_record.read(run).job == name


@pytest.mark.slow
def test_a_job_that_has_ended_is_followed_by_a_new_one(following):
    with pytest.raises(errors.RetryableError, match=r"ended badly. make logs shows more"):
        following.run(lambda: following.ends("Failed", "ended badly"))
    with pytest.raises(errors.StoppedError, match="keeps running"):
        following.run(interrupt)
    first, second = (one["metadata"]["name"] for one in following.api.of("jobsets"))
    assert run_record.read(following.run_folder).job == f"k8s/team/jobset/{second}/here" != first


@pytest.mark.slow
def test_status_stop_and_logs_know_the_job(following):
    with pytest.raises(errors.RetryableError):
        following.run(interrupt)
    run, name = following.run_folder, following.name
    following.pods("Running")
    (line,) = remote_jobs.describe_job(run)
    assert line == f"JobSet {name} in namespace team: running, 4 of 4 pods run"
    assert remote_jobs.stop(run) is None
    following.pods("Pending")
    assert "had no machines yet, and is cancelled" in remote_jobs.stop(run)
    assert following.api.of("jobsets") == []
    assert remote_jobs.describe_job(run)[0].endswith("deleted from the cluster")


@pytest.mark.slow
def test_a_job_that_was_deleted_is_stopped(following):
    with pytest.raises(errors.StoppedError, match=r"deleted from the cluster. make logs"):
        following.run(following.api.objects.clear)
    assert run_record.read(following.run_folder).status == "stopped"


ELASTIC = ("cluster.strategy=parameter_server", "cluster.workers=1", "cluster.max_workers=3")


def worker_job(following):
    """The Job that JobSet makes for the workers."""
    (made,) = following.api.of("jobsets")
    (one,) = [one for one in made["spec"]["replicatedJobs"] if one["name"] == "worker"]
    name = f"{following.name}-worker-0"
    return following.api.put("jobs", name, spec={**one["template"]["spec"]})


@pytest.mark.slow
def test_a_job_has_another_number_of_workers_by_its_own_job_of_them(following):
    def grow() -> None:
        job = worker_job(following)
        following.pods("Running")
        run = following.run_folder
        assert remote_jobs.scale(run, 3, 1000.0).startswith("1 to 3 workers; others join")
        assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (3, 3)
        assert remote_jobs.scale(run, 1, 1000.0).startswith("3 to 1 workers; those that leave")
        assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (1, 1)
        assert [one.workers for one in run_record.read(run).scalings] == [3, 1]

    record = following.run(grow, following.finishes, overrides=ELASTIC)
    assert record.topology["worker"] == 1 and len(following.api.of("jobsets")) == 1


@pytest.mark.slow
def test_a_cluster_that_cannot_change_a_job_reports_it(following):
    def grow() -> None:
        worker_job(following)["spec"]["completionMode"] = "NonIndexed"
        following.pods("Running")
        with pytest.raises(
            errors.UsageError, match=r"jobs.batch .* is invalid: field is immutable"
        ):
            remote_jobs.scale(following.run_folder, 2, 1000.0)
        assert run_record.read(following.run_folder).scalings == []

    following.run(grow, following.finishes, overrides=ELASTIC)


@pytest.mark.slow
def test_a_gang_saves_and_a_job_of_another_size_takes_its_place(following, capsys):
    """The command that follows goes on with it."""
    first = []

    def grow() -> None:
        first.append(following.name)
        following.pods("Running")
        remote_jobs.scale(following.run_folder, 3, 1000.0)

    settings = ("cluster.strategy=multi_worker_mirrored", "cluster.workers=1")
    record = following.run(grow, following.finishes, overrides=settings)
    (made,) = following.api.of("jobsets")
    assert made["metadata"]["name"] != first[0] and record.job.split("/")[3] == following.name
    (job,) = [one for one in made["spec"]["replicatedJobs"] if one["name"] == "worker"]
    assert job["template"]["spec"]["completions"] == 3
    said = capsys.readouterr().out
    assert f"JobSet {first[0]} in namespace team: all processes save" in said
    assert f"JobSet {following.name} in namespace team continues it" in said


@pytest.mark.slow
def test_a_job_without_pods_is_not_scaled(following):
    def grow() -> None:
        with pytest.raises(
            errors.UsageError, match=r"is waiting, and cannot be scaled. Run the co"
        ):
            remote_jobs.scale(following.run_folder, 3, 1000.0)

    following.run(grow, following.finishes, overrides=ELASTIC)
