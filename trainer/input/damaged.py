"""Records that cannot be read or parsed: named before training, or after they have ended it.

TensorFlow's reader and parser name no file, and a reader that is told to ignore errors can spin for
ever (docs/tensorflow-pitfalls.md#ignored-errors): what is to be left out is found by walking the
shards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from pipeline import config, errors
from pipeline.cluster import topology
from pipeline.records import quarantine, scan, shard_check, verified
from pipeline.runs.run_folder import RunFolder
from trainer.distribution import sessions
from trainer.input import parsing
from trainer.input.dataset import RecordDataset

# What a process that reads or parses records may end with. The last is for records that are no
# examples: TensorFlow puts their bytes into its message, which then is no text.
ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)
_NO_EXAMPLE = "it is not a tf.train.Example"


def exclude_damaged(
    run: RunFolder, records: RecordDataset, progress: Callable[[int], None] = lambda count: None
) -> quarantine.Excluded:
    """Returns what the run does without, and tells its other processes; the chief's part.

    Under the policy to fail, shards are compared with their checksums, which is fast; otherwise
    every record is walked and parsed. Shards that an earlier start found intact are not read again
    unless they have changed. `progress` is called with numbers of bytes that were checked. Raises
    `DataError` naming shard, block and offset, and `RetryableError` if one cannot be read now.
    """
    fails = records.job.data.on_corrupt == "fail"
    columns = {n: config.digest(column) for n, column in records.transforms.columns.items()}
    parsed = "" if fails else f", parsed as {config.digest(columns)[:16]}"
    sha256 = records.manifest.sha256
    known = verified.Verified(run, f"{verified.describe_check(sha256)}{parsed}")
    if fails:
        known.learn(verified.open_verified(records.folder, sha256))
    try:
        if not fails:
            return _check_found(run, records, progress, known=known)
        shard_check.verify(
            records.folder, records.manifest, contents=True, progress=progress, known=known
        )
    except errors.DataError:
        if fails:
            walked = scan.walk(records.folder, records.manifest, progress=progress)
            quarantine.decide(walked, records.manifest, records.job.data, folder=records.folder)
        raise
    finally:
        known.save()
    return {}


def explain(error: Exception, records: RecordDataset, run: RunFolder | None = None) -> Exception:
    """Returns the `DataError` that names the records which ended a process; `error` itself if there
    are none. A `run` that trains on them decides by its policy what it does without; who only
    reads them changes nothing."""
    certain = isinstance(error, (tf.errors.DataLossError, UnicodeDecodeError))
    input_failed = isinstance(error, ERRORS) and "IteratorGetNext" in str(error)
    if certain or input_failed:
        if run is not None:
            verified.forget(run)
        try:
            _check_found(run, records)
        except errors.DataError as found:
            return found
    return error


def _check_found(
    run: RunFolder | None,
    records: RecordDataset,
    progress: Callable[[int], None] = lambda count: None,
    *,
    known: verified.Verified | None = None,
) -> quarantine.Excluded:
    data, contents = records.job.data, records.manifest
    if run is None:
        data = data.model_copy(update={"on_corrupt": "fail"})
    check = build_check(records.transforms.columns)
    walked = scan.walk(records.folder, contents, check=check, progress=progress, known=known)
    excluded = quarantine.decide(walked, contents, data, folder=records.folder)
    if run is not None and data.on_corrupt != "fail":
        quarantine.write(run, excluded, walked=walked, contents=contents)
    return excluded


def _extract_problem(error: Any) -> str:
    """Returns the one line of TensorFlow's message that says what is wrong."""
    lines = [line.strip() for line in str(error.message).splitlines() if line.strip()]
    after = next((n for n, line in enumerate(lines[:-1]) if line.startswith("Node: ")), -1)
    return lines[after + 1] if lines else _NO_EXAMPLE


def build_check(columns: Mapping[str, config.Column]) -> scan.Check:
    """Returns a check that payloads are examples of `columns`, by the parser of the input."""
    with tf.Graph().as_default() as graph:
        serialized = tf.compat.v1.placeholder(tf.string, [None])
        # Fetched, as the graph's optimizer removes unused ops.
        parsed = parsing.parse(serialized, columns)
    # The first session of a process sets up its threads: as those that train would.
    settings = sessions.build_session_config(topology.Task(topology.CHIEF, 0))
    session = tf.compat.v1.Session(graph=graph, config=settings)

    def find_problem(payloads: Sequence[bytes]) -> str | None:
        try:
            session.run(parsed, {serialized: list(payloads)})
        except tf.errors.InvalidArgumentError as error:
            return _extract_problem(error)
        except UnicodeDecodeError:
            return _NO_EXAMPLE
        return None

    def check(payloads: Sequence[bytes]) -> tuple[int, str] | None:
        if find_problem(payloads) is None:
            return None
        for number, payload in enumerate(payloads):
            what = find_problem([payload])
            if what is not None:
                return number, what
        return None

    return check
