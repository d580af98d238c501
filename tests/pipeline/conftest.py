"""A launcher of fake stages."""

import pytest

from tests.pipeline.launching import Launch


@pytest.fixture
def launch(tmp_path):
    starter = Launch(tmp_path / "storage")
    yield starter
    for process in starter.started:
        if process.poll() is None:
            process.kill()
            process.communicate()
