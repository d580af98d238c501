"""Takes keys, tokens and passwords out of text before it is shown, logged or stored."""

from __future__ import annotations

import re
from typing import Any

HIDDEN = "[hidden]"

# Secrets that are known by how they look.
_SHAPES = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}"  # access keys of AWS
    r"|\bya29\.[\w.-]+"  # OAuth tokens of Google
    r"|\bAIza[\w-]{30,}"  # API keys of Google
    r"|\bgh[opsu]_\w{20,}"  # tokens of GitHub
    r"|\beyJ[\w-]{10,}\.[\w-]+\.[\w-]+"  # JSON web tokens
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:(?!-----END).)*(?:-----END [A-Z ]*-----)?",
    re.DOTALL,
)
# Secrets that are known by what they are called: the name stays. Quotes as in JSON, YAML, Python.
_NAMED = re.compile(
    r"""((?:password|passwd|passphrase|secret|credentials?|api[_-]?key|access[_-]?key|auth[_-]?key
    |private[_-]?key|(?:access|auth|refresh|id|api|bearer)[_-]?token|signature)\w*
    ["']?\s*[=:]\s*)("[^"]*"|'[^']*'|[^\s"',;&)}\]]+)""",
    re.IGNORECASE | re.VERBOSE,
)
_IN_URL = re.compile(r"(://[^/\s:@]+:)[^/\s@]+(@)")


def redact(text: str) -> str:
    """Returns `text` with `[hidden]` in place of what looks like a secret or is called one."""
    text = _SHAPES.sub(HIDDEN, text)
    text = _IN_URL.sub(rf"\g<1>{HIDDEN}\g<2>", text)
    return _NAMED.sub(rf"\g<1>{HIDDEN}", text)


def redact_all(content: Any) -> Any:
    """Returns JSON-like content with every string in it redacted, and values of secret names."""
    if isinstance(content, str):
        return redact(content)
    if isinstance(content, dict):
        return {
            key: HIDDEN if isinstance(value, str) and _is_secret(key) else redact_all(value)
            for key, value in content.items()
        }
    if isinstance(content, list):
        return [redact_all(value) for value in content]
    return content


def _is_secret(key: Any) -> bool:
    return _NAMED.search(f"{key}=x") is not None
