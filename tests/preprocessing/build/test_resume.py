"""What a run uses of those before it that were killed, and why it starts over otherwise."""

from __future__ import annotations

import contextlib
import io
import os
import pathlib

import pytest

from pipeline import config, errors, storage
from pipeline.config import splits
from pipeline.records import builds
from pipeline.runs import run_folder
from preprocessing.build import beam_pipeline, finished, job, reporting, resume
from preprocessing.dead_letters import corrections
from preprocessing.shards import record_folders
from preprocessing.sources import base
from preprocessing.sources.csv import CsvSource
from tests.preprocessing import tables

ROWS = 400
CHUNKS = 16


class _Killed(RuntimeError):
    """Ends a run."""


@pytest.fixture
def table(tmp_path) -> config.Config:
    """A table of some chunks, with bad rows within the budget."""
    rows = tables.rows(ROWS)
    rows[7] = rows[300] = "x,n,1,1"
    (tmp_path / "in.csv").write_text(tables.text(*rows))
    return tables.make_config(tmp_path / "in.csv", error_budget=5)


@pytest.fixture
def root(tmp_path) -> pathlib.Path:
    return tmp_path / "output"


def _run(job_config, root, **options) -> str:
    """Returns what was printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        job.run(job_config, str(root), sizes=base.Sizes(300, 600), **options)
    return said.getvalue()


def _kill(job_config, root, monkeypatch, after: int = 5) -> None:
    """Runs until so many chunks are read, and leaves what a process would that is gone then."""
    read, chunks = CsvSource.read, []

    def counted(self, chunk):
        chunks.append(chunk)
        if len(chunks) > after:
            raise _Killed
        return read(self, chunk)

    with monkeypatch.context() as patched:
        patched.setattr(CsvSource, "read", counted)
        for name in ("remove", "abandon"):
            patched.setattr(record_folders, name, lambda path: None)
        with pytest.raises(RuntimeError, match="_Killed"):
            _run(job_config, root)


def _end(job_config, root, monkeypatch, error: BaseException, after: int = 5) -> None:
    """Runs until so many chunks are read; `error` ends it then."""
    run_beam, read, chunks = beam_pipeline.run, CsvSource.read, []

    def counted(self, chunk):
        chunks.append(chunk)
        if len(chunks) > after:
            raise _Killed
        return read(self, chunk)

    def ended(*args, **options):
        try:
            run_beam(*args, **options)
        except RuntimeError:
            raise error from None

    with monkeypatch.context() as patched:
        patched.setattr(CsvSource, "read", counted)
        patched.setattr(beam_pipeline, "run", ended)
        with pytest.raises(type(error)):
            _run(job_config, root)


def _folder(root, job_config) -> pathlib.Path:
    return pathlib.Path(run_folder.records_folder(str(root), job_config.name))


def _files(root, job_config) -> dict[str, bytes]:
    """Returns the files of the current build; nothing else may be there."""
    build = pathlib.Path(builds.find_current(str(_folder(root, job_config))))
    names = {path.name for path in _folder(root, job_config).glob("[!.]*")}
    assert names - {corrections.FILE_NAME} == {"current.json", build.name}
    files = (path for path in build.rglob("*") if path.is_file())
    return {str(path.relative_to(build)): path.read_bytes() for path in files}


def _temporary(root, job_config) -> pathlib.Path:
    (found,) = _folder(root, job_config).glob("_tmp-*")
    return found


def _assert_as_if_undisturbed(job_config, root, tmp_path) -> None:
    _run(job_config, tmp_path / "undisturbed")
    assert _files(root, job_config) == _files(tmp_path / "undisturbed", job_config)


def test_a_run_uses_what_a_killed_one_has_finished(table, root, tmp_path, monkeypatch):
    _kill(table, root, monkeypatch, after=4)
    _kill(table, root, monkeypatch, after=3)
    said = _run(table, root)
    assert f"an unfinished run had finished 7 of {CHUNKS} pieces (" in said and "using them" in said
    _assert_as_if_undisturbed(table, root, tmp_path)


@pytest.mark.parametrize("update", [{"key": ("id",)}, {"key": ("id",), "error_budget": 0.5}])
def test_with_a_key_too(table, root, tmp_path, monkeypatch, update):
    table = table.model_copy(update={"data": table.data.model_copy(update=update)})
    _kill(table, root, monkeypatch)
    assert "had finished 5 of" in _run(table, root)
    _assert_as_if_undisturbed(table, root, tmp_path)


def test_a_run_killed_when_all_is_read(table, root, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        for name in ("remove", "abandon"):
            patched.setattr(record_folders, name, lambda path: None)
        patched.setattr(
            reporting,
            "check_dead_letters",
            lambda *_, **__: (_ for _ in ()).throw(_Killed("_Killed")),
        )
        with pytest.raises(RuntimeError, match="_Killed"):
            _run(table, root)
    said = _run(table, root)
    assert f"an unfinished run had finished {CHUNKS} of {CHUNKS} pieces ({ROWS - 2} rows)" in said
    _assert_as_if_undisturbed(table, root, tmp_path)


def test_a_damaged_piece_is_read_again(table, root, tmp_path, monkeypatch):
    _kill(table, root, monkeypatch)
    (spilled, *_) = sorted(_temporary(root, table).glob("*.arrow"))
    content = bytearray(spilled.read_bytes())
    content[len(content) // 2] ^= 4
    spilled.write_bytes(content)
    assert "had finished 4 of" in _run(table, root)
    _assert_as_if_undisturbed(table, root, tmp_path)


def _starts_over(table, root, why: str, **options) -> None:
    said = _run(table, root, **options)
    assert f" rows of these records; starting over: {why}\n" in said
    assert "using them" not in said
    _files(root, table)


def test_all_damaged(table, root, monkeypatch):
    _kill(table, root, monkeypatch)
    for spilled in _temporary(root, table).glob("*.tally.json"):
        spilled.unlink()
    _starts_over(table, root, "what it left is damaged")


def test_pieces_of_another_build_are_reported_as_unused(table, root, monkeypatch):
    _kill(table, root, monkeypatch)
    data = table.data.model_copy(update={"split": splits.HashSplit(eval=0.4)})
    said = _run(table.model_copy(update={"data": data}), root)
    line = "they are of another build, so they are not used\n"
    assert said.count(line) == 1 and "using them" not in said
    assert line not in _run(table, root)


def test_nothing_finished(table, root, monkeypatch):
    _kill(table, root, monkeypatch, after=0)
    _starts_over(table, root, "no piece of them was finished")


def test_another_version_of_the_code(table, root, monkeypatch):
    monkeypatch.setattr(resume.versions, "code_version", lambda packages: "another")
    _kill(table, root, monkeypatch)
    monkeypatch.undo()
    why = "another version of the code or of a library had read them"
    _starts_over(table, root, why)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), errors.RetryableError("a worker was lost")], ids=repr
)
def test_a_run_that_was_ended_from_outside_is_as_good(table, root, tmp_path, monkeypatch, error):
    _end(table, root, monkeypatch, error)
    assert not list(_folder(root, table).glob("*/*.tfrecord")), "no half-made build stays"
    assert f"an unfinished run had finished 5 of {CHUNKS} pieces (" in _run(table, root)
    _assert_as_if_undisturbed(table, root, tmp_path)


@pytest.mark.parametrize(
    ("error", "after", "is_full"),
    [
        (errors.DataError("row 3: is no number"), 5, False),
        (KeyboardInterrupt(), 0, False),
        (errors.RetryableError("No space left on device"), 5, True),
    ],
    ids=["bad data", "nothing finished", "full disk"],
)
def test_what_is_of_no_use_is_removed(table, root, monkeypatch, error, after, is_full):
    monkeypatch.setattr(storage, "is_full", lambda path: is_full)
    _end(table, root, monkeypatch, error, after=after)
    assert not list(_folder(root, table).glob("[!.]*")), "only locks stay"


@pytest.mark.parametrize("change", ["content", "content and time", "touched"])
def test_a_changed_raw_file(table, root, tmp_path, monkeypatch, change):
    _kill(table, root, monkeypatch)
    raw = tmp_path / "in.csv"
    before = raw.stat()
    if change != "touched":
        raw.write_bytes(raw.read_bytes().replace(b"n5,", b"m5,"))
    if change == "content and time":
        os.utime(raw, ns=(before.st_atime_ns, before.st_mtime_ns))
    elif change == "touched":
        os.utime(raw, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    _starts_over(table, root, "a raw file was written or touched since")
    if change == "content and time":
        _assert_as_if_undisturbed(table, root, tmp_path)


def test_a_file_system_that_lies_about_times(table, root, monkeypatch):
    with monkeypatch.context() as patched:
        same = storage.Details(1, "the same")
        patched.setattr(storage, "describe", lambda paths: [same] * len(paths))
        _kill(table, root, monkeypatch)
        # As it is when the killed run has hashed everything.
        left = resume.inspect_leftovers(
            [], table.data, CsvSource(table.data), pipeline_options=(), force=False
        )
        resume.note_fingerprint(left, str(_temporary(root, table)), "0" * 64)
        with pytest.raises(errors.RetryableError, match="not those that a killed run has read"):
            _run(table, root)
    assert not list(_folder(root, table).glob("_tmp-*"))
    assert "an unfinished run" not in _run(table, root)


def test_the_fingerprint_is_noted_when_all_is_hashed(table, root, monkeypatch):
    noted = []
    monkeypatch.setattr(resume, "note_fingerprint", lambda left, folder, found: noted.append(found))
    made = job.run(table, str(root))
    assert noted in ([made.fingerprint], []), "it may be later than the records"


def test_corrections_decide_too(table, root, monkeypatch):
    """The ledger is read before its time and size are noted."""
    records = str(_folder(root, table))
    storage.makedirs(records)
    place = {"file": "train/files/in.csv", "row": 9}
    one = corrections.Correction(**place, reason="type", of="x", raw={"id": 5})
    corrections.write(records, [one])
    _kill(table, root, monkeypatch)
    with monkeypatch.context() as patched:
        patched.setattr(corrections.Corrected, "hash_changes", lambda self: "others")
        said = _run(table, root)
    assert "starting over: they were read with other settings or corrections" in said


def test_forced(table, root, monkeypatch):
    _kill(table, root, monkeypatch)
    _starts_over(table, root, "--force was given", force=True)


def test_another_runner_marks_nothing_and_uses_nothing(table, root, monkeypatch):
    _kill(table, root, monkeypatch)
    why = "only Beam's own local runner can use them"
    _starts_over(table, root, why, pipeline_options=["--runner=FnApiRunner"])


def test_a_source_of_your_own(table, root, monkeypatch):
    data = table.data.model_copy(update={"source": "preprocessing.sources.csv:CsvSource"})
    table = table.model_copy(update={"data": data})
    _kill(table, root, monkeypatch)
    assert not list(_temporary(root, table).glob("*.piece.json"))
    _starts_over(table, root, "changes of your own data.source would not be noticed")


def test_records_that_are_up_to_date_need_nothing_of_a_killed_run(table, root, monkeypatch):
    _run(table, root)
    whole = _files(root, table)
    with monkeypatch.context() as patched:
        patched.setattr(finished, "find_up_to_date", lambda *_, **__: None)
        _kill(table, root, monkeypatch)
    assert "nothing to do" in _run(table, root)
    assert _files(root, table) == whole
