"""The source of the reader's own in docs/sources.md, as printed there: from lines of text to a
model that has learned them."""

from __future__ import annotations

import json
import random

import pytest

from pipeline.config import config_file
from tests.support import pages

CELSIUS = {"kitchen": 21.0, "bedroom": 17.5, "cellar": 12.0}


@pytest.fixture
def project(tmp_path):
    """A folder with the module and the config of the page, and logs as it says."""
    for language, name in (("python", "readings.py"), ("yaml", "readings.yaml")):
        (tmp_path / name).write_text(pages.find_block("sources.md", language))
    (tmp_path / "logs").mkdir()
    draw = random.Random(1)
    for file in range(2):
        lines = []
        for number in range(1000):
            room = draw.choice(list(CELSIUS))
            celsius = draw.gauss(CELSIUS[room], 0.5)
            lines.append(f"id={1000 * file + number} celsius={celsius:.2f} room={room}\n")
        (tmp_path / "logs" / f"{file}.txt").write_text("".join(lines))
    return tmp_path


def test_its_config_is_valid(project):
    job = config_file.load(str(project / "readings.yaml"))
    assert job.data.source == "readings:Readings"


@pytest.mark.slow
def test_it_trains_as_printed(project):
    done = pages.run(project, "train", "--config=readings.yaml", "--run=r")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    result = json.loads((project / "output" / "runs" / "r" / "RESULT.json").read_text())
    # The noise of a room, which is all that cannot be learned, has a variance of 0.25.
    best = json.loads((project / "output" / "runs" / "r" / "best.json").read_text())
    assert best["value"] <= result["metrics"]["eval"]["average_loss"]
    assert result["metrics"]["eval"]["average_loss"] == pytest.approx(0.25, abs=0.1)
