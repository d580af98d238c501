"""The command, as a process of its own."""

from __future__ import annotations

import json

from pipeline.config import config_file
from tests.preprocessing import tables
from tests.support import commands


def test_by_hand(tmp_path):
    (tmp_path / "in.csv").write_text(tables.text(*tables.rows(20), "x,a,1,0"))
    config = tmp_path / "table.yaml"
    loaded = tables.make_config(tmp_path / "in.csv", error_budget=1)
    config.write_text(config_file.dump(loaded))
    flags = (f"--config={config}", f"--storage={tmp_path}")
    assert commands.run("preprocessing.main", *flags).returncode == 0
    done = commands.run("preprocessing.replay_dead_letters", *flags)
    assert done.returncode == 64 and "no line was edited" in done.stderr
    (path,) = tmp_path.glob("records/table/*/dead_letter/train.jsonl")
    letter = json.loads(path.read_text())
    letter["raw"]["id"] = 20
    (tmp_path / "fixed.jsonl").write_text(json.dumps(letter))
    fixed = f"--fixed={tmp_path}/fixed.jsonl"
    done = commands.run("preprocessing.replay_dead_letters", *flags, fixed)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("replayed 1 corrected rows:\n  id type: 1 of 1 accepted\n")
