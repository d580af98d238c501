"""Makes the records again, with the dead letters that people corrected.

They edit `raw` in lines of dead_letter/, or in a copy. Each edit becomes a line of
`corrections.jsonl`, which every later preprocessing run applies.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from typing import Any

from pipeline import config, errors, storage
from pipeline.records import manifest
from pipeline.runs import run_folder
from pipeline.storage import strict_json
from preprocessing import sources
from preprocessing.build import fingerprint, job
from preprocessing.dead_letters import corrections
from preprocessing.dead_letters.corrections import Correction, RawRow
from preprocessing.rows import validate
from preprocessing.shards import record_folders


def run(
    job_config: config.Config,
    storage_root: str,
    fixed: str = "",
    *,
    num_workers: int = 1,
    pipeline_options: Sequence[str] = (),
) -> manifest.Manifest:
    """Takes corrections from the file `fixed`, or from the dead letters themselves, and runs.

    Prints by reason what became of the rows. Raises `UsageError` if nothing was edited, and
    `DataError` for lines that are no dead letters.
    """
    records = run_folder.records_folder(storage_root, job_config.name)
    paths = [fixed] if fixed else _find_letter_files(records, job_config.data)
    edited = [one for path in paths for one in _read_edited(path, job_config.data)]
    found = [one for _, one in edited]
    if not found:
        raise errors.UsageError(
            f"{', '.join(paths) or records!r}: no line was edited. Correct the values in 'raw' of "
            "dead letters, or name a corrected copy with FIXED="
        )
    with record_folders.hold_lock(records):
        before = {(one.file, one.row): one for one in corrections.read(records)}
        tied = _tie_to_rows(edited, before, data=job_config.data, is_copy=bool(fixed))
        corrections.write(records, list((before | tied).values()))
    made = job.run(
        job_config, storage_root, num_workers=num_workers, pipeline_options=pipeline_options
    )
    names = _find_names(job_config.data)
    letters = [
        letter
        for path in _find_letter_files(records, job_config.data)
        for _, letter in _read_lines(path)
    ]
    again = {(names.get(x["file"], x["file"]), x["row"]): _describe_kind(x) for x in letters}
    print("\n".join(summarize(found, again)))
    return made


def summarize(found: list[Correction], again: dict[tuple[str, int], str]) -> list[str]:
    """Says by reason how many rows became records; `again` has the reasons of those that did not.

    A row that was dropped on purpose for a value it lacks counts as accepted.
    """
    lines = []
    for reason, count in sorted(
        collections.Counter(_describe_kind(vars(one)) for one in found).items()
    ):
        rows = [one for one in found if _describe_kind(vars(one)) == reason]
        failed = collections.Counter(
            again[one.file, one.row] for one in rows if (one.file, one.row) in again
        )
        line = f"  {reason}: {count - failed.total():,} of {count:,} accepted"
        if failed:
            kinds = ", ".join(f"{n:,} x {kind}" for kind, n in sorted(failed.items()))
            line += f", dead letters again: {kinds}"
        lines.append(line)
    return [f"replayed {len(found):,} corrected rows:", *lines]


def _find_letter_files(records: str, data: config.Data) -> list[str]:
    """Returns the dead letters of the newest build with these settings and inputs."""
    source = corrections.wrap(sources.choose(data), records)
    return record_folders.find_letters(records, fingerprint.compute_base(data, source.files()))


def _read_lines(path: str) -> list[tuple[int, dict[str, Any]]]:
    """Returns the dead letters of a file, each with the number of its line."""
    if not storage.exists(path):
        raise errors.DataError(f"{path!r}: no such file")
    found = []
    for number, line in enumerate(storage.read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        try:
            letter = json.loads(line, parse_int=strict_json.parse_whole)
        except (ValueError, RecursionError) as error:
            raise errors.DataError(f"{path!r} line {number}: not JSON: {error}") from None
        if not isinstance(letter, dict) or not {"file", "row", "reason"} <= letter.keys():
            raise errors.DataError(f"{path!r} line {number}: no dead letter: {line[:60]!r}")
        found.append((number, letter))
    return found


def _is_edited(letter: dict[str, Any]) -> bool:
    """Tells if the `raw` of a letter is not what it was; as in the file or in memory, where numbers
    may be NaN or infinite."""
    raw = letter["raw"]
    known = [validate.hash_raw_row(one) for one in (raw, strict_json.restore_numbers(raw))]
    return letter.get("of") not in known


def _read_edited(path: str, data: config.Data) -> list[tuple[str, Correction]]:
    """Returns the letters whose `raw` is not what it was, each with where it is."""
    names = _find_names(data)
    found = []
    for number, letter in _read_lines(path):
        where, raw = f"{path!r} line {number}", letter.get("raw")
        if raw is None:
            continue
        if not isinstance(raw, dict):
            raise errors.DataError(f"{where}: raw must be an object with columns, got {raw!r}")
        if not _is_edited(letter):
            continue
        corrections.check_columns(raw, data.columns, where)
        if not isinstance(letter["file"], str) or letter["file"] not in names:
            raise errors.DataError(
                f"{where}: {letter['file']!r} is not one of the files of data.inputs"
            )
        one = corrections.build({**letter, "file": names[letter["file"]]}, where)
        found.append((where, one))
    return found


def _find_names(data: config.Data) -> dict[str, str]:
    return {file.path: file.name for file in sources.choose(data).files()}


def _tie_to_rows(
    edited: list[tuple[str, Correction]],
    before: dict[tuple[str, int], Correction],
    *,
    data: config.Data,
    is_copy: bool,
) -> dict[tuple[str, int], Correction]:
    """Returns the corrections by file and row, each `of` its row in the raw file, which is read
    where a letter does not tell: a row that was corrected `before` is in the file what it was then,
    if that still holds. Raises `DataError` for a letter of a row that has changed since, and for a
    new number whose text may be read in two ways: each later run would end with it."""
    wanted = {
        (one.file, one.row)
        for _, one in edited
        if is_copy
        or one.of is None
        or (one.file, one.row) in before
        or corrections.describe_doubt(one.raw, {}, data)
    }
    rows = corrections.read_raw_rows(sources.choose(data), wanted) if wanted else {}
    tied = {}
    for where, one in edited:
        place = (one.file, one.row)
        row = rows.get(place, RawRow({}, ()))
        earlier = before.get(place)
        if earlier and earlier.of in row.of:
            raw = {**one.raw, **_find_kept(one.raw, earlier.raw)}
            one = one.model_copy(update={"of": earlier.of, "raw": raw})
        elif one.of is None and row.of:
            one = one.model_copy(update={"of": row.of[0]})
        if one.of is None or (row.of and one.of not in row.of):
            raise errors.DataError(
                f"{where}: row {one.row} of {one.file!r} has changed since this dead letter was "
                "written. Preprocess, and correct the new one"
            )
        if doubt := corrections.describe_doubt(one.raw, row.shown, data):
            raise errors.DataError(f"{where}: {doubt}")
        tied[place] = one
    return tied


def _find_kept(new: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """Returns the values of an earlier correction that a new one leaves alone: dead letters hide
    some of them, and show numbers as texts where files have texts."""
    return {
        name: value
        for name, value in earlier.items()
        if name not in new
        or new[name] == validate.REDACTED
        or (isinstance(value, int | float) and new[name] == json.dumps(value))
    }


def _describe_kind(letter: dict[str, Any]) -> str:
    return " ".join(filter(None, (letter.get("column"), letter["reason"])))
