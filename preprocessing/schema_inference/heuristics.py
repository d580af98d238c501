"""What a column that was surveyed could be: its rules, the feature made of it, a label, a key.

All are guesses for a person to look over. Rules hold for every row that was read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from preprocessing.schema_inference import suggest_dates, suggest_lists
from preprocessing.schema_inference.profile import Found

# Strings with so few different values, each of which occurs so often, may have no others.
_FEW, _OFTEN = 20, 20
# Of fewer values, in a smaller share of the rows, train may have none.
_SPARSE, _SPARSE_SHARE = 10, 0.1
# Whole numbers with so few different values are more likely categories than amounts.
_CATEGORIES = 32
# Texts with more different values are hashed. Runs of words are hashed to so many ids.
_VOCABULARY, _BUCKETS = 10_000, 16_384
# Of what is hashed there are so many buckets a value, a power of two, but not more than the last;
# with these a fifth of the values share a bucket at most.
_PER_VALUE, _MOST_BUCKETS = 5, 2**18
# Identifiers that occur less often, on average, are too rare to learn what each stands for, and
# whole numbers that do are amounts.
_LEARNT = 5
_WIDEST = 16
# More different texts, of so many words on average, are read word by word.
_SENTENCES, _WORDS = 50, 4
# Numbers also enter a network by where they lie between so many quantiles.
_INTERVALS = 16
# Deviations from the mean beyond which numbers count as if they were there.
_FAR = 8.0
_CLASSES = 100
# Classes that a config names, at most.
LISTED = 1000
_LABELS = ("label", "target", "class", "outcome", "y")
_OUTCOME = re.compile(
    r"(^|[^a-z])(is|has|target|label|class|outcome|churn(ed)?|surviv(ed|al)|fraud|default(ed)?|click"
    r"(ed)?|convert(ed)?|return(ed)?|price|sales|revenue|rating|score|delay|duration)($|[^a-z])",
    re.IGNORECASE,
)
_CALENDAR = re.compile(
    r"(^|[^a-z])(year|quarter|month|week(day)?|day|hour|minute|second|date|time|id)($|[^a-z])",
    re.IGNORECASE,
)
_KEY = re.compile(r"((^|[^a-z])(?i:id|key|uuid|guid)|[a-z](Id|ID|Key))$")
# What is called so is no amount, whatever numbers it has.
_THING = re.compile(
    r"(user|customer|client|member|visitor|account|session|device|product|item|article|sku|movie|"
    r"seller|merchant|shop|store|zip|zip_?code|post(al)?_?code)",
    re.IGNORECASE,
)
_PERSONAL = re.compile(
    r"e.?mail|phone|passw|secret|token|\bssn\b|iban|birth|address|(first|last|full|sur)_?name",
    re.IGNORECASE,
)
# Values of a flag, at most: yes, no, unknown.
_FLAGS = 3
# Of different numbers float32 tells at least this share apart, or a warning says so.
_APART = 0.9
_AMOUNT = re.compile(r"[$€£¥] ?-?[\d.,]+|-?[\d.,]+ ?([$€£¥%]|[A-Za-z]{1,3})")


_DIGITS = re.compile(r"[+-]?\d{1,1000}(\.0*)?", re.ASCII)


@dataclasses.dataclass
class Column:
    """A column of the config: `rules` are its keys there, `notes` what a person should know.

    `steps` are those of its feature; without any there is none. `parts` are features of dates.
    `embedding` is that of ids, if it is not to be left to the trainer.
    """

    rules: dict[str, Any]
    notes: list[str]
    steps: list[Any] = dataclasses.field(default_factory=list)
    parts: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    embedding: int | dict[str, Any] | None = None


def column(name: str, found: Found, rows: int, *, wide: bool = False) -> Column:
    """Returns rules and features of a column that has values; `rows` are those of the table. One
    that is `wide` has so many columns that each gets few inputs of the network."""
    rules: dict[str, Any] = {"type": found.kind}
    if found.lengths:
        rules |= suggest_lists.rules(found) if found.listed else {"shape": list(found.lengths)}
    rules |= _range(found) if found.kind != "string" else _text_rules(name, found)
    if found.missing:
        rules["missing"] = "allow"
    made = Column(rules, _notes(found, rows))
    if is_personal(name, found):
        rules["sensitive"] = True
        made.notes.append("looks personal: its values are shown nowhere")
    elif found.different is not None and len(found.different) == 1 and not found.missing:
        made.notes.append("always the same: no feature")
    elif found.missing and found.values < min(_SPARSE, _SPARSE_SHARE * rows):
        made.notes.append("almost no values: no feature")
    elif found.listed:
        made.steps, made.embedding, note = suggest_lists.feature(found)
        made.notes.append(note)
        rules.pop("allowed", None)  # new tags come every day
        if made.steps == ["vocabulary"]:
            rules["vocabulary"] = {}
    elif times := suggest_dates.find(name, found):
        made.notes.append(suggest_dates.note(times[0], found))
        made.parts = suggest_dates.parts(name, *times, found.values)
        if not made.parts:
            made.notes.append("of one day and hour: no feature")
    elif is_prose(found):
        made.notes.append("sentences: a feature of their words")
        made.steps = [{"ngrams": {"buckets": _BUCKETS}}]
    elif is_name(found, rows) and _says_nothing(name, found, rows):
        made.notes.append("another value in every row: no feature")
    elif is_identifier(name, found) and found.values < _LEARNT * found.count_of_different:
        made.notes.append(f"identifiers in less than {_LEARNT} rows each: no feature")
    elif is_identifier(name, found) and found.count_of_different > _CATEGORIES:
        made.notes.append("identifiers, no amounts")
        _hashed(found, made)
    elif found.kind == "string":
        _text_feature(found, made)
    else:
        _number_feature(name, found, made, wide=wide)
    return made


def is_personal(name: str, found: Found) -> bool:
    """Tells if a column is called as those are that hold data about people, and is no flag, as
    whether there is a phone."""
    flag = (
        found.different is not None
        and len(found.different) <= _FLAGS
        and found.values >= _OFTEN * len(found.different)
    )
    return _PERSONAL.search(name) is not None and not flag


def merged(found: Found) -> tuple[int, int] | None:
    """Returns how many different numbers there are, as far as they were kept, and how many of them
    float32 tells apart, if it makes too many of them equal."""
    if found.kind != "float32":
        return None
    numbers = set()
    for text in found.every_text():
        with contextlib.suppress(ValueError):
            numbers.add(float(text))
    apart = len({float(x) for x in np.array(list(numbers)).astype(np.float32)})
    return (len(numbers), apart) if apart < _APART * len(numbers) else None


def is_name(found: Found, rows: int) -> bool:
    """Tells if the values name the rows: whole numbers or texts, all there and all different."""
    different = found.different
    whole = found.kind in ("int64", "string") and not found.lengths and not found.missing
    return whole and different is not None and len(different) == rows > 1


def _says_nothing(name: str, found: Found, rows: int) -> bool:
    """Tells what names rows from what just differs in all: dates, and numbers that leave gaps."""
    if found.kind == "string":
        return found.as_dates.form is None
    about = found.about
    assert about.least is not None and about.greatest is not None
    return bool(_KEY.search(name)) or about.greatest - about.least == rows - 1


def is_identifier(name: str, found: Found) -> bool:
    """Tells if values say which thing a row is about: whole numbers or texts of a column that is
    called so."""
    called = _KEY.search(name) or _THING.fullmatch(name)
    return bool(called) and found.kind in ("int64", "string") and not found.lengths


def is_prose(found: Found) -> bool:
    """Tells if values are sentences: many different ones, of many words."""
    many = found.different is None or len(found.different) > _SENTENCES
    if not many or found.lengths or found.kind != "string":
        return False
    some = [len(value.split()) for value in found.some()]
    return sum(some) >= _WORDS * len(some)


def key(columns: Mapping[str, Found], rows: int) -> str | None:
    """Returns the column that names rows, if one is called so and does."""
    named = (n for n, found in columns.items() if _KEY.search(n) and is_name(found, rows))
    return next(named, None)


def label(columns: Mapping[str, Found], rows: int) -> tuple[str, str]:
    """Returns the column that is most likely to be predicted, and why it is."""
    single = {n: f for n, f in columns.items() if not f.lengths} or dict(columns)
    usable = {n: f for n, f in single.items() if not (is_personal(n, f) or _CALENDAR.search(n))}
    classes = [n for n, f in usable.items() if is_class(f) or threshold(f) is not None]
    pairs = [n for n in classes if not is_class(f := usable[n]) or len(f.different or ()) == 2]
    numbers = [n for n, f in usable.items() if f.kind != "string" and not is_name(f, rows)]
    for found, why in (
        ([n for wanted in _LABELS for n in single if n.lower() == wanted], "its name says so"),
        ([n for n in classes if _OUTCOME.search(n)][-1:], "its name is an outcome's"),
        ([n for n in numbers if _OUTCOME.search(n)][-1:], "its name is an outcome's"),
        (pairs[-1:], "the last of two values"),
        (classes[-1:], "the last of few values"),
        (numbers[-1:], "the last number"),
    ):
        if found:
            return found[0], f"a guess: {why}"
    return list(single)[-1], "a guess: the last column"


def is_class(found: Found) -> bool:
    """Tells if the values are few enough, and occur often enough, to be classes."""
    if found.different is None or found.kind == "float32" or found.lengths:
        return False
    count = len(found.different)
    often = 2 if found.kind == "string" else _LEARNT
    return count == 2 or (2 < count <= _CLASSES and found.values >= often * count)


def occurs_once(found: Found) -> bool:
    """Tells if most values of many occur once, so that nothing can be learnt of them."""
    different = found.count_of_different
    return not found.lengths and found.values < 2 * different > _CATEGORIES


def list_classes(made: Column, found: Found) -> None:
    """Makes the column a label. Classes that it names are known, also those that train happens to
    lack.

    Only a vocabulary that is declared is sure to be counted whole.
    """
    made.rules.pop("vocabulary", None)
    if found.kind != "string" and not is_class(found):
        return
    few = found.different is not None and len(found.different) <= LISTED and not found.lengths
    if few and not is_numbered(found) and "sensitive" not in made.rules:
        made.rules["allowed"] = sorted({_value(value, found) for value in found.different or ()})
    elif "allowed" not in made.rules:
        made.rules["vocabulary"] = {}


def _value(value: Any, found: Found) -> int | str:
    """Returns a text, or the whole number that a text stands for."""
    text = _text(value)
    if found.kind == "string":
        return text
    if not isinstance(value, bytes):
        return int(value)
    return int(text.replace(found.csv.thousands, "").partition(found.csv.decimal)[0])


def threshold(found: Found) -> float | None:
    """Returns the middle of the two numbers, such as 0.0 and 1.0, that are all values there are."""
    few = found.different is not None and len(found.different) <= _FEW
    if not few or found.kind != "float32" or found.lengths or found.about.not_finite:
        return None
    rules = found.csv
    texts = (_text(value).replace(rules.thousands, "") for value in found.different or ())
    values = sorted({float(text.replace(rules.decimal, ".")) for text in texts})
    return sum(values) / 2 if len(values) == 2 else None


def scaling(found: Found) -> dict[str, float]:
    """Returns an offset and a scale that make numbers ones about 1, in few digits."""
    about = found.about
    if not about.finite:
        return {}
    if not about.deviation:
        return {"offset": about.mean} if about.mean else {}
    scale = float(f"{about.deviation:.2g}")
    return {"offset": round(about.mean, -math.floor(math.log10(scale))), "scale": scale}


def is_numbered(found: Found) -> bool:
    """Tells if classes are the whole numbers from 0."""
    count = len(found.different or ())
    return found.kind == "int64" and (found.about.least, found.about.greatest) == (0, count - 1)


def _range(found: Found) -> dict[str, Any]:
    about = found.about
    if about.not_finite or about.least is None or about.greatest is None:
        return {}
    return {"min": _short(about.least), "max": _short(about.greatest)}


def _short(number: float | int) -> float | int:
    """Returns the shortest number that is the same float32."""
    return number if isinstance(number, int) else float(str(np.float32(number)))


def _text_rules(name: str, found: Found) -> dict[str, Any]:
    about, different = found.about, found.different
    fixed = about.least == about.greatest and about.greatest
    rules = {"min_length": about.least, "max_length": about.greatest} if fixed else {}
    few = different is not None and 1 < len(different) <= _FEW and not about.refused
    if few and found.values >= _OFTEN * len(different or ()) and not is_personal(name, found):
        return {"allowed": sorted(map(_text, different or ()))}
    return rules


def _notes(found: Found, rows: int) -> list[str]:
    notes = []
    if found.different is None:
        count = found.count_of_different
        notes.append(f"about {round(count, 2 - len(str(count))):,} different")
    else:
        notes.append(f"{len(found.different):,} different")
    if found.missing:
        share = found.missing / rows
        notes.append(f"{share:.1%} missing" if share >= 0.001 else f"{found.missing:,} missing")
    if found.about.not_finite:
        notes.append(f"{found.about.not_finite:,} not finite")
    if few := merged(found):
        notes.append(f"float32 makes {few[1]:,} of {few[0]:,} of them")
    if found.kind == "string":
        if found.about.least != found.about.greatest:
            notes.append(f"{found.about.least:,} to {found.about.greatest:,} characters")
        numbers = found.by_kind["float32"]
        if found.codes:
            notes.append("digits with leading zeros: kept as text")
        elif _is_huge(found):
            notes.append("whole numbers of more than 64 bits: kept as text")
        elif all(map(_AMOUNT.fullmatch, found.some())):
            notes.append("numbers with a sign or unit: kept as text, write them without")
        elif numbers.least is not None and 0 < numbers.refused * 100 < found.values:
            notes.append(f"{numbers.refused:,} values are no numbers, all others are")
    return notes


def _is_huge(found: Found) -> bool:
    """Tells if texts are whole numbers, of which some are too large for int64."""
    some = found.some()
    return all(map(_DIGITS.fullmatch, some)) and any(
        abs(int(text.partition(".")[0])) >= 2**63 for text in some
    )


def _number_feature(name: str, found: Found, made: Column, *, wide: bool) -> None:
    few = found.different is not None and len(found.different) <= _CATEGORIES
    often = found.values >= _LEARNT * found.count_of_different
    if found.kind == "int64" and few and often and not found.lengths:
        made.rules["vocabulary"] = {}
        made.steps = ["vocabulary"]
        if not (wide or len(found.different or ()) == 2):
            made.parts[f"{name}_amount"] = [*_filled(found), *_clipped(found), "z_score"]
        return
    if found.about.not_finite:
        return
    filled = [{"missing": {"fill": "mean", "indicator": True}}] if found.missing else []
    made.steps = [*filled, *_clipped(found), "z_score"]
    if not (few or wide or found.lengths):
        made.parts[f"{name}_quantiles"] = [*_filled(found), {"piecewise": {"count": _INTERVALS}}]


def _filled(found: Found) -> list[Any]:
    return [{"missing": {"fill": "mean"}}] if found.missing else []


def _clipped(found: Found) -> list[Any]:
    """Returns a step that keeps a few values far away from all others from outweighing them."""
    about = found.about
    assert about.least is not None and about.greatest is not None
    low, high = (about.mean + sign * _FAR * about.deviation for sign in (-1, 1))
    limits = {"min": low} if about.least < low else {}
    limits |= {"max": high} if about.greatest > high else {}
    return [{"clip": {n: float(f"{x:.3g}") for n, x in limits.items()}}] if limits else []


def _text_feature(found: Found, made: Column) -> None:
    if found.lengths:
        return
    if found.different is not None and occurs_once(found):
        made.notes.insert(1, "most occur once: no feature")
    elif found.different is not None and len(found.different) <= _VOCABULARY:
        if "allowed" not in made.rules:
            made.rules["vocabulary"] = {}
        made.steps = ["vocabulary"]
    else:
        _hashed(found, made)


def _hashed(found: Found, made: Column) -> None:
    """Hashes values to ids, and says how many of them are not told apart."""
    different = found.count_of_different
    buckets = min(2 ** math.ceil(math.log2(_PER_VALUE * different)), _MOST_BUCKETS)
    shared = -math.expm1((different - 1) * math.log1p(-1 / buckets))
    made.notes.append(f"hashed to {buckets:,} buckets, {shared:.0%} share theirs with another")
    made.steps = [{"hash": {"buckets": buckets}}]
    made.embedding = min(_WIDEST, math.ceil(2 * different**0.25))


def _text(value: Any) -> str:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
