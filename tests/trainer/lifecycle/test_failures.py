"""Which of TensorFlow's failures become which of ours."""

from __future__ import annotations

import errno
import pathlib

import pytest
import tensorflow as tf

from pipeline import errors
from pipeline.processes import signals
from pipeline.runs import run_folder
from pipeline.runs.run_folder import RunFolder
from tests.trainer import small_checkpoints
from trainer.lifecycle import failures
from trainer.monitoring.status_reporter import Reporter

_tf = tf.errors


@pytest.fixture
def run(tmp_path):
    return RunFolder(str(tmp_path))


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (tf.estimator.NanLossDuringTrainingError(), errors.ModelError, "the loss is not a number"),
        (_tf.DataLossError(None, None, "corrupted\nmore"), errors.DataError, "is damaged: corrupt"),
        (_tf.UnavailableError(None, None, "gone"), errors.RetryableError, "a peer was lost: gone"),
        (_tf.AbortedError(None, None, "reset"), errors.RetryableError, "a peer was lost: reset"),
        (
            _tf.UnavailableError(
                None, None, "Graph execution error:\n\nFrom /job:ps/task:0:\nSocket closed\nMore"
            ),
            errors.RetryableError,
            "a peer was lost: Socket closed",
        ),
        (_tf.ResourceExhaustedError(None, None, "oom"), errors.RetryableError, "out of memory or"),
        (
            OSError(errno.ENOSPC, "full", "f"),
            errors.RetryableError,
            "access 'f': full. Free",
        ),
        (
            FileNotFoundError(errno.ENOENT, "gone", "f"),
            errors.DataError,
            r"^cannot open 'f': No such file or directory\. Bring it back, then run the same",
        ),
        (FileNotFoundError("gs://b/f"), errors.DataError, "^cannot open 'gs://b/f': No such"),
        (OSError(errno.EACCES, "no", "f"), errors.UsageError, "cannot access 'f': no. Choose"),
        (RuntimeError("/r/e; No space left on device"), errors.RetryableError, "write '/r/e': No"),
        (errors.DataError("as it is"), errors.DataError, "^as it is$"),
    ],
)
def test_failures_get_their_exit_code_and_one_line(run, raised, kind, text):
    reporter = Reporter(run, "worker-0", 10)
    with pytest.raises(kind, match=text) as caught, failures.report_failures(reporter):
        raise raised
    status = run_folder.read_statuses(run)["worker-0"]
    assert (status.state, status.exit_code) == ("failed", kind.exit_code)
    assert status.error == str(caught.value)
    assert "\n" not in status.error


def test_a_variable_that_a_checkpoint_lacks_is_never_there_the_next_time(run, tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.get_variable("w", initializer=1.0).initializer)
        saved = tf.compat.v1.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for name in ("w", "scope/late"):
            tf.compat.v1.get_variable(name, initializer=1.0)
        saver = tf.compat.v1.train.Saver()
        reporter = Reporter(run, "evaluator-0", 10)
        lacks = r"^the checkpoint lacks the variable 'scope/late', which model_fn makes in one mode"
        with pytest.raises(errors.ModelError, match=lacks), failures.report_failures(reporter):
            saver.restore(session, saved)
    assert run_folder.read_statuses(run)["evaluator-0"].exit_code == 70


@pytest.mark.parametrize("damage", [small_checkpoints.cut_data, small_checkpoints.flip_data])
def test_a_damaged_checkpoint_is_not_called_a_record(run, tmp_path, damage):
    (saved,) = small_checkpoints.save(tmp_path, 1)
    damage(saved)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.get_variable("weights", [100])
        is_damaged = pytest.raises(errors.RetryableError, match=r"^a checkpoint is damaged: ")
        with is_damaged, failures.report_failures(Reporter(run, "evaluator-0", 10)):
            tf.compat.v1.train.Saver().restore(session, saved)


def test_a_bug_keeps_its_own_error(run):
    with pytest.raises(KeyError, match="x"), failures.report_failures(Reporter(run, "chief-0", 10)):
        raise KeyError("x")
    status = run_folder.read_statuses(run)["chief-0"]
    assert (status.state, status.exit_code, status.error) == ("failed", 1, "KeyError: 'x'")


def test_an_error_of_a_models_code_is_printed_behind_its_places(run):
    places = 'in user code:\n\n    File "m.py", line 7, in f  *\n        g(x)\n'
    raised = RuntimeError(f"{places}\n    RuntimeError: no such layer\n")
    with pytest.raises(RuntimeError), failures.report_failures(Reporter(run, "chief-0", 10)):
        raise raised
    assert run_folder.read_statuses(run)["chief-0"].error == "RuntimeError: no such layer"


@pytest.mark.parametrize(
    "raised",
    [errors.RetryableError("stopped, saved at step 7"), _tf.UnavailableError(None, None, "ps")],
)
def test_a_role_asked_to_stop_has_not_failed(run, raised):
    signals.stop_requested.set()
    try:
        with (
            pytest.raises(errors.RetryableError),
            failures.report_failures(Reporter(run, "worker-0", 10)),
        ):
            raise raised
    finally:
        signals.stop_requested.clear()
    status = run_folder.read_statuses(run)["worker-0"]
    assert (status.state, status.exit_code) == ("stopped", 75)


def test_an_interrupt_before_training_is_a_stop_too(run):
    reporter = Reporter(run, "worker-0", 10)
    with pytest.raises(KeyboardInterrupt), failures.report_failures(reporter):
        raise KeyboardInterrupt
    assert run_folder.read_statuses(run)["worker-0"].state == "stopped"


@pytest.mark.parametrize("op", [tf.numpy_function, tf.py_function])
@pytest.mark.parametrize(
    ("look_up", "said"),
    [
        (lambda _: {}["EMB_LOG"], "KeyError: 'EMB_LOG'"),
        (lambda _: float("x"), "ValueError: could not convert string to float: 'x'"),
        (
            lambda _: pathlib.Path("/none").read_text(),
            "FileNotFoundError: [Errno 2] No such file or directory: '/none'",
        ),
    ],
)
def test_an_exception_in_an_op_of_the_users_own_is_the_cause(run, op, look_up, said):
    reporter = Reporter(run, "worker-0", 10)
    with tf.Graph().as_default():
        made = op(look_up, [1.0], tf.float32)
        with (
            tf.compat.v1.Session() as session,
            pytest.raises(tf.errors.OpError),
            failures.report_failures(reporter),
        ):
            session.run(made)
    status = run_folder.read_statuses(run)["worker-0"]
    assert (status.error, status.exit_code) == (said, 1)
