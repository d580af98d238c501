"""What a person should know of raw data before a model is trained on it, a line each."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

from preprocessing.schema_inference import (
    file_columns,
    label_remarks,
    outliers,
    precision,
    profile,
    sentinels,
    stand_ins,
    stray_quotes,
    suggest_dates,
    suggest_label,
    traits,
    unread_dates,
)
from preprocessing.schema_inference.profile import ColumnProfile, Survey
from preprocessing.schema_inference.raw_format import Guess
from preprocessing.sources import csv_numbers

# Columns that are left out, named one by one.
_SHOWN = 10
_PLAIN = "Write them without to make it a number"


def find_remarks(
    guess: Guess, found: Survey, labels: Collection[str], *, numbers: Collection[str]
) -> list[str]:
    """Returns what was in doubt when the data were read, and what is amiss with the columns;
    `numbers` are those that a model takes as numbers."""
    columns = {n: c for n, c in found.columns.items() if n not in guess.left_out}
    said = list(guess.remarks)
    said += _explain_left_out(guess.left_out)
    said += file_columns.warn_of_ignored(guess)
    delimiter = guess.data().csv.delimiter
    for name, column in found.columns.items():
        if column.lines.is_odd(len(found.columns), delimiter):
            said.append(stray_quotes.write_remark(name, column.lines))
    for label in labels:
        said += label_remarks.find_remarks(label, columns[label])
    said += _remark_on_missing(guess, found, labels)
    rounded = {name for name, column in columns.items() if traits.are_rounded(column)}
    said += [_remark_on_rounding(name) for name in columns if name in rounded]
    for name in [name for name in columns if name in numbers and name not in rounded]:
        if few := traits.count_merged(columns[name]):
            many = columns[name].different is None
            different, apart = (
                f"about {round(n, 2 - len(str(n))):,}" if many else f"{n:,}" for n in few
            )
            said.append(_remark_on_merging(name, different, apart, label=name in labels))
    for name, column in columns.items():
        if name not in labels:  # its advice is about features
            said += suggest_dates.write_remarks(name, column)
            said += suggest_dates.find_stand_ins(name, column)
        named = traits.is_personal(name, column) or traits.is_identifier(name, column)
        if not named and not (name in labels and traits.is_class(column)):
            said += sentinels.write_remark(
                name, column, csv=guess.source == "csv"
            ) or outliers.write_remark(name, column, label=name in labels)
        if column.kind == "string":
            said += _remark_on_text(name, column)
        else:
            said += _remark_on_numbers(name, column, label=name in labels)
    return said


def _remark_on_rounding(name: str) -> str:
    return (
        f"{name!r} has whole numbers beyond 2^53 as float64, which has not all of these: if they "
        "are ids, some were made equal when the file was written. Write them as int64 or as text"
    )


def _remark_on_merging(name: str, different: str, apart: str, *, label: bool) -> str:
    late = "; model.params.offset does not help, as labels are float32 by then" if label else ""
    return (
        f"{name!r} has {different} different numbers, of which float32 makes {apart}: they are "
        "far from zero and close to each other. Subtract what they have in common from the raw "
        f"data, or change their unit{late}"
    )


def _explain_left_out(columns: Mapping[str, str]) -> list[str]:
    """Returns why columns are, one by one, or how many others."""
    shown = itertools.islice(columns.items(), _SHOWN)
    said = [f"{name!r} is left out: it {why}" for name, why in shown]
    more = len(columns) - len(said)
    return [*said, f"{more:,} more columns are left out; the config says why"] if more else said


def explain_no_feature(notes: Mapping[str, Collection[str]], path: str) -> str:
    """Returns why no column makes a feature, by the notes on each but label and key; the config is
    written to `path`."""
    why = {
        n: next((w for w in some if "no feature" in w), "no feature") for n, some in notes.items()
    }
    shown = [f"{n!r} ({w.partition(': no feature')[0]})" for n, w in why.items()]
    more = f" and {len(shown) - _SHOWN:,} more" if len(shown) > _SHOWN else ""
    listed = ", ".join(shown[:_SHOWN]) + more if shown else "only label and key are left"
    return (
        f"no column makes a feature, so a model has nothing to learn from: {listed}. Add columns "
        f"that vary to the data, or write features and a model in {path}"
    )


def explain_unused(columns: Mapping[str, str], said: Collection[str]) -> list[str]:
    """Returns why no feature is made of columns, by name; not of those about which there is
    something `said` already."""
    left = {n: w for n, w in columns.items() if not any(one.startswith(f"{n!r}") for one in said)}
    shown = itertools.islice(left.items(), _SHOWN)
    lines = [f"no feature is made of {n!r}: {why}" for n, why in shown]
    more = len(left) - len(lines)
    others = f"no feature is made of {more:,} more columns; the config has the reason for each"
    return [*lines, others] if more else lines


def explain_merged(columns: Mapping[str, str]) -> list[str]:
    """Returns which values of columns, by name, a model does not tell apart, and what to do."""
    shown = itertools.islice(columns.items(), _SHOWN)
    lines = [
        f"{n!r}: {which}. Raise buckets in features.{n} to tell more apart" for n, which in shown
    ]
    more = len(columns) - len(lines)
    others = f"values of {more:,} more columns share buckets; the config says how many"
    return [*lines, others] if more else lines


def _remark_on_missing(guess: Guess, found: Survey, labels: Collection[str]) -> list[str]:
    """Returns which texts that may be values stand for none, a line for each text, and of a label
    one of its own; and which labels are missing in rows that are dropped."""
    columns: dict[str, dict[str, int]] = {}
    drops: list[tuple[str, str, int]] = []
    for name, texts in stand_ins.find(guess, found).items():
        for text, count in texts.items():
            if (name,) == tuple(labels):
                drops.append((text, name, count))
            else:
                columns.setdefault(text, {})[name] = count
    quoted = guess.data().csv.quoted_missing
    said = []
    for text, counts in columns.items():
        listed = ", ".join(map(repr, itertools.islice(counts, _SHOWN)))
        more = f" and {len(counts) - _SHOWN:,} more" if len(counts) > _SHOWN else ""
        often = f"{sum(counts.values()):,} of {found.rows:,} rows of {listed}"
        if len(counts) > 1:
            often = f"{sum(counts.values()):,} values of {len(counts):,} columns: {listed}{more}"
        said.append(_describe_missing(text, often, quoted=quoted))
    for text, name, count in drops:
        often = (
            f"{count:,} of {found.rows:,} rows of {name!r}, the label, so these rows are dropped"
        )
        said.append(_describe_missing(text, often, quoted=quoted))
    for name in labels:
        label, named = found.columns[name], sum(count for _, of, count in drops if of == name)
        drops_rows = suggest_label.drops_rows(label, several=len(labels) > 1)
        if drops_rows and named < label.missing:
            said.append(label_remarks.describe_dropped_rows(name, label, found.rows))
    return said


def _describe_missing(text: str, often: str, *, quoted: bool) -> str:
    instead = "take it out of data.csv.missing" if quoted else "put it in quotes in the file"
    return (
        f"{text!r} is taken for missing in {often}. If it is a value, {instead}, or write it "
        "otherwise"
    )


def _remark_on_text(name: str, column: ColumnProfile) -> list[str]:
    """Returns why a column is text, if most of it are dates or numbers."""
    if said := unread_dates.write_remark(name, column):
        return said
    if traits.has_unit(column) and not column.strays:
        one = traits.list_some(column)[0]
        return [f"{name!r} is kept as text: numbers with a sign or unit, such as {one!r}. {_PLAIN}"]
    few = column.different is not None and len(column.different) <= traits.FEW  # all are listed
    if traits.is_code(column) and column.about.least != column.about.greatest and not few:
        return [_describe_codes(name, column)]
    if why := suggest_label.describe_too_large(column):
        return [f"{name!r} is kept as text: {why}"]
    if odd := precision.find_others(list(column.list_texts())):
        return [
            f"{name!r} is kept as text: whole numbers of more than 64 bits, of which float32 makes "
            f"too many equal, but not {suggest_label.abbreviate(odd)}. Write all as the whole "
            "numbers they are"
        ]
    if traits.is_identifier(name, column):
        return []  # is no number
    texts = [] if column.strays else _find_not_numbers(column)
    refused = column.by_kind["float32"].refused_values
    if column.strays or (texts and len(refused) <= profile.FEW):
        why = suggest_label.remark_on_strays(column)
        return [f"{name!r} is kept as text: {why}. Correct them to make it a number"]
    odd = [text for text in texts if not csv_numbers.is_number(text) and text not in column.tokens]
    if odd:
        why = f"most values are numbers, but not {suggest_label.abbreviate(odd)}"
        return [f"{name!r} is kept as text: {why}. Correct them to make it a number"]
    if texts:
        examples = suggest_label.abbreviate(refused)
        why = f"its numbers are not written as data.csv says, such as {examples}"
        return [f"{name!r} is kept as text: {why}. Write all columns alike"]
    return []


def _describe_codes(name: str, column: ColumnProfile) -> str:
    one = next(text for text in column.list_some() if text.startswith(("0", "-0")))
    return (
        f"{name!r} is kept as text: digits with leading zeros, such as {one!r}, of "
        f"{column.about.least} to {column.about.greatest} characters. No rule of the config can "
        "tell if later files have lost the zeros, as spreadsheets lose them"
    )


def _find_not_numbers(column: ColumnProfile) -> list[str]:
    """Returns the different texts, if most of them are numbers that differ."""
    if "float32" not in column.kinds or not column.by_kind["float32"].refused_values:
        return []
    if (
        column.codes
        or column.large.numbers
        or column.lengths
        or column.separator
        or not column.as_dates.no_dates
    ):
        return []
    numbers = {text: n for text, n in column.count_texts() if csv_numbers.is_number(text)}
    many = len(numbers) > traits.CATEGORIES
    texts = dict(column.count_texts())
    return list(texts) if many and 2 * sum(numbers.values()) > sum(texts.values()) else []


def _remark_on_numbers(name: str, column: ColumnProfile, *, label: bool) -> list[str]:
    """Returns that some are not finite; or what they could also mean, if none of them shows it:
    1.234 and 1,234."""
    rules = column.csv
    if count := column.about.not_finite:
        are = "value is" if count == 1 else "values are"
        then = "make preprocess refuses such labels" if label else "no feature is made of it"
        return [
            f"{name!r}: {count:,} {are} not finite, such as inf, of {column.values:,}: {then}. "
            "Leave them empty, or write a number"
        ]
    point = rules.decimal if rules.delimiter == ";" else ""
    mark = rules.thousands if rules.thousands in (".", ",") else point
    if not mark or not csv_numbers.may_be_groups(column.list_texts(), mark):
        return []
    one = next(text for text in column.list_texts() if mark in text)
    whole, other = one.replace(mark, ""), "," if mark == "." else "."
    if mark == rules.thousands:
        read, meant, said = whole, one.replace(mark, "."), f"decimal {mark!r} and no thousands"
    else:
        read, meant, said = (
            one.replace(mark, "."),
            whole,
            f"decimal {other!r} and thousands {mark!r}",
        )
    return [
        f"{name!r}: {one!r} is taken for {read}; if {meant} is meant, data.csv must have {said}, "
        "and the rules of the column must fit"
    ]
