"""Finds out which encoding text is in that is not UTF-8, by `charset-normalizer`.

Only a byte order mark is certain. All else is a guess by what would be words, so it comes with some
of these, for a person to see if they are right; where nothing speaks for a guess, text is refused:
wrong words in records are worse.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
import unicodedata
from collections.abc import Iterable, Sequence

from pipeline import errors
from pipeline.records import file_kinds
from preprocessing.schema_inference import latin_letters
from preprocessing.sources import files

# Bytes of lines that are not ASCII, by which an encoding is recognised.
_SAMPLE, _BLOCK = 1 << 16, 1 << 20
# If this share of the lines that are not ASCII is UTF-8, so is the file; other lines are damaged.
_SOME = 0.1
# Share of damaged lines up to which a file is UTF-8 if nothing speaks for another encoding.
_FEW = 0.01
# Encodings that tables are really written in; rare ones that look alike are left out.
_LATIN = (
    "cp1252",
    "cp1250",
    "cp1254",
    "cp1257",
    "cp437",
    "cp850",
    "cp852",
    "iso8859_2",
    "iso8859_9",
    "iso8859_15",
    "mac_roman",
)
_SEVERAL_BYTES = ("big5", "cp932", "cp949", "euc_jp", "gb18030", "iso2022_jp")
_OTHERS = (
    *_SEVERAL_BYTES,
    "cp1251",
    "cp1253",
    "cp1255",
    "cp1256",
    "cp866",
    "cp874",
    "iso8859_5",
    "iso8859_7",
    "koi8_r",
    "koi8_u",
)
# What text in ISO-2022-JP has in it, which is ASCII.
_ESCAPE = b"\x1b$"
# Text in UTF-16 has more of these than other text has by damage: in delimiters, digits and ends of
# lines.
_NULS = 0.05
_WIDE = ("utf_16_be", "utf_16_le", "utf_32_be", "utf_32_le")
# Between encodings of Latin letters words of tables do not decide. This one is by far the most
# frequent, unless letters are those of a language that others have.
_WESTERN = "cp1252"
_RUN, _MANY_RUNS = re.compile(rb"[\x80-\xff]+"), 8
# Words of Latin letters have fewer than this share of letters that are not ASCII.
_LETTERS = re.compile(rb"[A-Za-z\x80-\xff]+")
_OF_LATIN = 0.45
# How much worse than the best a reading may be to count: in disorder, in likeness to a language.
_DISORDER, _LIKENESS = 0.05, 0.15
# In longer lines only what is not ASCII counts, with what is next to it.
_DELIMITER = re.compile(rb"[,;|\t]")
_LONG_LINE = 1000
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_BETWEEN_WORDS = re.compile(r"""[ ,;|"'\0-\x1f]+""")
_SHOWN, _LONG = 3, 20
_ICONV = {"mac_roman": "MACINTOSH"}
# From this share on, and in two places, what does not fit is of another encoding, and no damage.
_MIXED = 0.01
_LONG_WORD = 4
_LINE = 40
_WORD = re.compile(r"[^\W\d_]+")


@dataclasses.dataclass(frozen=True)
class Encoding:
    """An encoding by Python's name. `words` are some of those that are not ASCII, by which it was
    guessed; `others` are those that other encodings make of the same bytes. `few` tells that nearly
    all lines are UTF-8, so that the others may be damaged."""

    name: str
    words: tuple[str, ...] = ()
    others: tuple[tuple[str, tuple[str, ...]], ...] = ()
    few: bool = False

    @property
    def remark(self) -> str:
        """What a person should look at; empty if there is no doubt."""
        if not self.words:
            return ""
        others = "; ".join(
            f"{name} makes {_format_list(words)} of it" for name, words in self.others
        )
        return (
            f"the text is not UTF-8 and taken for {self.name}, which makes "
            f"{_format_list(self.words)} of it{f' ({others})' if others else ''}; "
            "if that is wrong, change data.csv.encoding"
        )


UTF_8 = Encoding("utf-8")


@dataclasses.dataclass(frozen=True)
class _Candidate:
    name: str
    text: str
    disorder: float = 0.0
    likeness: float = 0.0


