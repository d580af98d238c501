"""Beam's own client of gs://, as pipelines and transforms of users use it, unchanged."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.cloud.api import Api
from tests.pipeline.process_help import ROOT

BEAM = "apache-beam"
PIPELINE = """
import sys
import apache_beam as beam
from preprocessing.runners import beam_options

folder = sys.argv[1]
options = beam_options.build([], num_workers=1)
with beam.Pipeline(beam_options.choose_runner(options), options) as pipeline:
    _ = (
        pipeline
        | beam.io.ReadFromText(folder + "/raw/*.txt")
        | beam.Map(str.upper)
        | beam.io.WriteToText(folder + "/out/lines", shard_name_template="")
    )
found = beam.io.filesystems.FileSystems.match([folder + "/out/*"])[0].metadata_list
print([one.path for one in found])
"""


def run(root: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PIPELINE, root],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture
def public(service) -> str:
    """A bucket open to everyone: without its extra for gcp, Beam has no credentials."""
    service.api.public.add("public")
    service.api.buckets.make("public")
    yield "public"
    service.api.public.clear()


def put(api: Api, bucket: str, folder: str) -> None:
    for number in range(3):
        text = "".join(f"line {line} of file {number}\n" for line in range(200))
        api.buckets.put(bucket, f"{folder}raw/{number}.txt", text.encode())


def check(api: Api, bucket: str, folder: str, said: str) -> None:
    assert said == f"['gs://{bucket}/{folder}out/lines']\n"
    lines = api.buckets.data(bucket, f"{folder}out/lines").decode().splitlines()
    assert sorted(lines) == sorted(f"LINE {i} OF FILE {n}" for n in range(3) for i in range(200))
    assert not api.problems


def test_it_reads_writes_and_lists(cloud, public):
    api = cloud.api
    put(api, public, "")
    api.seen.clear()
    said = run(f"gs://{public}", {**cloud.environment, "GOOGLE_APPLICATION_CREDENTIALS": ""})
    check(api, public, "", said)
    # A client of another test may look after its credentials in a thread of its own.
    others = {seen.host for seen in api.seen} - {"iamcredentials.googleapis.com"}
    assert others == {"storage.googleapis.com"}


def test_it_tries_again_what_fails_now_and_then(cloud, public):
    api = cloud.api
    put(api, public, "again/")
    waiting = [
        cloud.fault("GET .*raw/1.txt", status=503, times=2),
        cloud.fault("GET .*raw/2.txt", kind="cut_download"),
        cloud.fault("POST .*/upload/", status=429),
    ]
    check(api, public, "again/", run(f"gs://{public}/again", cloud.environment))
    assert [fault for fault in waiting if fault.times] == []


@pytest.mark.skipif(
    importlib.util.find_spec("google_auth_httplib2") is None,
    reason="Beam finds credentials with its extra for gcp only",
)
def test_beam_with_its_extra_has_credentials(cloud):
    folder = cloud.root.partition("bucket/")[2] + "/"
    put(cloud.api, "bucket", folder)
    cloud.api.seen.clear()
    check(cloud.api, "bucket", folder, run(cloud.root, cloud.environment))
    assert [seen for seen in cloud.api.seen if BEAM in seen.client]
