"""What spans do not show of contents: what a trace of the wire does not, and keys of several lines.

It finds what is written as a secret: no wall.
"""

from __future__ import annotations

import re
from typing import Final

from .._trace.redact import REDACTED, Redaction

_KEY: Final = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_RULES: Final = Redaction()


def without_secrets(text: str) -> str:
    """The text with each secret replaced."""
    return _RULES.text(_KEY.sub(REDACTED, text))
