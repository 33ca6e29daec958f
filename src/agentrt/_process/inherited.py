"""What an agent inherits of its host's environment when nobody says which one it is to have.

An agent runs builds and tests in it, so most of it must be there; a program that embeds agentrt may
have keys in it that are nobody's business. So what looks like a secret stays behind, unless it is
what agents call their models with. It keeps secrets out of an agent's reports and its model's
context. It is no wall: whoever runs as the same user can read this process's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

MODELS: Final = (
    *("AI21", "ALIBABA", "AMP", "ANTHROPIC", "AUGMENT", "AZURE_OPENAI", "CEREBRAS", "CHUTES"),
    *("CLAUDE", "CODEX", "COHERE", "COPILOT", "CURSOR", "DASHSCOPE", "DEEPINFRA", "DEEPSEEK"),
    *("FACTORY", "FIREWORKS", "GEMINI", "GOOGLE", "GOOSE", "GROQ", "HF", "HUGGINGFACE", "IFLOW"),
    *("KILO", "KILOCODE", "KIMI", "LITELLM", "MINIMAX", "MISTRAL", "MOONSHOT", "NVIDIA", "OLLAMA"),
    *("OPENAI", "OPENCODE", "OPENROUTER", "PERPLEXITY", "QODER", "QWEN", "STEPFUN", "TOGETHER"),
    *("VERTEX", "VIBE", "VOYAGE", "XAI", "ZAI", "ZHIPU"),
)
"""How the names of variables begin by which agents reach their models."""

_MODELS: Final = tuple(f"{name}_" for name in MODELS)
_PROXY: Final = re.compile(r"[A-Z]+_PROXY", re.IGNORECASE)
_KEY: Final = re.compile(
    r"(?:.*_)?(?:TOKENS?|AUTH|(?:API|ACCESS|AUTH)?_?KEYS?|JWT|PAT)(?:_.*)?|.*TOKEN", re.IGNORECASE
)
"""What a key to a model may be called, behind the name of its provider."""
_SECRET: Final = re.compile(
    r"(?:.*_)?(?:SECRETS?|TOKENS?|PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|CREDENTIALS?|COOKIES?|PAT|JWT"
    r"|(?:API|ACCESS|AUTH|PRIVATE|SECRET)?KEYS?|DSN|CONN(?:ECTION)?_STR(?:ING)?|AUTH|BEARER|OTP"
    r"|WEBHOOK)(?:_.*)?"
    r"|.*(?:PASSWORD|PASSWD|TOKEN|SECRET|APIKEY)",
    re.IGNORECASE,
)
_NEVER_A_MODEL_S: Final = re.compile(
    r"(?:.*_)?(?:DB|DATABASE|SQL|POSTGRES|MYSQL|REDIS|MONGO|SMTP|MAIL|SSH|DEPLOY|WEBHOOK|COOKIES?"
    r"|PRIVATE_KEYS?|SIGNING|ENCRYPTION)(?:_.*)?",
    re.IGNORECASE,
)
"""What a provider's other services are called."""
_OTHER_SECRET: Final = re.compile(
    r"SECRET|PASS|PWD|CREDENTIAL|COOKIE|DSN|CONN(?:ECTION)?_STR", re.IGNORECASE
)
_CREDENTIALS: Final = re.compile(
    r"[a-z0-9+.-]://(?:[^/?#:]*+:(?:[^/]*+\Z|(?!\d+/))|[^/?#:]{20,}+\Z)", re.IGNORECASE
)
"""Of the part of a URL that is before an `@`: a user with a password, or a long token."""
_WITH_SECRET: Final = re.compile(
    r"[?&;](?:password|passwd|pwd|token|secret|api_?key|access_key|sig)=[^&;\s]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
_WITHOUT: Final = frozenset(
    {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "XAUTHORITY"}
)
"""Folders, sockets and files: what is in them is another matter."""


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what looks like a secret that is no key to a model: by its name, or by a
    password, a token or a private key in its value."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}


def has_secret_name(name: str) -> bool:
    """Whether a variable is called like a secret, be it a key to a model."""
    return name not in _WITHOUT and _SECRET.fullmatch(name) is not None


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret that agents have no use for."""
    by_name = _is_secret_by_name(name)
    if by_name is not None:
        return by_name
    # Few values have any of these, and each session looks at all variables.
    if "@" in value or "=" in value or "-----" in value:
        return _holds_secret(value) and not _is_model_s_address(name, value)
    return False


def _holds_secret(value: str) -> bool:
    if _WITH_SECRET.search(value) is not None:
        return True
    return "://" in value and any(
        _CREDENTIALS.search(part) is not None
        for word in value.split()
        for part in word.split("@")[:-1]
    )


@lru_cache(maxsize=4096)  # the same names for each session
def _is_secret_by_name(name: str) -> bool | None:
    """None: its value says so."""
    if name in _WITHOUT or _PROXY.fullmatch(name):
        return False
    if not _SECRET.fullmatch(name):
        return None
    if not _is_model_s(name) or _NEVER_A_MODEL_S.fullmatch(name):
        return True
    return not _KEY.fullmatch(name) or _OTHER_SECRET.search(name) is not None or None


def _is_model_s(name: str) -> bool:
    return name[:-1].upper().startswith(_MODELS)


def _is_model_s_address(name: str, value: str) -> bool:
    """A provider reached through a gateway that wants a password."""
    return _is_model_s(name) and value.lower().startswith(("http://", "https://"))
