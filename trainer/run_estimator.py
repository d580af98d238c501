"""`trainer.run`, without TensorFlow until it is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def run(
    estimator: Any,
    train_spec: Any,
    eval_spec: Any,
    *,
    run: str | None = None,
    storage: str = "output",
    settings: Mapping[str, Any] | None = None,
) -> tuple[dict[str, float] | None, list[str]]:
    """Trains, evaluates and exports an Estimator of your own, in place of
    `tf.estimator.train_and_evaluate`: see docs/own-script.md.

    Args:
      estimator: a `tf.estimator.Estimator`; its `model_dir` is not used.
      train_spec: a `tf.estimator.TrainSpec` with `max_steps`.
      eval_spec: a `tf.estimator.EvalSpec`.
      run: name of the run; without one that of the script. Its folder is `<storage>/runs/<run>`.
        A process of `estimator-pipeline run` is part of the run of that command.
      storage: root of everything written.
      settings: keys of a config, such as `{"eval.metric": "accuracy"}`.

    Returns:
      The metrics of the final checkpoint, if this process has evaluated it, and the folders of the
      exported models.

    Raises:
      SystemExit: after one line on stderr, with the exit code of what went wrong.
    """
    from trainer import script
    from trainer.input.script_input import ScriptSpecs

    given = ScriptSpecs(estimator, train_spec, eval_spec)
    return script.run(given, run, storage, settings=settings or {})
