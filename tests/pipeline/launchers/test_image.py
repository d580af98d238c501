import re

from pipeline.config import config_file
from pipeline.launchers import image, image_build

ROOT = config_file.SHIPPED.parent


def test_it_lists_what_the_dockerfile_copies():
    text = (ROOT / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert sorted(copied) == sorted(image.COPIED)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    assert kept == set(image.COPIED)


def test_the_image_runs_without_root_on_locked_packages():
    text = (ROOT / "Dockerfile").read_text()
    assert "--require-hashes -r requirements.lock" in text
    assert "--require-hashes -r requirements-gpu.lock" in text
    assert re.findall(r"pip install (?!--require-hashes)", text) == []
    assert text.rindex("USER 1000") > text.rindex("COPY")
    assert [line for line in text.splitlines() if line.startswith("FROM")] == [
        "FROM ${BEAM_IMAGE} AS beam",
        "FROM ${PYTHON_IMAGE} AS base",
        "FROM base AS preprocessor",
        "FROM base AS trainer",
    ]


def test_gpu_packages_are_locked_at_the_versions_of_all_others():
    plain, gpu = (
        dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", (ROOT / name).read_text(), re.M))
        for name in ("requirements.lock", "requirements-gpu.lock")
    )
    assert {name: gpu.get(name) for name in plain} == plain
    assert [name for name in gpu if name.startswith("nvidia-")]


def test_tests_and_caches_are_not_in_it():
    names = [name for name, _ in image.contents()]
    assert "trainer/task.py" in names and "configs/mnist.yaml" in names
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]
    assert image.describe().startswith(f"package: {len(names)} files, ")


def test_base_images_are_pinned_by_digest():
    """Cloud Build takes only what is here; docker and podman add what is missing."""
    lines = (ROOT / image_build.LOCK).read_text().splitlines()
    assert lines
    wanted = image_build.base_names(ROOT).values()
    for line in lines:
        name, _, digest = line.partition("@")
        assert name in wanted and re.fullmatch(r"sha256:[0-9a-f]{64}", digest)
