"""Takes keys, tokens and passwords out of text before it is shown, logged or stored."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

HIDDEN = "[hidden]"

# Secrets that are known by how they look.
_SHAPES = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"  # access keys of AWS
    r"|\bya29\.[\w.-]+"  # OAuth tokens of Google
    r"|\bAIza[\w-]{30,}"  # API keys of Google
    r"|\bGOCSPX-[\w-]{20,}"  # client secrets of Google
    r"|\bgh[oprsu]_\w{20,}|\bgithub_pat_\w{20,}"  # tokens of GitHub
    r"|\bglpat-[\w-]{16,}"  # of GitLab
    r"|\bxox[a-z]-[\w-]{10,}|\bxapp-[\w-]{10,}"  # of Slack
    r"|\bhf_[A-Za-z0-9]{20,}"  # of Hugging Face
    r"|\bnpm_[A-Za-z0-9]{20,}|\bpypi-[\w-]{20,}"  # of package registries
    r"|\bsk-(?=[\w-]*\d)[\w-]{16,}|\b[rs]k_(?:live|test)_\w{10,}"  # of OpenAI, Anthropic, Stripe
    r"|\beyJ[\w-]{10,}\.[\w-]+\.[\w-]*"  # JSON web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END).)*(?:-----END [A-Z ]*-----)?",
    re.DOTALL,
)
# How a name ends and what may be around it: quotes as in JSON, YAML and Python.
_ENDS, _VALUE = r"""["']?\s*[=:]\s*""", r"""("[^"]*"|'[^']*'|[^\s"',;&)}\]]+)"""
_OF_ACCESS = (
    r"(?:access|account|api|auth|bearer|bot|client|csrf|deploy|git(?:hub|lab)?|hf|hub|huggingface"
    r"|id|jwt|npm|oauth2?|personal|private|pypi|refresh|registry|sas|secret|security|service"
    r"|session|slack|user|vault|wandb|xsrf)"
)
# Secrets that are known by what they are called: the name stays.
_NAMED = re.compile(
    rf"""((?:password|passwd|passphrase|secret|credentials?|connection[_-]?string)\w*{_ENDS}
    |(?:api|access|account|auth|consumer|encryption|private|signing|subscription)[_-]?key\w*{_ENDS}
    |{_OF_ACCESS}[_-]?token{_ENDS}
    |(?:\b|_)pwd{_ENDS}(?![/.~])
    |authorization{_ENDS}["']?(?:(?:basic|bearer|digest|token)\s+)?){_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
# Our messages begin with a place: `config 'token': must be ...`, `data.columns.token: is 7 ...`. A
# value in such a place is quoted or a single word, a message has several.
_PLACE = re.compile(r"""(?:["']|\b\w+\.[\w./-]+):\s$""")
_LONGEST_PATH = 100
_MESSAGE = re.compile(r"[a-z]+[,;:]?\s[A-Za-z(\[{'\"\d]")
# These names have other meanings in this field, where their values are numbers, words in brackets
# (`token: <pad>`) or nothing.
_NO_VALUE = r"""(?!["']?(?:[-+]?[\d.,]+(?:e[-+]?\d+)?|true|false|none|null|yes|no)\b(?![\w/+=-]))"""
_MAYBE = re.compile(
    rf"""((?:(?<![a-z])token|(?<![a-z])pass|(?<=_)pass){_ENDS}(?!["']?[<\[{{(]){_NO_VALUE}){_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
# A signature is also what a model has; that of a request has digits.
_SIGNED = re.compile(
    rf"""((?:signature|(?<![a-z])sig){_ENDS}(?=["']?[\w%+/=.-]*\d){_NO_VALUE}){_VALUE}""",
    re.IGNORECASE | re.VERBOSE,
)
_BEARER = re.compile(r"\b(bearer\s+)(?=[\w.~+/=-]*\d|[\w.~+/=-]{20})[\w.~+/=-]{6,}", re.IGNORECASE)
_IN_URL = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)")
_USER_OF_URL = re.compile(r"(://)(?=[\w-]*\d)[\w-]{20,}(@)")


@functools.lru_cache(maxsize=4096)  # of a wide table most texts are the same few
def redact(text: str) -> str:
    """Returns `text` with `[hidden]` in place of what looks like a secret or is called one."""
    text = _SHAPES.sub(HIDDEN, text)
    for in_url in (_IN_URL, _USER_OF_URL):
        text = in_url.sub(rf"\g<1>{HIDDEN}\g<2>", text)
    text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
    for named in (_NAMED, _MAYBE, _SIGNED):
        text = named.sub(_hide_value, text)
    return text


def _hide_value(found: re.Match[str]) -> str:
    """Returns what was found without its value, unless it is the place of a message."""
    before, after = max(0, found.start() - _LONGEST_PATH), found.end(1)
    is_place = _PLACE.search(found.string, before, after) is not None
    if is_place and _MESSAGE.match(found.string, after):
        return found[0]
    return found[1] + HIDDEN


def redact_all(content: Any) -> Any:
    """Returns JSON-like content with every string in it redacted, and values of secret names."""
    if isinstance(content, str):
        return redact(content)
    if isinstance(content, dict):
        return {key: redact_value(key, value) for key, value in content.items()}
    if isinstance(content, list):
        return [redact_all(value) for value in content]
    return content


def secrets_in(content: Any, path: str = "") -> Iterator[str]:
    """Yields the key paths, such as `model.params.token`, of what `redact_all` hides."""
    if isinstance(content, dict):
        for key, value in content.items():
            inner = f"{path}.{key}" if path else str(key)
            if isinstance(value, (dict, list)):
                yield from secrets_in(value, inner)
            elif redact_value(key, value) != value:
                yield inner
    elif isinstance(content, list):
        for number, value in enumerate(content):
            yield from secrets_in(value, f"{path}.{number}")
    elif isinstance(content, str) and redact(content) != content:
        yield path


def redact_value(key: Any, value: Any) -> Any:
    """Returns the value under a key as it may be shown."""
    if (
        isinstance(value, str)
        and value
        and redact(f"{key}={value!r}") != f"{key}={redact(value)!r}"
    ):
        return HIDDEN
    return redact_all(value)