def find(head: bytes, path: str, *, rows: int = 0) -> Encoding:
    """Returns the encoding of text that begins with `head`, or whose lines that are not ASCII are
    these, of so many `rows`. Raises `DataError` naming the `path` if it is not UTF-8 and nothing
    decides between others."""
    if mark := file_kinds.detect_encoding(head):
        return Encoding(mark)
    if wide := detect_without_mark(head):
        return Encoding(wide)
    lines = head.splitlines(keepends=True)
    other = [line for line in lines if not line.isascii()]
    damaged = [line for line in other if not _can_decode(line, "utf-8")]
    escaped = _ESCAPE in head
    if not escaped and len(damaged) <= (1 - _SOME) * len(other):
        return UTF_8
    few = not escaped and len(damaged) <= _FEW * max(rows, len(lines))
    sample = _take_sample([line for line in lines if _ESCAPE in line] if escaped else damaged)
    latin = not escaped and _is_latin(sample)
    names = ("iso2022_jp",) if escaped else _LATIN if latin else _OTHERS
    readings = [one for one in _rank_readings(sample, names) if _can_decode(head, one.name)]
    name = _choose_latin(sample) if latin else _WESTERN
    if latin and _can_decode(head, name):
        first = _Candidate(name, sample.decode(name, "replace"))
        readings = [first, *(one for one in readings if one.name != name)]
    else:
        readings = readings if latin else _select_likely(readings, sample)
        if (not readings and escaped) or (few and len(readings) != 1):
            return UTF_8
        if len(readings) != 1:
            raise errors.DataError(f"{path!r}: {_explain_doubt(readings, name if latin else None)}")
    utf_8 = [line for line in other if _can_decode(line, "utf-8")]
    _check_mixed(readings[0], path, utf_8, lines=len(other))
    (name, words), *others = _choose_words(readings).items()
    return Encoding(name, words, tuple(others[:_SHOWN]), few=few)


def read_not_ascii(paths: Iterable[str]) -> bytes:
    """Returns the first lines that are not ASCII of each file that has some."""
    found: list[bytes] = []
    for path in paths:
        size, rest = 0, b""
        with files.open_unpacked(path) as stream:
            while size < _SAMPLE and (block := stream.read(_BLOCK)):
                block, rest = rest + block, b""
                lines = [] if block.isascii() else block.splitlines()
                if lines and len(lines[-1]) < _BLOCK:
                    rest = lines.pop()
                found.append(_take_sample([line for line in lines if not line.isascii()]))
                size += len(found[-1])
        if not rest.isascii():
            found.append(rest)
    return b"\n".join(filter(None, found))


def _choose_latin(sample: bytes) -> str:
    """Returns the encoding of Latin letters that text is most likely in. Of a few words letters may
    not decide, but some words are none in the most frequent encoding."""
    if name := latin_letters.find_other_encoding(_WESTERN, sample):
        return name
    natural = [name for name in latin_letters.find_encodings(sample) if _is_natural(sample, name)]
    return natural[0] if natural and _find_strange(sample.decode(_WESTERN, "replace")) else _WESTERN


