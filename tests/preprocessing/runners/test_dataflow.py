import re
import sys

import pytest
from apache_beam.options import pipeline_options
from apache_beam.options.pipeline_options_validator import PipelineOptionsValidator
from apache_beam.runners.dataflow.dataflow_runner import DataflowRunner

from pipeline import config, errors
from pipeline.config import config_file
from pipeline.launchers.gcp import settings
from preprocessing.runners import beam_options, dataflow
from tests.pipeline.jobs.jobs import PLACE
from tests.pipeline.process_help import ROOT
from tests.support import commands

GCP = config_file.load(
    "mnist",
    [
        *PLACE,
        "gcp.labels={team: vision}",
        "gcp.service_account=beam@my-project.iam.gserviceaccount.com",
        "gcp.dataflow={machine_type: n1-highmem-4, max_workers: 7, disk_gb: 50, "
        "subnetwork: regions/europe-west4/subnetworks/inner}",
    ],
).gcp


def test_beam_s_own_parser_reads_what_was_meant():
    parsed = beam_options.build(dataflow.build_options("mnist_mlp", GCP), num_workers=1)
    cloud = parsed.view_as(pipeline_options.GoogleCloudOptions)
    workers = parsed.view_as(pipeline_options.WorkerOptions)
    assert beam_options.find_runner_name(parsed) == "DataflowRunner"
    assert not beam_options.is_local(parsed)
    assert (cloud.project, cloud.region) == ("my-project", "europe-west4")
    assert cloud.job_name == "preprocess-mnist-mlp"
    assert cloud.temp_location == "gs://my-bucket/dataflow/temporary"
    assert cloud.staging_location == "gs://my-bucket/dataflow/staging"
    assert cloud.service_account_email == "beam@my-project.iam.gserviceaccount.com"
    assert cloud.labels == ["pipeline=estimator-pipeline", "team=vision"]
    assert workers.machine_type == "n1-highmem-4"
    assert (workers.max_num_workers, workers.disk_size_gb) == (7, 50)
    assert workers.subnetwork == "regions/europe-west4/subnetworks/inner"
    assert workers.use_public_ips is False
    assert workers.sdk_container_image == GCP.image
    setup = parsed.view_as(pipeline_options.SetupOptions)
    assert setup.sdk_location == "container"
    assert setup.save_main_session is False


def _nothing(*_):
    """Stands for a warning that is not looked for."""


def test_beam_itself_finds_nothing_to_complain_about(monkeypatch):
    # It would ask Cloud Storage for a bucket's retention, for minutes where there is none.
    monkeypatch.setattr(
        pipeline_options.GoogleCloudOptions, "_warn_if_soft_delete_policy_enabled", _nothing
    )
    parsed = beam_options.build(dataflow.build_options("mnist", GCP), num_workers=1)
    assert PipelineOptionsValidator(parsed, DataflowRunner()).validate() == []


def test_what_is_missing_is_named():
    with pytest.raises(errors.UsageError, match=r"^CLUSTER=gcp: missing: PROJECT=, IMAGE=$"):
        dataflow.build_options("m", GCP.model_copy(update={"project": None, "image": None}))


def test_options_that_beam_does_not_have_are_refused():
    with pytest.raises(errors.UsageError, match=r"Beam has no --max_workers"):
        beam_options.build([*dataflow.build_options("m", GCP), "--max_workers=3"], num_workers=1)


def test_without_what_beam_needs_for_it_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam.runners.dataflow.internal.apiclient", None)
    with pytest.raises(errors.UsageError, match=r"is not installed, .* requirements-gcp.lock$"):
        dataflow.check_installed()


def test_what_dataflow_needs_is_locked_to_what_is_installed_anyway():
    """Otherwise installing it would replace what TensorFlow needs, such as protobuf."""

    def pinned(name: str) -> dict[str, str]:
        text = (ROOT / name).read_text()
        assert "://" not in text and "--hash=sha256:" in text
        return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, re.MULTILINE))

    locked, with_extra = pinned("requirements.lock"), pinned("requirements-gcp.lock")
    differing = {name for name, version in locked.items() if with_extra.get(name) != version}
    assert differing <= {"google-cloud-storage"}
    assert {"google-apitools", "google-auth-httplib2", "google-cloud-aiplatform"} <= set(with_extra)


