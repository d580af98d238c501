"""What the values of a column that was surveyed are: names, prose, classes, identifiers."""

from __future__ import annotations

import collections
import dataclasses
import math
import re
from typing import Any

import numpy as np
import pyarrow as pa

from pipeline import config
from preprocessing.arrow import cast
from preprocessing.schema_inference import precision
from preprocessing.schema_inference.profile import ColumnProfile
from preprocessing.sources import csv_numbers

# Strings with so few different values, each of which occurs so often, may have no others.
FEW, OFTEN = 20, 20
# Whole numbers with so few different values are more likely categories than amounts.
CATEGORIES = 32
# Values that occur less often are too rare to learn what each stands for. Identifiers of which more
# than this share of the rows has such ones make no feature; whole numbers that are so rare on
# average are amounts.
LEARNT, _MOST_RARE = 5, 0.5
# Identifiers that occur so often, on average, are no keys.
RETURNS = 2
# More different texts, of so many words on average, are read word by word.
_SENTENCES, _WORDS = 50, 4
_CLASSES = 100
# Whole numbers are amounts if the most frequent is so many times as frequent as the rarest, and
# the logarithms of how often neighbours occur correlate so much: by chance, of 25 classes, 0.6 is
# met one time in a thousand.
_UNEVEN, _ALIKE = 4, 0.6
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
_AMOUNT = re.compile(r"[$€£¥+] ?-?[\d.,]+|-?[\d.,]*\d ?([$€£¥%]|[A-Za-z]{1,3})")
_NUMERIC = re.compile(r"[+-]?[\d.,]*", re.ASCII)
# Columns of amounts have so many different signs and units, at most.
_NUMBER, _UNITS = re.compile(r"-?[\d.,]+"), 3
# Values of a flag, at most: yes, no, unknown.
_FLAGS = 3


def is_personal(name: str, found: ColumnProfile) -> bool:
    """Tells if a column is called as those are that hold data about people, and is no flag, as
    whether there is a phone."""
    flag = (
        found.different is not None
        and len(found.different) <= _FLAGS
        and found.values >= OFTEN * len(found.different)
    )
    return _PERSONAL.search(name) is not None and not flag


def count_merged(found: ColumnProfile) -> tuple[int, int] | None:
    """Returns how many different numbers there are, and how many of them float32 tells apart, if it
    makes too many of them equal; both are estimates if there are very many."""
    if found.kind not in ("int64", "float32") or (found.kind == "int64" and not found.is_wide):
        return None
    if found.different is None:
        different, apart = found.apart.exact.count, found.apart.single.count
    else:
        values = count_numbers(found)[0]
        texts = _format_numbers(found).cast(pa.string()).to_pylist()
        whole = found.kind == "int64"
        different = len(np.unique(values)) if whole else precision.count_exactly(texts)
        apart = len(np.unique(values.astype(np.float32)))
    return (different, apart) if precision.is_loss(different, apart) else None


def are_rounded(found: ColumnProfile) -> bool:
    """Tells if float64 in the raw data has whole numbers that it has not all, so close to each
    other that they rather name something."""
    if not found.floats or found.measured or found.kind not in ("int64", "float32"):
        return False
    about = found.about
    largest = max(abs(about.least or 0), abs(about.greatest or 0))
    return largest > precision.EXACT and count_merged(found) is not None


def is_constant(found: ColumnProfile) -> bool:
    """Tells if all values are the same one: numbers also if they are written in several ways, as 0
    and -0.0."""
    if found.different is None or not found.values:
        return False
    if len(found.different) == 1:
        return True
    about = found.about
    if found.kind == "string" or about.not_finite or about.least != about.greatest:
        return False
    return len(np.unique(count_numbers(found)[0])) == 1


