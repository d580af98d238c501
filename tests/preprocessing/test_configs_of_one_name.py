"""Commands on records of a config do not take those of another that has its name."""

from __future__ import annotations

import pytest

from tests.support import commands

_CONFIG = """
name: tiny
data:
  source: csv
  inputs: {train: {files: raw.csv}}
  columns: {x: {type: float32}, y: {type: int64}}
  label: y
  split: {eval: 0.1}
features: {x: {steps: [z_score]}}
model: {name: dnn, params: {classes: 2}}
train: {steps: 1, batch_size: 8}
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Records of `tiny` in two folders, those of b the newest."""
    folder = tmp_path_factory.mktemp("two")
    for name in "ab":
        (folder / name).mkdir()
        (folder / name / "tiny.yaml").write_text(_CONFIG)
        rows = (f"{(n + (name == 'b')) / 7},{n % 2}\n" for n in range(100))
        (folder / name / "raw.csv").write_text("x,y\n" + "".join(rows))
        done = commands.run_pipeline(
            "preprocess", f"CONFIG={folder}/{name}/tiny.yaml", _storage(folder)
        )
        assert done.returncode == 0, done.stderr
    return folder


def _storage(folder):
    return f"STORAGE={folder}/output"


@pytest.mark.parametrize(
    "command",
    [
        ["stats"],
        ["verify"],
        ["clean-records", "--dry_run"],
        ["replay-dead-letter"],
        ["drift", "A=tiny:train", "B=tiny:eval"],
    ],
    ids=lambda command: command[0],
)
def test_records_of_another_config_are_refused(root, command):
    done = commands.run_pipeline(*command, f"CONFIG={root}/a/tiny.yaml", _storage(root))
    line = commands.read_error_line(done)
    assert "the current records called 'tiny'" in line
    assert f"are of another config: its data.inputs.train.files is '{root}/b/raw.csv', not" in line


def test_records_of_other_columns_are_refused(root):
    path = root / "b" / "more.yaml"
    path.write_text(_CONFIG.replace("x: {type", "dose: {type: float32}, x: {type"))
    for command in ("stats", "verify"):
        done = commands.run_pipeline(command, f"CONFIG={path}", _storage(root))
        assert "it has other columns ('dose')" in commands.read_error_line(done)


def test_new_rows_of_the_same_inputs_are_of_the_same_config(root):
    path = root / "b" / "raw.csv"
    path.write_text(path.read_text() + "5,1\n")
    given = f"CONFIG={root}/b/tiny.yaml", _storage(root)
    assert commands.run_pipeline("preprocess", *given).returncode == 0
    for command in ("stats", "verify"):
        assert commands.run_pipeline(command, *given).returncode == 0


def test_limits_of_a_shipped_config_on_records_of_another_are_named(root):
    path = root / "b" / "flights.yaml"
    path.write_text(_CONFIG.replace("name: tiny", "name: flights"))
    assert commands.run_pipeline("preprocess", f"CONFIG={path}", _storage(root)).returncode == 0
    both = "A=flights:train", "B=flights:eval", _storage(root)
    done = commands.run_pipeline("drift", *both)
    assert done.stdout.startswith(
        "warning: the limits are of the shipped config 'flights', and the records may be of "
        f"another: its data.inputs.train.files is '{root}/b/raw.csv', not "
    )
    assert "warning" not in commands.run_pipeline("drift", *both, f"CONFIG={path}").stdout
