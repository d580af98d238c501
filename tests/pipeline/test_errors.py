import errno
import importlib
import os
import sys

import pytest

from pipeline import errors


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.PipelineError, 1),
        (errors.UsageError, 64),
        (errors.DataError, 65),
        (errors.ModelError, 70),
        (errors.RetryableError, 75),
    ],
)
def test_exit_codes_are_a_contract(kind, code):
    error = errors.build_from_exit_code(code, "text")
    assert type(error) is kind and error.exit_code == code and str(error) == "text"


def test_bad_requests_and_data_are_value_errors():
    assert issubclass(errors.UsageError, ValueError)
    assert issubclass(errors.DataError, ValueError)


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.ENOSPC, errors.RetryableError, "Free some space"),
        (errno.EDQUOT, errors.RetryableError, "Free some space"),
        (errno.EACCES, errors.UsageError, "Choose a place you can write to with STORAGE="),
        (errno.EROFS, errors.UsageError, "Choose a place"),
        (errno.ENOTDIR, errors.UsageError, "Choose a place"),
        (errno.EEXIST, errors.UsageError, "Choose a place"),
        (errno.EIO, errors.RetryableError, "Run the same command again"),
    ],
)
def test_errors_of_the_system_say_what_to_do(number, kind, advice):
    error = errors.translate_os_error(OSError(number, "what happened"), "cannot write 'x'")
    assert type(error) is kind
    assert str(error).startswith("cannot write 'x': what happened. ") and advice in str(error)


@pytest.mark.parametrize(
    ("raised", "kind", "text"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/f"), errors.RetryableError, "'/f'"),
        # As TensorFlow's writer of events says it.
        (
            RuntimeError("/r/events.7; No space left on device\n\tFailed to flush"),
            errors.RetryableError,
            "'/r/events.7': No space left on device. Free",
        ),
        (RuntimeError("/r/e; Read-only file system"), errors.UsageError, "'/r/e': Read-only fi"),
    ],
)
def test_a_full_disk_is_recognised_from_any_library(raised, kind, text):
    found = errors.translate_disk_error(raised)
    assert type(found) is kind
    assert str(found).startswith(f"cannot write {text}")


def test_what_is_not_of_the_disk_is_of_another_kind():
    assert errors.translate_disk_error(errors.DataError("ours: No space left on device")) is None
    assert errors.translate_disk_error(RuntimeError("3 rows are left on device")) is None
    assert errors.translate_disk_error(OSError(errno.EIO, os.strerror(errno.EIO))) is None


def test_storage_that_was_there_is_named_and_may_come_back():
    text = "Node: 'IteratorGetNext'\n/r/train-1; No such file or directory\n\t [[{{node x}}]]"
    found = errors.translate_lost_storage(RuntimeError(text))
    assert str(found).startswith("cannot read '/r/train-1': No such file or directory. See that ")
    assert found.exit_code == 75
    assert errors.translate_lost_storage(RuntimeError("key w not found in checkpoint")) is None


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("stesp", " (did you mean 'steps'?)"),
        ("SEED", " (did you mean 'seed'?)"),
        ("xyz", ""),
        ("", ""),
    ],
)
def test_the_nearest_known_word(word, hint):
    assert errors.suggest(word, ["steps", "seed"]) == hint


def test_the_nearest_word_is_another_one():
    assert errors.suggest("seed", ["steps", "seed"]) == ""
    assert errors.suggest("Seed", ["steps", "seed"]) == " (did you mean 'seed'?)"


def test_what_has_been_reported_has_no_text():
    error = errors.ReportedError(65)
    assert (str(error), error.exit_code) == ("", 65)


def test_a_code_of_no_error_of_ours_is_kept():
    error = errors.build_from_exit_code(3, "text")
    assert (type(error), error.exit_code, str(error)) == (errors.PipelineError, 3, "text")


def test_no_failure_ends_with_0():
    with pytest.raises(ValueError, match="exit code 0 is of no failure: text"):
        errors.build_from_exit_code(0, "text")


def test_names_with_newlines_leave_an_error_one_line():
    error = errors.UsageError("--slices 'foo': not one of the columns a\nb, c\x1b[2J, d\u2028é, e")
    assert str(error) == "--slices 'foo': not one of the columns a\\nb, c\\x1b[2J, d\\u2028é, e"
    assert str(errors.DataError(str(error))) == str(error)