def count_numbers(found: ColumnProfile) -> tuple[np.ndarray, np.ndarray]:
    """Returns the finite ones of different numbers, int64 or float64, and how often each occurs; of
    very many the first, as if each occurred once."""
    counted = dict.fromkeys(found.first, 1) if found.different is None else found.different
    plain = _format_numbers(found)
    if found.kind == "int64":
        made, _ = cast.convert(plain, config.Column(type="int64"))
    else:
        made, _ = cast.cast(plain.cast(pa.string()), pa.float64())
    values = made.to_numpy(zero_copy_only=False)
    finite = np.isfinite(values)
    return values[finite], np.array(list(counted.values()))[finite]


def _format_numbers(found: ColumnProfile) -> pa.Array:
    """Returns different numbers as texts that Arrow reads; of very many the first."""
    counted = found.first if found.different is None else found.different
    texts = [v if isinstance(v, bytes) else format_value(v).encode() for v in counted]
    return csv_numbers.normalize(pa.array(texts, pa.binary()), found.csv)


def is_name(found: ColumnProfile, rows: int) -> bool:
    """Tells if the values name the rows: whole numbers or texts, all there and all different."""
    different = found.different
    whole = found.kind in ("int64", "string") and not found.lengths and not found.missing
    return whole and different is not None and len(different) == rows > 1


def is_key(name: str, found: ColumnProfile, rows: int) -> bool:
    """Tells if values identify the rows, and the column is called so."""
    return _KEY.search(name) is not None and is_name(found, rows)


def says_nothing(name: str, found: ColumnProfile, rows: int) -> bool:
    """Tells what names rows from what just differs in all: dates, and numbers that leave gaps."""
    if found.kind == "string":
        return found.as_dates.form is None
    about = found.about
    assert about.least is not None and about.greatest is not None
    return bool(_KEY.search(name)) or about.greatest - about.least == rows - 1


def is_identifier(name: str, found: ColumnProfile) -> bool:
    """Tells if values say which thing a row is about: whole numbers or texts of a column that is
    called so."""
    called = _KEY.search(name) or _THING.fullmatch(name)
    return bool(called) and found.kind in ("int64", "string") and not found.lengths


def compute_unlearnt_share(found: ColumnProfile) -> float | None:
    """Returns the share of the rows whose identifier is too rare to learn what it stands for, if
    that is most of them: a long tail behind the frequent ones does no harm."""
    share = found.compute_share_of_rare(LEARNT)
    return share if share > _MOST_RARE else None


def is_code(found: ColumnProfile) -> bool:
    """Tells if texts are digits, of which some begin with zeros that numbers would lose."""
    text = found.kind == "string" and found.codes and not found.lengths
    return text and not found.as_dates.form and all(map(_NUMERIC.fullmatch, found.list_some()))


def list_some(found: ColumnProfile) -> list[str]:
    """Returns the first values, as text, without what people write where there is none."""
    return [text for text in found.list_some() if text not in found.tokens]


def has_unit(found: ColumnProfile) -> bool:
    """Tells if texts are numbers with a sign or unit, such as $5 and 7 EUR."""
    some = list_some(found)
    text = found.kind == "string" and not found.codes and not found.lengths and bool(some)
    if not text or found.as_dates.form or not all(map(_AMOUNT.fullmatch, some)):
        return False
    units = {_NUMBER.sub("", text).strip() for text in some}
    # More are names, such as seats: 12A, 30F; so are those with one number each, as of 1 Yes, 2 No.
    return len(units) <= _UNITS and not 1 < len(units) == len(some)


def is_number_or_amount(text: str) -> bool:
    """Tells if a text is digits with marks between them, and maybe a sign or unit."""
    return bool(_NUMERIC.fullmatch(text) or _AMOUNT.fullmatch(text))


def is_prose(found: ColumnProfile) -> bool:
    """Tells if values are sentences: many different ones, of many words."""
    many = found.different is None or len(found.different) > _SENTENCES
    if not many or found.lengths or found.kind != "string":
        return False
    some = [len(value.split()) for value in found.list_some()]
    return sum(some) >= _WORDS * len(some)


