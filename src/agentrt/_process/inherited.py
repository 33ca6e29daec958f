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


_ALWAYS: Final = re.compile(
    r"HTTP_AUTHORIZATION|PROXY_AUTHORIZATION|CREDENTIALS_DIRECTORY|NOTIFY_SOCKET|MAINPID|FDSTORE"
    r"|LISTEN_(?:FDS|PID|FDNAMES|PIDFDID)|WATCHDOG_(?:PID|USEC)|MEMORY_PRESSURE_(?:WATCH|WRITE)"
    r"|AGENTRT_(?:SERVE_.*|TERMINAL_STORE|.*(?:TOKEN|SECRET|PASSWORD|KEY).*)"
)
"""Variables that are the host's own, wherever agentrt runs: its tokens, and what a service manager
gives to a service."""
_SERVER: Final = re.compile(
    r"AGENTRT_(?!GUARD|TEST_).*|OTEL_EXPORTER_OTLP_(?:.*_)?(?:HEADERS|CLIENT_KEY|CLIENT_CERTIFICATE)"
    r"|(?:CONFIGURATION|RUNTIME|STATE|CACHE|LOGS)_DIRECTORY|INVOCATION_ID|JOURNAL_STREAM"
    r"|SYSTEMD_EXEC_PID|MANAGERPID"
)
"""Those of `agentrt serve`: its settings, the keys of its telemetry, the folders of its service."""
_DATABASE: Final = re.compile(r"PG[A-Z]+")
"""Those by which libpq finds a database, its password and its keys: `PGPASSFILE`, `PGSERVICE` …"""
_TELEMETRY_SECRETS: Final = re.compile(r"OTEL_EXPORTER_OTLP_(?:.*_)?(?:HEADERS|CLIENT_KEY)")
_DATABASE_SECRETS: Final = re.compile(
    r"PG(?:PASSWORD|PASSFILE|SERVICEFILE|SSLKEY|SSLCERT|SSLPASSWORD|SYSCONFDIR)"
)
"""Of those the ones that hold or name secrets."""


def without_own(
    environ: Mapping[str, str], *, server: bool = False, database: bool = False
) -> dict[str, str]:
    """`environ` without the variables that agentrt itself needs, by value or by the name of a file.

    `server`: this process is `agentrt serve`, whose other variables are its own as well.
    `database`: its store is in PostgreSQL, so that all of libpq's variables are its own.
    """
    own = [_ALWAYS, *([_SERVER] if server else []), *([_DATABASE] if database else [])]
    folder = environ.get("CREDENTIALS_DIRECTORY")
    return {
        name: value
        for name, value in environ.items()
        if not any(pattern.fullmatch(name) for pattern in own)
        and not (folder and f"{folder.rstrip('/')}/" in value)
    }


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without the variables that agentrt itself needs, and without those that look like a
    secret and not like a key to a model: by their name, or by a password, a token or a private key
    in their value."""
    return {
        name: value
        for name, value in without_own(environ).items()
        if not is_secret(name, value)
        and not _DATABASE_SECRETS.fullmatch(name)
        and not _TELEMETRY_SECRETS.fullmatch(name)
    }


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
