import re

from pipeline.config import config_file
from pipeline.launchers import image

ROOT = config_file.SHIPPED.parent


def test_it_lists_what_the_dockerfile_copies():
    text = (ROOT / "Dockerfile").read_text()
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.MULTILINE)
    assert sorted(copied) == sorted(image.COPIED)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().split() if line[0] == "!"}
    assert kept == set(image.COPIED)


def test_the_image_runs_without_root_on_locked_packages():
    text = (ROOT / "Dockerfile").read_text()
    assert "FROM python:3.11-slim" in text
    assert "--require-hashes -r requirements.lock" in text
    assert "ARG RUN_AS=pipeline\n" in text
    assert text.rindex("USER ${RUN_AS}") > text.rindex("COPY")
    beam = re.search(r"^apache-beam==(\S+)", (ROOT / "requirements.lock").read_text(), re.M)[1]
    assert f"apache/beam_python3.11_sdk:{beam} " in text


def test_tests_and_caches_are_not_in_it():
    names = [name for name, _ in image.contents()]
    assert "trainer/task.py" in names and "configs/mnist.yaml" in names
    assert not [name for name in names if name.startswith("tests/") or "__pycache__" in name]
    assert image.described().startswith(f"package: {len(names)} files, ")