@pytest.mark.parametrize("name", ["tensorflow", "numpy"])
def test_a_library_that_cannot_be_imported_is_named(tmp_path, monkeypatch, name):
    said = "libsome.so.2: cannot open shared object file"
    raised = imported(
        tmp_path, monkeypatch, name, f'raise ImportError("\\nSorry:\\n{said}\\nmore")'
    )
    error = errors.translate_import_error(raised)
    assert str(error).startswith(
        f"{name} cannot be imported: {said}. Something it needs is missing"
    )
    assert str(error).endswith(
        "other versions are installed than are locked: make setup installs those"
    )
    assert error.exit_code == 64


@pytest.mark.parametrize("text", ['raise ImportError("own")', "import no_such_module", "1 / 0"])
def test_modules_of_ones_own_keep_their_traceback(tmp_path, monkeypatch, text):
    assert errors.translate_import_error(imported(tmp_path, monkeypatch, "mymodel", text)) is None


def imported(tmp_path, monkeypatch, name, text):
    """Returns what the import of a module of such a text raises."""
    (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(Exception) as caught:
        importlib.import_module(name)
    return caught.value


PLACE = """Graph execution error:

Detected at node 'PyFunc' defined at (most recent call last):
    File "<string>", line 3, in <module>
    File "m.py", line 5, in network
      y = tf.numpy_function(look_up, [x], tf.float32)
Node: 'PyFunc'
"""
# As TensorFlow puts it into an error of its own, if a Python function that it calls fails.
TRACEBACK = """Traceback (most recent call last):

  File "python/ops/script_ops.py", line 270, in __call__
    ret = func(*args)
          ^^^^^^^^^^^

{raised}


\t [[{{{{node PyFunc}}}}]]

Original stack trace for 'PyFunc':
  File "<string>", line 3, in <module>
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            f"{PLACE}=====================\nINVALID_ARGUMENT: From /job:worker/replica:0/task:1:\n"
            "Input is not invertible.\n\t [[{{node MatrixInverse}}]]",
            "Input is not invertible.",
        ),
        ("=====================\nSocket closed", "Socket closed"),
        ("From /job:ps/replica:0/task:0:\nSocket closed\nAdditional GRPC", "Socket closed"),
        ("2 root error(s) found.\n  (0) ABORTED: Socket closed", "(0) ABORTED: Socket closed"),
        ("=====\n-----", "RuntimeError"),
        ("", "RuntimeError"),
        ("Graph execution error:", "Graph execution error"),
        ('File "m.py" is missing', 'File "m.py" is missing'),
        ('in user code:\n    File "m.py", line 3\n    RuntimeError: no', "no"),
    ],
)
def test_the_first_line_that_says_something(text, line):
    assert errors.find_first_line(RuntimeError(text)) == line


@pytest.mark.parametrize(
    "place",
    [
        PLACE,
        PLACE + "From /job:worker/replica:0/task:0:\n",
        PLACE + "2 root error(s) found.\n  (0) UNKNOWN:  ",
        "",
    ],
)
@pytest.mark.parametrize(
    ("raised", "said"),
    [
        ("KeyError: 'EMB_LOG'", "KeyError: 'EMB_LOG'"),
        ("Odd: two\nlines: of it\n\nmore", "Odd: two"),
        ("ValueError: ", "ValueError"),
    ],
)
def test_what_a_python_function_in_a_graph_raises_is_the_cause(place, raised, said):
    text = f"{place}{raised}\n{TRACEBACK.format(raised=raised)}"
    assert errors.describe(RuntimeError(text)) == said


@pytest.mark.parametrize("number", [errno.ENOENT, errno.EIO])
def test_a_file_that_a_python_function_in_a_graph_lacks_is_not_lost_storage(number):
    error = OSError(number, os.strerror(number), "/words.txt")
    raised = f"{type(error).__name__}: {error}"
    found = RuntimeError(f"{PLACE}{raised}\n{TRACEBACK.format(raised=raised)}")
    assert errors.translate_lost_storage(found) is None
    assert errors.describe(found) == raised


def test_other_errors_have_the_name_of_their_class():
    assert errors.describe(KeyError("x")) == "KeyError: 'x'"
    assert errors.describe(ValueError(f"{PLACE}Input: bad")) == "ValueError: Input: bad"
    text = "Traceback (most recent call last):\n  File \"m.py\", line 3\nKeyError: 'x'"
    assert errors.describe(RuntimeError(text)) == "KeyError: 'x'"
