import pytest

from pipeline import errors
from pipeline.runs import fatal
from pipeline.runs.run_folder import RunFolder


@pytest.fixture
def run(tmp_path) -> RunFolder:
    return RunFolder(str(tmp_path))


def fail(run: RunFolder, error: Exception, submission: str | None = "first") -> None:
    with fatal.fail_once(run, "worker-0", submission):
        raise error


@pytest.mark.parametrize("kind", [errors.UsageError, errors.DataError, errors.ModelError])
def test_what_failed_for_good_is_not_tried_again_in_its_submission(run, kind):
    with pytest.raises(kind, match=r"^bad$"):
        fail(run, kind("bad"))
    entered = []
    with (
        pytest.raises(kind, match=r"^worker-0 has failed for good: bad$"),
        fatal.fail_once(run, "chief-0", "first"),
    ):
        entered.append(1)
    assert not entered


def test_the_marker_holds_no_secret(run):
    with pytest.raises(errors.UsageError):
        fail(run, errors.UsageError("model.params.password: 'hunter2' is wrong"))
    assert "hunter2" not in str(run.read(fatal.MARKER))


@pytest.mark.parametrize("error", [errors.RetryableError("lost"), RuntimeError("bug")])
def test_what_may_succeed_is_tried_again(run, error):
    with pytest.raises(type(error)):
        fail(run, error)
    with fatal.fail_once(run, "worker-0", "first"):
        pass
    assert run.read(fatal.MARKER) is None


def test_the_next_submission_starts_from_the_beginning(run):
    with pytest.raises(errors.DataError):
        fail(run, errors.DataError("bad"))
    with fatal.fail_once(run, "worker-0", "second"):
        pass


def test_without_restarts_there_is_no_marker(run):
    with pytest.raises(errors.DataError):
        fail(run, errors.DataError("bad"), None)
    assert run.read(fatal.MARKER) is None


def test_a_restart_is_distinguished_from_the_first_start_of_a_submission(run):
    assert not fatal.has_begun(run, "first")
    fatal.begin(run, "first")
    assert fatal.has_begun(run, "first") and not fatal.has_begun(run, "second")
    fatal.begin(run, "second")
    assert fatal.has_begun(run, "second") and not fatal.has_begun(run, "first")
