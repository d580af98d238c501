"""A double of the Kubernetes API, and a launcher of jobs there."""

from __future__ import annotations

import pytest

from pipeline.launchers import remote_records
from tests.pipeline.launchers.k8s import api as apis
from tests.pipeline.launchers.k8s.following import Following


@pytest.fixture
def api(tmp_path, monkeypatch):
    with apis.serve() as made:
        apis.write_kubeconfig(tmp_path / "kubeconfig", made.port)
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
        monkeypatch.setenv("HOME", str(tmp_path))  # kubectl keeps what it discovers there
        made.put("persistentvolumeclaims", "data")
        yield made


@pytest.fixture
def following(api, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_records, "attach_records", lambda job: job)
    monkeypatch.setattr(remote_records, "pin", lambda job, record: job)
    return Following(api, str(tmp_path / "shared"))
