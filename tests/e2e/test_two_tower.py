"""`two_tower` on a chief, a worker and a parameter server, from the command line to an index."""

from __future__ import annotations

import json
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from tests.pipeline.process_help import ROOT, child_environment
from tests.support import towers

pytestmark = pytest.mark.slow


def _run(folder, module, *flags):
    subprocess.run(
        [sys.executable, "-m", module, f"--storage={folder / 'output'}", *flags],
        cwd=ROOT,
        env=child_environment(),
        check=True,
        timeout=300,
    )


def test_it_trains_on_servers_and_makes_an_index(tmp_path):
    table = "\n".join([",".join(towers.NAMES), *towers.make_rows(), ""])
    (tmp_path / "rows.csv").write_text(table)
    (tmp_path / "job.yaml").write_text(towers.CONFIG)
    (tmp_path / "items.csv").write_text("item,price\ni1,1\ni2,2\n")
    cluster = ("--strategy=parameter_server", "--workers=1", "--ps=1")
    _run(tmp_path, "pipeline.launch", f"--config={tmp_path}/job.yaml", "--run=r", *cluster)
    record = json.loads((tmp_path / "output/runs/r/run.json").read_text())
    assert (record["status"], record["strategy"]) == ("done", "parameter_server")
    asked = (f"--input={tmp_path}/items.csv", f"--output={tmp_path}/index.parquet")
    _run(tmp_path, "serving.predict", "--run=r", "--signature=item", *asked)
    index = pq.read_table(tmp_path / "index.parquet").to_pydict()
    assert index["key_item"] == ["i1", "i2"] and [len(v) for v in index["item"]] == [5, 5]
