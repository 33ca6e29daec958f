"""What spans do not show of contents: what looks like a key, a token or a password."""

from __future__ import annotations

import re
from typing import Final

# Each part has a bounded way to its failure: contents are long, and an agent chooses them.
_SECRETS: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)"
    r"|\b(?:sk|pk|rk|ghp|gho|ghu|ghs|ghr|github_pat|glpat|xox[abprs]|npm|hf)[-_][\w-]{16,}"
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bAIza[\w-]{30,}"
    r"|\beyJ[\w-]{8,2000}\.[\w-]{8,}\.[\w-]*"
    r"|(?P<before>\b(?:Bearer|Basic)\s{1,9})[\w.~+/=-]{8,}"
    r"|(?P<place>://[^/\s:@]{0,200}:)[^/\s@]{1,200}(?=@)"
    r"|(?P<name>(?:password|passwd|secret|token|api[_-]?key|access[_-]?key)"
    r"""[\w-]{0,40}\\?["']?\s{0,9}[:=]\s{0,9}\\?["']?)[^\s"'\\,;&]{4,}""",
    re.IGNORECASE | re.DOTALL,
)

_HIDDEN: Final = "[redacted]"


def without_secrets(text: str) -> str:
    """The text with each secret replaced. It finds what is written as one: no wall."""
    return _SECRETS.sub(_hide, text)


def _hide(found: re.Match[str]) -> str:
    return next((kept for kept in found.groups() if kept is not None), "") + _HIDDEN
