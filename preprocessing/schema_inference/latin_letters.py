"""Which of the encodings of Latin letters text is in, by the letters of languages.

Text in one language has its letters alone: read in another encoding, Polish has superscripts within
words, and Czech the letters of Danes and Italians. Statistics of words, as in charset-normalizer,
do not tell names and places of a table apart.
"""

from __future__ import annotations

import collections
from collections.abc import Collection, Mapping, Sequence

# What is no letter, but stands in text all the same.
_SIGNS = "²³°"
# The letters beyond ASCII of each language, as dictionaries list them. Letters of two languages
# are in no list: a table of several countries stays with the most frequent encoding.
_WESTERN = (
    "äöüß",  # German
    "àâæçèéêëîïôœùûüÿ",  # French
    "áéíñóúü¿¡ºª",  # Spanish
    "àáâãçéêíóôõúüºª",  # Portuguese
    "àèéìíîòóùúºª",  # Italian
    "àçèéíïòóúü",  # Catalan
    "áèéêëïíóöúü",  # Dutch
    "åäöéàü",  # Swedish, Finnish
    "åæøéäöü",  # Danish, Norwegian
    "áæéíðóöúýþ",  # Icelandic
)
_CENTRAL = (
    "ąćęłńóśźż",  # Polish
    "áčďéěíňóřšťúůýž",  # Czech
    "áäčďéíľĺňóôŕšťúýž",  # Slovak
    "áéíóöőúüű",  # Hungarian
    "ćčđšž",  # Croatian, Slovene
    "ăâîşţ",  # Romanian
)
_ALPHABETS: Mapping[str, Sequence[str]] = {
    "cp1250": _CENTRAL,
    "iso8859_2": _CENTRAL,
    "cp1254": ("âçğıîöşüûİ",),  # Turkish, also in ISO 8859-9
    "cp1257": ("ąčęėįšūųž", "āčēģīķļņšūž", "äöõüšž"),  # Lithuanian, Latvian, Estonian
    "iso8859_4": ("ąčęėįšūųž", "āčēģīķļņšūž"),
}
# Of all letters beyond ASCII a language has at least these, and no western one as many; so many
# different letters must speak for it, or all that it has and no western one: Hungarian has ő and ű.
_ALL, _TOO_FEW, _DIFFERENT = 0.98, 0.95, 3


def find_other_encoding(western: str, sample: bytes) -> str | None:
    """Returns the encoding in which text has the letters of one language, if it has not in the
    `western` one."""
    counts = collections.Counter(byte for byte in sample if byte > 127)
    plain = {byte: bytes([byte]).decode(western, "replace") for byte in counts}
    if _compute_share(counts, plain, _WESTERN, signs=_SIGNS) >= _TOO_FEW:
        return None
    for name, alphabets in _ALPHABETS.items():
        letters = {byte: bytes([byte]).decode(name, "replace") for byte in counts}
        apart = {one for byte, one in letters.items() if one != plain[byte] and one.isalpha()}
        alike = [one for one in alphabets if _compute_share(counts, letters, [one]) >= _ALL]
        if any(len(apart) >= _DIFFERENT or _speaks(apart, alphabet) for alphabet in alike):
            return name
    return None


def find_encodings(sample: bytes) -> list[str]:
    """Returns the encodings in which all letters of text are those of one language."""
    counts = collections.Counter(byte for byte in sample if byte > 127)
    found = []
    for name, alphabets in _ALPHABETS.items():
        letters = {byte: bytes([byte]).decode(name, "replace") for byte in counts}
        if _compute_share(counts, letters, alphabets) >= _ALL:
            found.append(name)
    return found


def _speaks(letters: Collection[str], alphabet: str) -> bool:
    """Tells if these are all the letters of an alphabet that no western one has, and several."""
    own = set(alphabet) - set("".join(_WESTERN))
    return len(own) > 1 and own <= {one.lower() for one in letters}


def _compute_share(
    counts: Mapping[int, int],
    letters: Mapping[int, str],
    alphabets: Sequence[str],
    *,
    signs: str = "",
) -> float:
    """Returns how much of the text that is no punctuation has letters of one alphabet, of the one
    that has most."""
    known = {byte: one for byte, one in letters.items() if one.isalpha() or one.isnumeric()}
    total = sum(counts[byte] for byte in known)
    having = (
        sum(counts[b] for b, one in known.items() if {one, one.lower()} & {*alphabet, *signs})
        for alphabet in alphabets
    )
    return max(having) / total if total else 1.0