def small(cloud, small_records, *overrides: str) -> config.Config:
    """The small job, its raw data on gs://."""
    text = (small_records.storage / "small.yaml").read_text()
    cloud.put("job.yaml", text.replace(f"{small_records.storage}/", f"{cloud.root}/raw/").encode())
    return config_file.load(f"{cloud.root}/job.yaml", [*PLACE, *overrides])


def test_places_that_workers_see_are_fine(cloud, small_records):
    wanted = small(cloud, small_records)
    assert dataflow.check_places(wanted, cloud.path("out")) is None
    assert cloud.names() == ["job.yaml"]


def test_records_on_a_disk_are_refused(cloud, small_records, tmp_path):
    with pytest.raises(errors.UsageError, match=r"Google's machines do not see. Use STORAGE=gs://"):
        dataflow.check_places(small(cloud, small_records), str(tmp_path))


def test_raw_data_on_a_disk_is_refused(cloud, small_records):
    wanted = small(cloud, small_records, "data.inputs.test.images=/data/x")
    with pytest.raises(
        errors.UsageError, match=r"^data.inputs.test.images: '/data/x' is on this machine.*Copy it"
    ):
        dataflow.check_places(wanted, cloud.path("out"))


def test_a_bucket_in_another_region_is_refused(cloud, small_records):
    wanted = small(cloud, small_records, "gcp.region=us-east1")
    with pytest.raises(
        errors.UsageError, match=r"bucket is in europe-west4, the job would be in u"
    ):
        dataflow.check_places(wanted, cloud.path("out"))


def test_what_cloud_storage_refuses_is_reported_before_anything_is_submitted(cloud, small_records):
    wanted = small(cloud, small_records)
    cloud.fault("POST .*/upload/", status=403, times=9)
    with pytest.raises(errors.UsageError, match=r"^Google's client: .*\(403\).*objectAdmin on the"):
        dataflow.check_places(wanted, cloud.path("out"))


def test_a_dry_run_shows_the_options_and_reads_nothing(tmp_path):
    done = commands.run(
        "preprocessing.main",
        "--config=mnist",
        "--cluster=gcp",
        "--dry_run",
        "--storage=gs://my-bucket/root",
        *(f"--set={one}" for one in PLACE),
        environment={"HTTPS_PROXY": "http://127.0.0.1:9"},
    )
    assert done.returncode == 0, done.stderr
    assert "--runner=DataflowRunner\n--project=my-project\n" in done.stdout


def test_workers_may_have_another_image_and_public_addresses():
    workers = settings.Dataflow(image=f"r/p-preprocessor@sha256:{'1' * 64}", public_ips=True)
    gcp = GCP.model_copy(update={"dataflow": workers, "image": None, "package": "gs://b/m.whl"})
    parsed = beam_options.build(dataflow.build_options("m", gcp), num_workers=1)
    options = parsed.view_as(pipeline_options.WorkerOptions)
    assert options.sdk_container_image == f"r/p-preprocessor@sha256:{'1' * 64}"
    assert options.use_public_ips is None
    assert parsed.view_as(pipeline_options.SetupOptions).extra_packages == ["gs://b/m.whl"]


def test_private_google_access_is_reported_before_with_the_command(cloud, small_records, capsys):
    dataflow.check_places(small(cloud, small_records), cloud.path("out"))
    said = capsys.readouterr().out
    command = "gcloud compute networks subnets update default --region=europe-west4"
    assert f"need Private Google Access: {command}" in said.replace("needs", "need")
    assert "temporary files stay in gs://my-bucket/dataflow" in said
    public = small(cloud, small_records, "gcp.dataflow={public_ips: true}")
    dataflow.check_places(public, cloud.path("out"))
    assert "Private Google Access" not in capsys.readouterr().out


def test_code_that_workers_could_not_run_is_refused(cloud, small_records):
    plain = small(cloud, small_records)
    dataflow.check_code(plain, (3, 11))
    with pytest.raises(errors.UsageError, match=r"this is Python 3.10, and the image has 3.11"):
        dataflow.check_code(plain, (3, 10))
    own = plain.data.model_copy(update={"source": "mine.sources:Table"})
    wanted = plain.model_copy(update={"data": own})
    with pytest.raises(errors.UsageError, match=r"data.source is in mine.sources, which the image"):
        dataflow.check_code(wanted, (3, 11))
    known = plain.gcp.model_copy(update={"image_modules": ("mine",)})
    dataflow.check_code(wanted.model_copy(update={"gcp": known}), (3, 11))