def detect_without_mark(head: bytes) -> str | None:
    """Returns which of UTF-16 and UTF-32 text is in that begins with `head` and has no byte order
    mark, if it is."""
    if head.count(b"\0") <= _NULS * len(head):
        return None
    found = _rank_readings(head[: min(_SAMPLE, len(head) // 4 * 4)], _WIDE)
    # Else it may be other text with damage, or no text.
    found = [one for one in found if re.search(r"[,;\t|]", one.text)]
    return found[0].name.replace("_", "-") if len(found) == 1 else None


def build_conversion(name: str) -> str:
    """Returns the command that converts an encoding."""
    return f"iconv -f {format_name(name)} -t UTF-8"


def format_name(name: str) -> str:
    """Returns what others than Python call an encoding."""
    plain = re.sub(r"^(ISO)(8859|2022)-", r"\1-\2-", name.upper().replace("_", "-"))
    return _ICONV.get(name, re.sub(r"^(UTF-\d+)-", r"\1", plain))


def _take_sample(lines: Sequence[bytes]) -> bytes:
    """Returns whole lines, and of long ones what is not ASCII, with what is next to it."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        for part in [line] if len(line) <= _LONG_LINE else _cut_cells(line):
            found.append(part)
            size += len(part)
        if size >= _SAMPLE:
            break
    return b"\n".join(found)


def _cut_cells(line: bytes) -> list[bytes]:
    cells = _DELIMITER.split(line)
    other = [n for n, cell in enumerate(cells) if not cell.isascii()]
    return [b",".join(cells[max(0, n - 1) : n + 2]) for n in other]


def _is_latin(sample: bytes) -> bool:
    """Tells if words have letters that are ASCII between those that are not. Words of one letter,
    and of two if one is ASCII, say nothing."""
    words = [word for word in _LETTERS.findall(sample) if not word.isascii()]
    telling = b"".join(
        word for word in words if len(word) > 2 or (len(word) == 2 and min(word) > 127)
    )
    return sum(byte > 127 for byte in telling) <= _OF_LATIN * len(telling)


def _check_mixed(reading: _Candidate, path: str, utf_8: Sequence[bytes], *, lines: int) -> None:
    """Raises `DataError` if some of the `lines` that are not ASCII are in another encoding than
    what was read: those that are in UTF-8, or those in words that no language has."""
    if reading.name in _SEVERAL_BYTES:
        return
    words = [word for word in _WORD.findall(reading.text) if not word.isascii()]
    strange = _find_strange(reading.text)
    others = f"as {reading.name}, others have {_format_list(strange[:_SHOWN])}"
    sample = reading.text.encode(reading.name, "replace")
    if len(utf_8) > 1 and len(utf_8) >= _MIXED * lines:
        others = (
            f"{len(utf_8):,} of {lines:,} are UTF-8, such as {utf_8[0].decode().strip()[:_LINE]!r}"
        )
    elif len(strange) < 2 or sum(map(_is_strange, words)) < _MIXED * len(words):
        return
    elif whole := [name for name in (*_LATIN, *_OTHERS) if _is_natural(sample, name)]:
        found = [_Candidate(name, sample.decode(name)) for name in whole]
        raise errors.DataError(f"{path!r}: {_explain_doubt(found, None)}")
    fits = [word for word in words if not _is_strange(word)]
    raise errors.DataError(
        f"{path!r}: its lines are in several encodings: some have {_format_list(fits[:_SHOWN])} as "
        f"{reading.name}; {others}. Write all of them as UTF-8"
    )


def _is_natural(sample: bytes, name: str) -> bool:
    """Tells if one encoding makes words of all that is not ASCII."""
    if not _can_decode(sample, name):
        return False
    text = sample.decode(name, "replace")
    letters = all(one.isalpha() for one in text if one > "\x7f")
    return letters and not _find_strange(text)


def _find_strange(text: str) -> list[str]:
    words = (word for word in _WORD.findall(text) if not word.isascii())
    return list(dict.fromkeys(filter(_is_strange, words)))


def _is_strange(word: str) -> bool:
    """Tells if letters are from two encodings: Latin words have some in ASCII, and words of other
    scripts have none."""
    plain = sum(letter.isascii() for letter in word)
    latin = any("LATIN" in unicodedata.name(letter, "") for letter in word if letter > "\x7f")
    return plain == 0 and len(word) >= _LONG_WORD if latin else plain > max(2, len(word) / 2)


def _select_likely(readings: Sequence[_Candidate], sample: bytes) -> list[_Candidate]:
    """Returns the readings that are about as likely as the best."""
    found = [
        one
        for one in readings
        if one.disorder <= readings[0].disorder + _DISORDER
        and one.likeness >= readings[0].likeness - _LIKENESS
    ]
    # Words of another encoding seldom have as many bytes as whole characters all have.
    of_several = [one for one in found if one.name in _SEVERAL_BYTES]
    return of_several if of_several and len(_RUN.findall(sample)) >= _MANY_RUNS else found


def _can_decode(head: bytes, name: str) -> bool:
    try:
        # The last character may be cut.
        codecs.getincrementaldecoder(name)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _rank_readings(data: bytes, names: Sequence[str]) -> list[_Candidate]:
    """Returns what encodings make of bytes, the most likely text first."""
    # Imported here, as few files need it.
    import charset_normalizer

    found = charset_normalizer.from_bytes(
        data, cp_isolation=list(names), preemptive_behaviour=False
    )
    readings = []
    for match in found:
        text = str(match)
        same = match.could_be_from_charset
        name = _WESTERN if _WESTERN in same else match.encoding
        if name in names and not _CONTROL.search(text):
            readings.append(_Candidate(name, text, match.chaos, match.coherence))
    return readings


def _explain_doubt(readings: Sequence[_Candidate], mostly: str | None) -> str:
    """Says why text is refused; nearly all of it may be in the encoding `mostly`."""
    if not readings:
        how = (
            f", such as by {build_conversion(mostly)} -c, which leaves out what is damaged"
            if mostly
            else ""
        )
        return f"is not UTF-8, nor text in another known encoding; write it as UTF-8{how}"
    makes = "; ".join(
        f"{name} makes {_format_list(words)} of it"
        for name, words in list(_choose_words(readings).items())[:_SHOWN]
    )
    names = ", ".join(format_name(one.name) for one in readings[:_SHOWN])
    return (
        f"is not UTF-8, and its encoding is in doubt ({makes}); convert it by iconv -f ENCODING "
        f"-t UTF-8, with the one of {names} that is right"
    )


def _choose_words(readings: Sequence[_Candidate]) -> dict[str, tuple[str, ...]]:
    """Returns some words of each reading by its name: those that differ most, if they are the same
    words."""
    found = [
        [word[:_LONG] for word in _BETWEEN_WORDS.split(one.text) if not word.isascii()]
        for one in readings
    ]
    if all(found) and len(set(map(len, found))) == 1:
        same = list(dict.fromkeys(zip(*found, strict=True)))
        same.sort(key=lambda word: -len(set(word)))
        found = [list(words) for words in zip(*same[:_SHOWN], strict=True)]
    return {
        one.name: tuple(dict.fromkeys(words))[:_SHOWN]
        for one, words in zip(readings, found, strict=True)
    }


def _format_list(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words))
