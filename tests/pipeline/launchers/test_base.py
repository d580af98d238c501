import json

import pytest
import yaml

from pipeline import errors
from pipeline.launchers import base
from tests.pipeline.jobs.jobs import PLACE, plan
from tests.support import commands


def test_a_dry_run_needs_neither_credentials_nor_a_network(tmp_path):
    done = commands.run(
        "pipeline.launch",
        "--config=mnist",
        "--cluster=gcp",
        "--storage=gs://my-bucket/root",
        "--dry_run",
        *(f"--set={override}" for override in PLACE),
        environment={"HOME": str(tmp_path), "HTTPS_PROXY": "http://127.0.0.1:9"},
    )
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["jobSpec"]["workerPoolSpecs"]) == 4
    assert done.stderr.startswith(
        "would POST https://europe-west4-aiplatform.googleapis.com/v1/projects/my-project/"
        "locations/europe-west4/customJobs, with the JSON above\n"
    )
    assert "  trainer/ (" in done.stderr
    assert "an estimate by list prices of" in done.stderr


def test_a_job_that_would_be_refused_is_not_shown():
    with pytest.raises(errors.UsageError, match=r"do not see. Use STORAGE=gs://my-bucket/folder"):
        base.choose("gcp").show(plan(storage_root="/local"))


@pytest.mark.parametrize("place", ["gcp", "k8s"])
@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("gcp.image=foo:latest", "IMAGE=foo:latest: means another image after the next push"),
        ("model.name=mine.models:net", "the config names mine.models, which the image does not"),
    ],
)
def test_a_job_that_could_not_run_in_its_image_is_not_shown(place, override, words):
    with pytest.raises(errors.UsageError, match=f"^CLUSTER={place}: {words}"):
        base.choose(place).show(plan(override))


def test_a_tfjob_is_yaml_and_says_that_its_operator_is_a_legacy_one():
    shown = base.choose("k8s").show(plan("k8s.kind=tfjob"))
    assert shown.document.startswith("# For the Training Operator v1, a legacy one")
    kinds = [document["kind"] for document in yaml.safe_load_all(shown.document)]
    assert kinds == ["ConfigMap", "NetworkPolicy", "TFJob"]
    assert "  trainer/ (" in shown.notes


def test_what_is_shown_for_kubernetes_is_a_job_set_of_a_submission_of_its_own():
    """It may be submitted as it is shown, and what failed for good in another must not end it."""
    one, other = (base.choose("k8s").show(plan()) for _ in range(2))
    kinds = [document["kind"] for document in yaml.safe_load_all(one.document)]
    assert kinds == ["ConfigMap", "NetworkPolicy", "JobSet"]
    names = [[*yaml.safe_load_all(o.document)][-1]["metadata"]["name"] for o in (one, other)]
    assert names[0] != names[1]
    assert "Without JobSet in the cluster it would be plain Jobs" in one.notes


def test_local_jobs_are_not_shown():
    with pytest.raises(errors.UsageError, match=r"^DRY_RUN=1: shows jobs for CLUSTER=gcp, "):
        base.choose("local").show(plan())
