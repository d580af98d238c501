"""Building images, with a program in the place of docker, podman or gcloud that notes its calls."""

import dataclasses
import json
import pathlib

import pytest

from pipeline import errors
from pipeline.launchers import image_build
from tests.pipeline.launchers import image_hub

NAME = "europe-west4-docker.pkg.dev/p/images/estimator-pipeline:1"
PATH = NAME.removesuffix(":1")
DIGESTS = {letter: f"sha256:{letter * 64}" for letter in "abcd"}
PYTHON, BEAM = "python:3.11-slim", "apache/beam_python3.11_sdk:2.72.0"
DOCKER = f"""#!/bin/sh
echo "${{0##*/}} $*" >>"$CALLS"
case "$*" in
  "image inspect"*{PYTHON}) echo "python@{DIGESTS["a"]}";;
  "image inspect"*{BEAM}) echo "apache/beam_python3.11_sdk@{DIGESTS["b"]}";;
  "image inspect"*preprocessor*)
    echo "elsewhere@{DIGESTS["a"]}"
    echo "{PATH}-preprocessor@{DIGESTS["d"]}";;
  "image inspect"*) echo "{PATH}@{DIGESTS["c"]}";;
  push*)
    test -z "$REFUSES" && exit 0
    echo "some progress" >&2
    echo "denied: no access" >&2
    exit 1;;
esac
"""
IMAGES = [
    {"name": NAME, "digest": DIGESTS["c"]},
    {"name": f"{PATH}-preprocessor:1", "digest": DIGESTS["d"]},
]
GCLOUD = f"""#!/bin/sh
echo "gcloud $*" >>"$CALLS"
for word in "$@"; do
  case "$word" in --config=*) /bin/cp "${{word#--config=}}" "$CALLS.json";; esac
done
echo '{json.dumps({"results": {"images": IMAGES}})}'
"""
MADE = {"trainer": f"{PATH}@{DIGESTS['c']}", "preprocessor": f"{PATH}-preprocessor@{DIGESTS['d']}"}


@pytest.fixture
def build(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    (tmp_path / "requirements.lock").write_text("apache-beam==2.72.0 \\\n")
    return image_build.ImageBuild(NAME, cuda=True, root=tmp_path, say=lambda line: None)


def install(build, name, text):
    program = build.root / "bin" / name
    program.write_text(text)
    program.chmod(0o755)


def calls(build):
    return (build.root / "calls").read_text().splitlines()


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_both_targets_are_built_pushed_and_named_by_digest(build, name):
    install(build, name, DOCKER)
    assert image_build.run(build, name) == MADE
    bases = f"{PYTHON}@{DIGESTS['a']}", f"{BEAM}@{DIGESTS['b']}"
    assert (build.root / "images.lock").read_text().split() == [*bases]
    given = f"--build-arg=PYTHON_IMAGE={bases[0]} --build-arg=BEAM_IMAGE={bases[1]}"
    (first,) = [line for line in calls(build) if "--target=trainer" in line]
    assert f"{given} --build-arg=CUDA=1 --tag={NAME} {build.root}" in first
    assert f"{name} push {PATH}-preprocessor:1" in calls(build)


def test_base_images_are_looked_up_once(build):
    install(build, "docker", DOCKER)
    image_build.run(build)
    image_build.run(build)
    assert [line for line in calls(build) if "pull" in line] == [
        f"docker pull {PYTHON}",
        f"docker pull {BEAM}",
    ]


def test_cloud_build_does_the_same(build):
    install(build, "gcloud", GCLOUD)
    lock = build.root / "images.lock"
    lock.write_text(f"{PYTHON}@{DIGESTS['a']}\n{BEAM}@{DIGESTS['b']}\n")
    assert image_build.run(build, "gcloud") == MADE
    sent = json.loads(pathlib.Path(f"{build.root / 'calls'}.json").read_text())
    assert sent["images"] == [NAME, f"{PATH}-preprocessor:1"]
    assert f"--build-arg=PYTHON_IMAGE={PYTHON}@{DIGESTS['a']}" in sent["steps"][0]["args"]


def test_cloud_build_has_docker_hub_asked_for_the_digests_that_are_missing(build):
    install(build, "gcloud", GCLOUD)
    lock = build.root / "images.lock"
    lock.write_text(f"{PYTHON}@{DIGESTS['a']}\n")
    with image_hub.serve({BEAM: DIGESTS["b"], f"library/{PYTHON}": DIGESTS["c"]}) as registry:
        build = dataclasses.replace(build, registry=registry)
        assert image_build.run(build, "gcloud") == MADE
        assert lock.read_text().split() == [f"{PYTHON}@{DIGESTS['a']}", f"{BEAM}@{DIGESTS['b']}"]
        lock.unlink()
        image_build.run(build, "gcloud")
    assert lock.read_text().split()[0] == f"{PYTHON}@{DIGESTS['c']}"


def test_a_registry_that_does_not_give_a_digest_is_reported(build):
    install(build, "gcloud", GCLOUD)
    with image_hub.serve({f"library/{PYTHON}": "latest"}) as registry:
        build = dataclasses.replace(build, registry=registry)
        with pytest.raises(errors.UsageError, match=rf"has no digest of {PYTHON}.*'latest'. Add a"):
            image_build.run(build, "gcloud")
    with pytest.raises(errors.UsageError, match=rf"{PYTHON}, and Docker Hub does not.*refused"):
        image_build.run(build, "gcloud")


@pytest.mark.parametrize("name", ["mine", "host/mine", "host/mine:a b", "host/Mine:1", "-x/y:1"])
def test_names_without_registry_or_tag_are_refused(build, name):
    with pytest.raises(errors.UsageError, match=f"IMAGE={name}: must be a registry"):
        image_build.run(image_build.ImageBuild(name, root=build.root))


def test_without_a_builder_it_reports_it(build):
    with pytest.raises(errors.UsageError, match="needs docker, podman or gcloud"):
        image_build.run(build)
    install(build, "podman", DOCKER)
    with pytest.raises(errors.UsageError, match="BUILDER=docker: is not installed"):
        image_build.run(build, "docker")


def test_what_a_builder_says_last_is_reported(build, monkeypatch):
    install(build, "docker", DOCKER)
    monkeypatch.setenv("REFUSES", "1")
    with pytest.raises(errors.RetryableError, match="docker push failed: denied: no access"):
        image_build.run(build)
