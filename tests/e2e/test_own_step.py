"""The step of the reader's own in docs/features.md, as printed there, before a z_score: from raw
values to predictions and a Keras model, against NumPy on the raw values."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.pipeline.process_help import ROOT, child_environment
from tests.support import pages

ROWS = {"train": 2000, "eval": 200, "test": 200}
CONFIG = """\
name: own
data:
  source: csv
  inputs: {{{inputs}}}
  columns:
    amount: {{type: float32}}
    paid: {{type: float32}}
  label: paid
{features}
model: {{name: linear, params: {{task: regression}}}}
train: {{steps: 60, batch_size: 50, save_steps: 60, optimizer: {{name: adam, learning_rate: 0.1}}}}
eval: {{metric: average_loss}}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with the module, the config and three files, as the page says."""
    folder = tmp_path_factory.mktemp("own")
    features = pages.find_block("features.md", "yaml", "features:\n  amount")
    (folder / "my_steps.py").write_text(pages.find_block("features.md", "python"))
    rng = np.random.default_rng(8)
    for split, rows in ROWS.items():
        amounts = rng.uniform(-500, 9000, rows).astype(np.float32)
        lines = [f"{x!r},{np.sign(x) * abs(x) ** 0.25:.6f}" for x in amounts.tolist()]
        (folder / f"{split}.csv").write_text("\n".join(["amount,paid", *lines, ""]))
    inputs = ", ".join(f"{split}: {{files: {split}.csv}}" for split in ROWS)
    (folder / "own.yaml").write_text(CONFIG.format(inputs=inputs, features=features))
    return folder


def _run(project, module, *flags):
    environment = child_environment()
    path = [str(project), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    command = [sys.executable, "-m", module, f"--storage={project}/out", *flags]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def trained(project):
    flags = ("--config", f"{project}/own.yaml", "--run=own", "--strategy=none")
    done = _run(project, "pipeline.launch", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    return project / "out" / "runs" / "own"


def _column(path, name):
    with open(path) as file:
        return np.array([float(row[name]) for row in csv.DictReader(file)])


def _features(amounts):
    return np.sign(amounts) * np.abs(amounts) ** 0.25


# In `make test`, tests/pipeline/steps/test_base.py has steps of one's own and their statistics.
@pytest.mark.slow
def test_predictions_are_those_of_the_raw_values(project, trained):
    answers = project / "answers.csv"
    done = _run(
        project,
        "serving.predict",
        "--run=own",
        f"--input={project}/test.csv",
        f"--output={answers}",
    )
    assert done.returncode == 0, done.stdout + done.stderr
    read = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(trained)))
    weight = float(read.get_tensor("linear/linear_model/amount/weights").item())
    bias = float(read.get_tensor("linear/linear_model/bias_weights").item())
    assert abs(weight) > 1
    seen = _features(_column(project / "train.csv", "amount"))
    made = _features(_column(project / "test.csv", "amount"))
    wanted = bias + weight * (made - seen.mean()) / seen.std()
    found = _column(answers, "prediction")
    # The statistics are those of percentiles; without the step they would be 4000 and 2700.
    np.testing.assert_allclose(found, wanted, atol=0.05 * abs(weight))
    line = np.polyfit(made, found, 1)
    np.testing.assert_allclose(found, np.polyval(line, made), atol=1e-4 * abs(weight))


@pytest.mark.slow
def test_it_is_in_the_keras_model(project, trained):
    done = _run(project, "trainer.migrate", "--run=own")
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = trained.glob("migrated/**/model.keras")
    model = tf.keras.models.load_model(path)
    export = json.loads((trained / "run.json").read_text())["exports"]["final"]
    serve = tf.saved_model.load(str(trained / export)).signatures["serving_default"]
    x = np.array([-400.0, 0.0, 1.0, 8999.0], np.float32)
    [wanted] = serve(amount=tf.constant(x)).values()
    [found] = model({"amount": tf.constant(x)}).values()
    np.testing.assert_allclose(np.ravel(found), np.ravel(wanted), rtol=1e-5)


def test_without_a_claim_of_its_own_nothing_is_known_behind_it(project):
    code = (project / "my_steps.py").read_text()
    (project / "my_plain_steps.py").write_text(code[: code.index("    def statistics_after")])
    text = (project / "own.yaml").read_text().replace("my_steps:", "my_plain_steps:")
    (project / "plain.yaml").write_text(text)
    done = _run(project, "preprocessing.main", f"--config={project}/plain.yaml")
    assert done.returncode == 64
    assert (
        "features.amount: z_score needs the mean, not known after my_plain_steps:Power; set mean "
        "and deviation, or put z_score before my_plain_steps:Power"
    ) in done.stderr