def is_class(found: ColumnProfile) -> bool:
    """Tells if the values are few enough, and occur often enough, to be classes."""
    if found.different is None or found.kind == "float32" or found.lengths:
        return False
    count = len(found.different)
    often = 2 if found.kind == "string" else LEARNT
    if count == 2:
        return True
    return 2 < count <= _CLASSES and found.values >= often * count and not is_amount(found)


def is_amount(found: ColumnProfile) -> bool:
    """Tells if whole numbers, though few enough to be classes, count or measure something: those
    next to each other are about as frequent, as visits to a doctor or ages are."""
    if found.kind != "int64" or found.different is None or found.lengths:
        return False
    if not FEW < len(found.different) <= _CLASSES:
        return False
    counts: collections.Counter[int] = collections.Counter()
    for value, count in found.different.items():
        text = csv_numbers.normalize_text(format_value(value), found.csv)
        counts[int(text.partition(".")[0])] += count
    often = np.log([counts[number] for number in sorted(counts)])
    if np.ptp(often) < math.log(_UNEVEN):
        return False
    apart = often - often.mean()
    return float(apart[1:] @ apart[:-1]) >= _ALIKE * float(apart @ apart)


def occurs_rarely(found: ColumnProfile) -> bool:
    """Tells if many different values have fewer than 2 rows each on average, so that nothing can
    be learnt of them."""
    different = found.count_of_different
    return not found.lengths and found.values < 2 * different > CATEGORIES


def convert_to_classes(found: ColumnProfile) -> ColumnProfile:
    """Returns a column of whole numbers that are written as 1.0, because some are missing, as if
    they were written as 1, if they are classes then; any other as it is."""
    if found.kind != "float32" or not found.pointed or found.different is None:
        return found
    if "int64" not in found.kinds or len(found.different) > 2 * _CLASSES:
        return found
    counts: collections.Counter[bytes] = collections.Counter()
    for value, count in found.different.items():
        whole = int(csv_numbers.normalize_text(format_value(value), found.csv).partition(".")[0])
        counts[str(whole).encode()] += count
    made = dataclasses.replace(found, classes=True, different=counts)
    return made if is_class(made) else found


def find_threshold(found: ColumnProfile) -> float | None:
    """Returns the middle of the two numbers, such as 0.0 and 1.0, that are all values there are."""
    few = found.different is not None and len(found.different) <= FEW
    if not few or found.kind != "float32" or found.lengths or found.about.not_finite:
        return None
    values = find_two_numbers(found)
    return sum(values) / 2 if values else None


def find_two_numbers(found: ColumnProfile) -> list[float]:
    """Returns the two numbers that are all values there are; of more or fewer none."""
    texts = map(format_value, found.different or ())
    values = sorted({float(csv_numbers.normalize_text(text, found.csv)) for text in texts})
    return values if len(values) == 2 else []


def compute_scaling(found: ColumnProfile) -> dict[str, float]:
    """Returns an offset and a scale that make numbers ones about 1, in few digits."""
    about = found.about
    if not about.finite:
        return {}
    if not about.deviation:
        return {"offset": about.mean} if about.mean else {}
    scale = float(f"{about.deviation:.2g}")
    offset = round(about.mean, -math.floor(math.log10(scale))) + 0.0  # no -0.0
    return {"offset": offset, "scale": scale}


def is_numbered(found: ColumnProfile) -> bool:
    """Tells if classes are the whole numbers from 0."""
    count = len(found.different or ())
    return found.kind == "int64" and (found.about.least, found.about.greatest) == (0, count - 1)


def format_value(value: Any) -> str:
    """Returns a value that was counted as text; whole floats as int64 is written."""
    if isinstance(value, float) and precision.EXACT <= abs(value) < precision.INT64.stop:
        return f"{value:.0f}"  # and not with an exponent
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
