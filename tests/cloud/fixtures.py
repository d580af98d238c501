"""A Cloud Storage on loopback for a whole session, and clients that find it."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator

import pytest

from pipeline.storage import gcs_client
from tests.cloud.api import Api
from tests.cloud.faults import Fault
from tests.cloud.service import Service
from tests.pipeline.process_help import child_environment

BUCKET = "bucket"


@dataclasses.dataclass(frozen=True)
class Cloud:
    """The service, and an empty folder of it for one test."""

    api: Api
    root: str
    environment: dict[str, str]

    def path(self, name: str) -> str:
        """Returns the gs:// path of a name in the folder."""
        return f"{self.root}/{name}"

    def names(self, folder: str = "") -> list[str]:
        """Returns the names of all objects below the folder, or one in it."""
        start = self.root.partition(f"{BUCKET}/")[2] + "/"
        found = self.api.buckets.names(BUCKET, start + folder)
        return [name[len(start) :] for name in found]

    def put(self, name: str, data: bytes) -> str:
        """Puts an object there, past all clients; returns its path."""
        self.api.buckets.put(BUCKET, self.path(name).partition(f"{BUCKET}/")[2], data)
        return self.path(name)

    def data(self, name: str) -> bytes:
        """Returns what an object holds."""
        return self.api.buckets.data(BUCKET, self.path(name).partition(f"{BUCKET}/")[2])

    def fault(self, pattern: str, **how: object) -> Fault:
        """Lets a fault happen."""
        return self.api.faults.add(Fault(pattern, **how))


@pytest.fixture(scope="session")
def service(tmp_path_factory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("cloud"), BUCKET) as running:
        yield running


_counter = itertools.count()


@pytest.fixture
def cloud(service, monkeypatch) -> Iterator[Cloud]:
    """A folder of the service, which Google's client in this process talks to as well."""
    for name in list(os.environ):
        if name.lower() in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
            monkeypatch.delenv(name)
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    gcs_client.client_of.cache_clear()
    yield build_cloud(service, f"test{next(_counter)}")
    service.api.faults.clear()
    gcs_client.client_of.cache_clear()
    assert not service.api.problems


def build_cloud(service: Service, folder: str) -> Cloud:
    """Returns a folder of the service, and the environment of processes that are to find it.

    No other process has a folder of the same path: runs are locked on the machine by their paths.
    """
    environment = {
        name: value
        for name, value in child_environment().items()
        if name.lower() not in ("http_proxy", "https_proxy", "no_proxy", "all_proxy")
    }
    return Cloud(
        service.api, f"gs://{BUCKET}/{folder}-{os.getpid()}", {**environment, **service.environment}
    )
