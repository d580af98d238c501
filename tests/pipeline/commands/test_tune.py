"""What `make tune` refuses before anything is written or started, and what it would do."""

from __future__ import annotations

import pytest

from tests.support import commands

SPACE = "train.optimizer.learning_rate: {low: 1e-4, high: 1e-1, log: true}\n"


def run(tmp_path, *words, space=SPACE, module="pipeline.commands.tune"):
    (tmp_path / "space.yaml").write_text(space)
    given = [f"--storage={tmp_path / 'out'}", f"--space={tmp_path / 'space.yaml'}", *words]
    done = commands.run(
        module, "--config=flights", *given, environment={"PYTHONPATH": str(tmp_path)}
    )
    assert not (tmp_path / "out").exists()
    return done


@pytest.mark.parametrize(
    ("space", "words", "message"),
    [
        ("", (), "is empty; give keys of the config"),
        (SPACE.replace("rate", "rat"), (), "(did you mean 'learning_rate'?)"),
        (SPACE, ("--trials=0",), "--trials=0: 0 is not a positive integer"),
        (SPACE, ("--method=asah",), "--method=asah: value should be one of <asha|median|pbt|full>"),
        (SPACE, ("--run=A B",), "the name of a search must be up to 36 lower-case letters"),
        (SPACE, ("--set=train.stpes=5",), "unknown key 'train.stpes' (did you mean 'steps'?)"),
        (SPACE, ("--method=full", "--rungs=3"), "--rungs: method full has none; use asha, median"),
        (
            SPACE,
            ("--method=median", "--reduction=3"),
            "--reduction: is of method asha, and this is",
        ),
        (
            SPACE,
            ("--set=train.pause_step=10",),
            "train.pause_step: the search decides how long trials train, and this ends them",
        ),
        (SPACE, ("--set=train.max_seconds=9",), 'or set SET="train.max_seconds=null"'),
        (
            SPACE,
            ("--cluster=slurm", "--set=slurm.array=0-4"),
            "slurm.array: a trial is one run. Take it out of the config, or set",
        ),
        (
            "model.params.dropout: {low: 0.0, high: 0.5}",
            ("--method=pbt",),
            "model.params.dropout: METHOD=pbt continues checkpoints with other settings",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, space, words, message):
    assert message in commands.read_error_line(run(tmp_path, *words, space=space))


@pytest.mark.parametrize("words", [(), ("--dry_run",)])
@pytest.mark.parametrize(("place", "missing"), [("k8s", "IMAGE="), ("gcp", "PROJECT=")])
def test_what_a_place_cannot_take_is_refused_before_there_are_trials(
    tmp_path, place, missing, words
):
    line = commands.read_error_line(run(tmp_path, f"--cluster={place}", *words))
    assert line.startswith(f"error: CLUSTER={place}: missing: {missing}")


def test_without_optuna_the_line_says_what_to_install(tmp_path):
    (tmp_path / "without_optuna.py").write_text(
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name: None if name == 'optuna' else find(name)\n"
        "from pipeline import cli\n"
        "from pipeline.commands import tune\n"
        "cli.run(tune.main)\n"
    )
    assert commands.read_error_line(run(tmp_path, module="without_optuna")) == (
        "error: tune needs Optuna, which is not installed: pip install 'estimator-pipeline[tune]'; "
        "in a checkout, the target tune of make installs it\n"
    )


def test_a_dry_run_shows_the_plan(tmp_path):
    done = run(tmp_path, "--dry_run", "--trials=9")
    assert done.returncode == 0, done.stderr
    assert "9 trials of flights, method asha, 3 rungs, sampler random, seed 1" in done.stdout
    assert "train.optimizer.learning_rate: {high: 0.1, log: true, low: 0.0001}" in done.stdout
    words = ("train.steps=900", "train.epochs=null", "train.batch_size=10")
    done = run(tmp_path, "--dry_run", *(f"--set={one}" for one in words))
    assert "rungs: 1,000, 3,000, 9,000 examples\n" in done.stdout, done.stderr
