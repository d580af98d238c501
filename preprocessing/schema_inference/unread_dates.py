"""Texts that look like dates, but are written in no form that is read."""

from __future__ import annotations

import re

from pipeline.steps import date_forms
from preprocessing.schema_inference import traits
from preprocessing.schema_inference.profile import ColumnProfile

# A day of this century or the last, in numbers or with a word; a week; a day and a time.
_YEAR, _PART, _WORD, _MARK = r"(19|20)\d\d", r"([012]?\d|3[01])", r"[^\W\d_]{3,12}\.?", r"[^\w\s]|_"
_ORDINAL = r"(\.|st|nd|rd|th|er|º)?"
_DAYS = (
    rf"{_YEAR} ?({_MARK}| ) ?{_PART} ?({_MARK}| ) ?{_PART}(?!\d)",
    rf"{_PART} ?({_MARK}| ) ?{_PART} ?({_MARK}| ) ?{_YEAR}(?!\d)",
    rf"{_PART}{_ORDINAL}[ ,./-]*(de )?{_WORD}[ ,./-]*(de |of )?{_YEAR}(?!\d)",
    rf"{_WORD}[ ,./-]*(the )?{_PART}{_ORDINAL}[ ,./-]+{_YEAR}(?!\d)",
    rf"{_YEAR}[ ,./-]*{_WORD}[ ,./-]*{_PART}{_ORDINAL}(?!\d)",
    rf"{_YEAR} ?[年년] ?\d\d?.*",
    rf"{_YEAR}-?W\d\d(-?[1-7])?",
    rf"{_YEAR}[01]\d[0-3]\d(?=[T ._-])",
    rf"{_PART}[./-]{_PART}(?=[ ,T]+\d?\d:\d\d)",
)
_DATE = re.compile(
    rf"[\[(<\"']?(\w{{2,12}}\.?,? +)?({'|'.join(_DAYS)})"
    r"(([\s,T@:_.-]|at|um|à)+\d[\d:.,h -]*.{0,20})?[\])>\"']?"
)
# So many of the texts do, which are the first of many.
_MOST = 0.9


def write_remark(name: str, found: ColumnProfile) -> list[str]:
    """Returns that most texts look like dates or times, with one that no form reads, and which
    forms there are; nothing of others, and if a form has all."""
    dates = found.as_dates
    if found.kind != "string" or found.lengths or dates.form or dates.mixed:
        return []
    if traits.is_personal(name, found):
        return []
    some = traits.list_some(found)
    like = [text for text in some if _is_read(text) or _DATE.fullmatch(text)]
    if not like or len(like) < _MOST * len(some):
        return []
    odd = next((text for text in like if not _is_read(text)), None)
    if odd is not None:
        what = f"such as {odd!r}, in no form that is read"
    else:
        others = (t for t in found.list_texts() if t not in found.tokens and not _is_read(t))
        odd = next(others, None)
        # Of very many texts only the first are at hand, and of all forms none has all.
        but = "not all are" if odd is None else f"not {odd!r}: correct it or leave it empty"
        what = f"such as {like[0]!r}, but {but}"
    return [
        f"{name!r} is kept as text: it looks like dates or times, {what}. Forms that are read: "
        f"{', '.join(date_forms.TEXTS)} (see the step date). Write all in one, such as "
        "2013-01-31T23:59:00"
    ]


def _is_read(text: str) -> bool:
    """Tells if some form reads a text."""
    return any(re.fullmatch(form, text, re.ASCII) for form in date_forms.TEXTS.values())
