"""What a column that was surveyed could be: its rules, and the feature made of it.

All are guesses for a person to look over. Rules hold for every row that was read, and should hold
for those of tomorrow.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Collection
from typing import Any

from preprocessing.schema_inference import outliers, precision, suggest_dates, suggest_lists, traits
from preprocessing.schema_inference.profile import ColumnProfile

# If there are fewer values, in a smaller share of the rows, train may have none.
_SPARSE, _SPARSE_SHARE = 10, 0.1
# Texts with more different values are hashed. Runs of words are hashed to so many ids.
_VOCABULARY, _BUCKETS = 10_000, 16_384
# Of what is hashed there are so many buckets a value, a power of two, but not more than the last;
# with these a fifth of the values share a bucket at most.
_PER_VALUE, _MOST_BUCKETS = 5, 2**18
_WIDEST = 16
# Numbers also enter a network by where they lie between so many quantiles. Of fewer rows these are
# learnt by heart: on three tables of 4,000 to 6,000 rows errors were up to a fifth larger.
_INTERVALS, _ENOUGH = 16, 10_000
# Longer texts are not listed.
_ALLOWED = 1000
_LIMITS = ("allowed", "min", "max", "min_length", "max_length", "dates")
_HEXADECIMAL = re.compile(r"-?0[xX][0-9a-fA-F]+")


@dataclasses.dataclass
class SuggestedColumn:
    """A column of the config: `rules` are its keys there, `notes` what a person should know.

    `steps` are those of its feature; without any there is none. `parts` are more features, by name.
    `embedding` is that of ids, if it is not to be left to the trainer. `unused` says why there is
    no feature of values that may tell something, `merged` which values are not told apart.
    """

    rules: dict[str, Any]
    notes: list[str]
    steps: list[Any] = dataclasses.field(default_factory=list)
    parts: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    embedding: int | dict[str, Any] | None = None
    unused: str = ""
    merged: str = ""

    @property
    def is_amount(self) -> bool:
        """Tells if the model takes the values as numbers."""
        return "z_score" in self.steps


def suggest_column(
    name: str, found: ColumnProfile, rows: int, *, wide: bool = False
) -> SuggestedColumn:
    """Returns rules and features of a column that has values; `rows` are those of the table. One
    that is `wide` has so many columns that each gets few inputs of the network."""
    rules: dict[str, Any] = {"type": found.kind}
    if found.lengths and found.listed:
        rules |= suggest_lists.suggest_rules(found)
    elif found.lengths:
        rules["shape"] = list(found.lengths)
    rules |= _suggest_range(found) if found.kind != "string" else _suggest_text_rules(name, found)
    if found.missing:
        rules["missing"] = "allow"
    times = suggest_dates.find(name, found)
    made = SuggestedColumn(rules, _write_notes(found, rows, dated=times is not None))
    if traits.is_personal(name, found):
        rules["sensitive"] = True
        made.notes.append("looks like personal data: values are redacted")
        made.unused = "it looks like personal data"
    elif traits.is_constant(found) and not found.missing:
        made.notes.append("always the same: no feature")
    elif found.missing and found.values < min(_SPARSE, _SPARSE_SHARE * rows):
        made.notes.append("almost no values: no feature")
    elif found.listed:
        made.steps, made.embedding, note = suggest_lists.suggest_feature(found)
        made.parts = suggest_lists.suggest_count(name, found)
        made.notes.append(note)
        if found.kind != "float32":
            _drop_limits(rules)  # new tags come every day
        if made.steps == ["vocabulary"]:
            rules["vocabulary"] = {}
    elif times:
        made.notes.append(suggest_dates.write_note(times[0], found))
        _drop_limits(rules)  # later days come
        made.parts = suggest_dates.suggest_parts(name, *times, found=found)
        rules |= suggest_dates.build_rule(times[0], found)
        if not made.parts:
            made.notes.append("of one day and hour: no feature")
    elif traits.is_prose(found):
        made.notes.append("sentences: a feature of their words")
        made.steps = [{"ngrams": {"buckets": _BUCKETS}}]
    elif traits.is_name(found, rows) and traits.says_nothing(name, found, rows):
        made.notes.append("another value in every row: no feature")
        made.unused = f"each row has another {'text' if found.kind == 'string' else 'number'}"
    elif traits.is_identifier(name, found) and (rare := traits.compute_unlearnt_share(found)):
        made.unused = f"{rare:.0%} of the rows have an identifier of less than {traits.LEARNT} rows"
        made.notes.append(f"{made.unused}: no feature")
    elif traits.is_identifier(name, found) and found.count_of_different > traits.CATEGORIES:
        made.notes.append("identifiers, no amounts")
        _suggest_identifier_feature(found, made)
    elif found.kind == "string":
        _suggest_text_feature(found, made)
    else:
        _suggest_number_feature(name, found, made, wide=wide, few=rows < _ENOUGH)
    if not (made.steps or made.parts):
        _drop_limits(rules)  # the model does not depend on it
        rules |= _suggest_infinite_limits(found)
    elif found.missing and not (found.listed or times):  # -1 is no date to the steps
        _let_stand_in(found, made)
    return made


def _let_stand_in(found: ColumnProfile, made: SuggestedColumn) -> None:
    """Adds the rule of what stands for missing, and says so."""
    made.rules |= _suggest_stand_in(found, made)
    if "default" in made.rules:
        made.notes.append(f"{made.rules['default']} stands for missing")


def _suggest_infinite_limits(found: ColumnProfile) -> dict[str, Any]:
    """Returns the rules by which values that are not finite are no dead letters."""
    about = found.about
    rules: dict[str, Any] = {"missing": "allow"} if about.nan else {}
    if about.not_finite > about.nan:
        rules |= {"min": -math.inf, "max": math.inf}
    return rules


def _suggest_stand_in(found: ColumnProfile, made: SuggestedColumn) -> dict[str, Any]:
    """Returns what is to stand for missing, where a value could be the same as what does without
    it: what the limits leave out, of whole numbers, so that no later value can be it either."""
    if found.kind == "string":
        taken = set(found.list_texts())
        prose = any("ngrams" in step for step in made.steps)
        return {} if prose or "" not in taken else {"default": _choose_free("(none)", taken)}
    if found.kind != "int64":
        return {}
    low, high = made.rules.get("min", -(2**63)), made.rules.get("max", 2**63 - 1)
    if not low <= -1 <= high:
        return {}
    if low > -(2**63):
        return {"default": low - 1}
    if high < 2**63 - 1:
        return {"default": high + 1}
    # Identifiers have no limits.
    return {"min": low + 1, "default": low} if found.about.least != low else {}


def _choose_free(text: str, taken: Collection[str]) -> str:
    while text in taken:
        text = f"({text})"
    return text


def _drop_limits(rules: dict[str, Any]) -> None:
    for rule in _LIMITS:
        rules.pop(rule, None)


def _suggest_range(found: ColumnProfile) -> dict[str, Any]:
    """Returns limits that hold for later rows too, but not for damage: what was seen, and as much
    again on both sides. What is never negative stays so, and what is 0 or 1."""
    about = found.about
    if about.not_finite or about.least is None or about.greatest is None:
        return {}
    if found.kind == "int64" and (about.least, about.greatest) == (0, 1):
        return {"min": 0, "max": 1}
    more = about.greatest - about.least
    low = 0 if about.least >= 0 else about.least - more
    high = 0 if about.greatest <= 0 else about.greatest + more
    return {
        "min": _round_outwards(low, found, math.floor),
        "max": _round_outwards(high, found, math.ceil),
    }


def _round_outwards(
    number: float, found: ColumnProfile, to_whole: Callable[[float], int]
) -> float | int:
    """Rounds a limit to two digits, outwards."""
    unit = 10.0 ** (math.floor(math.log10(abs(number))) - 1) if number else 1.0
    rounded = to_whole(number / unit) * unit
    if found.kind == "int64":
        return max(-(2**63), min(2**63 - 1, to_whole(rounded)))
    return float(f"{rounded:.2g}")


def limit_classes(found: ColumnProfile) -> dict[str, Any]:
    """Returns the limits of classes that are numbered from 0: no other can come."""
    return {"min": 0, "max": len(found.different or ()) - 1}


def _suggest_text_rules(name: str, found: ColumnProfile) -> dict[str, Any]:
    about, different = found.about, found.different
    fixed = about.least == about.greatest and about.greatest
    rules = {"min_length": about.least, "max_length": about.greatest} if fixed else {}
    few = different is not None and 1 < len(different) <= traits.FEW and not about.refused
    if (
        few
        and (about.greatest or 0) <= _ALLOWED
        and found.values >= traits.OFTEN * len(different or ())
        and not traits.is_personal(name, found)
    ):
        return {"allowed": sorted(map(traits.format_value, different or ()))}
    return rules


def _write_notes(found: ColumnProfile, rows: int, *, dated: bool) -> list[str]:
    notes = []
    if found.different is None:
        count = found.count_of_different
        notes.append(f"about {round(count, 2 - len(str(count))):,} different")
    else:
        count = 1 if traits.is_constant(found) else len(found.different)
        notes.append(f"{count:,} different")
    if found.missing:
        share = found.missing / rows
        notes.append(f"{share:.1%} missing" if share >= 0.001 else f"{found.missing:,} missing")
    if found.about.not_finite:
        notes.append(f"{found.about.not_finite:,} not finite")
    if found.kind == "float32" and not dated and (few := traits.count_merged(found)):
        notes.append(_describe_merged(found, *few))
    if found.kind == "string":
        if found.about.least != found.about.greatest:
            notes.append(f"{found.about.least:,} to {found.about.greatest:,} characters")
        numbers = found.by_kind["float32"]
        if found.as_dates.mixed:
            notes.append(f"dates written in {len(found.as_dates.mixed)} ways: kept as text")
        elif found.codes and not found.as_dates.form:
            notes += _describe_codes(found)
        elif precision.are_large(list(found.list_texts())):
            notes.append("whole numbers of more than 64 bits: kept as text")
        elif traits.has_unit(found):
            notes.append("numbers with a sign or unit: kept as text, write them without")
        elif found.strays:
            notes.append(f"{numbers.refused:,} values are not numbers, all others are")
    return notes


def _describe_merged(found: ColumnProfile, different: int, apart: int) -> str:
    about = "" if found.different is not None else "about "
    return f"float32 makes {about}{apart:,} of {different:,} of them"


def _describe_codes(found: ColumnProfile) -> list[str]:
    """Returns what texts are of which some begin as no number does, if that is why they are texts:
    days and addresses also may."""
    if all(map(_HEXADECIMAL.fullmatch, found.list_some())):
        return ["hexadecimal numbers: kept as text"]
    if traits.is_code(found):
        return ["digits with leading zeros: kept as text"]
    return []


def _suggest_number_feature(
    name: str, found: ColumnProfile, made: SuggestedColumn, *, wide: bool, few: bool
) -> None:
    if not found.about.not_finite:
        made.notes.append(f"{found.about.least:,.6g} to {found.about.greatest:,.6g}")
    short = found.different is not None and len(found.different) <= traits.CATEGORIES
    often = found.values >= traits.LEARNT * found.count_of_different
    if found.kind == "int64" and short and often and not found.lengths:
        made.rules["vocabulary"] = {}
        made.steps = ["vocabulary"]
        if not (wide or len(found.different or ()) == 2):
            made.parts[f"{name}_amount"] = [*_suggest_fill(found), *_suggest_clip(found), "z_score"]
        return
    if found.about.not_finite:
        made.notes.append("no feature")
        return
    filled = [{"missing": {"fill": "mean", "indicator": True}}] if found.missing else []
    made.steps = [*filled, *_suggest_clip(found), "z_score"]
    if found.kind == "int64" and (merged := traits.count_merged(found)):
        made.notes.append(_describe_merged(found, *merged))
    if not (short or wide or few or found.lengths):
        near = _suggest_clip(found) if outliers.find(found) else []
        quantiles = [*_suggest_fill(found), *near, {"piecewise": {"count": _INTERVALS}}]
        made.parts[f"{name}_quantiles"] = quantiles


def _suggest_fill(found: ColumnProfile) -> list[Any]:
    return [{"missing": {"fill": "mean"}}] if found.missing else []


def _suggest_clip(found: ColumnProfile) -> list[Any]:
    """Returns a step that keeps a few values far away from all others from outweighing them."""
    about, odd = found.about, outliers.find(found)
    assert about.least is not None and about.greatest is not None
    mean, deviation = (odd.mean, odd.deviation) if odd else (about.mean, about.deviation)
    low, high = (mean + sign * outliers.FAR * deviation for sign in (-1, 1))
    limits = {"min": low} if about.least < low else {}
    limits |= {"max": high} if about.greatest > high else {}
    if not limits or not deviation:  # whole numbers that no float tells apart have none
        return []
    digits = 2 - math.floor(math.log10(deviation))
    return [{"clip": {n: round(float(x), digits) + 0.0 for n, x in limits.items()}}]


def _suggest_text_feature(found: ColumnProfile, made: SuggestedColumn) -> None:
    if found.lengths:
        return
    if found.different is not None and traits.occurs_rarely(found):
        made.notes.insert(1, "fewer than 2 rows each on average: no feature")
        made.unused = (
            f"its {len(found.different):,} different texts have fewer than 2 rows each on average"
        )
    elif found.different is not None and len(found.different) <= _VOCABULARY:
        if "allowed" not in made.rules:
            made.rules["vocabulary"] = {}
        made.steps = ["vocabulary"]
    else:
        _suggest_hash(found, made)


def _suggest_identifier_feature(found: ColumnProfile, made: SuggestedColumn) -> None:
    """Embeds identifiers: each by itself, or hashed if they are too many to list."""
    if found.different is None or len(found.different) > _VOCABULARY:
        _suggest_hash(found, made)
        return
    _allow_other_values(found, made.rules)
    made.rules["vocabulary"] = {}
    made.steps = ["vocabulary"]
    made.embedding = _choose_width(found)


def _choose_width(found: ColumnProfile) -> int:
    return min(_WIDEST, math.ceil(2 * found.count_of_different**0.25))


def _allow_other_values(found: ColumnProfile, rules: dict[str, Any]) -> None:
    """Drops the limits, as other values come, but none that has lost its zeros."""
    lengths = {n: limit for n, limit in rules.items() if found.codes and "length" in n}
    _drop_limits(rules)
    rules |= lengths


def _suggest_hash(found: ColumnProfile, made: SuggestedColumn) -> None:
    """Hashes values to ids, and says how many of them are not told apart."""
    different = found.count_of_different
    buckets = min(2 ** math.ceil(math.log2(_PER_VALUE * different)), _MOST_BUCKETS)
    shared = -math.expm1((different - 1) * math.log1p(-1 / buckets))
    _allow_other_values(found, made.rules)
    made.notes.append(f"hashed to {buckets:,} buckets, {shared:.0%} share theirs with another")
    made.steps = [{"hash": {"buckets": buckets}}]
    made.embedding = _choose_width(found)
    made.merged = (
        f"{shared:.0%} of its about {round(different, 2 - len(str(different))):,} different values "
        f"share one of {buckets:,} buckets with another, and count as the same"
    )
