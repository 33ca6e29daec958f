"""The part of the host's environment that agents inherit by default.

Agents run builds and tests in it, so most of it must be there. A program that embeds agentrt may
have other keys in it. So variables that look like secrets are left out, unless agents call
their models with them. This keeps secrets out of an agent's reports and its model's context. It is
not a security boundary: programs of the same user can read this process's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

# fmt: off
MODELS: Final = (
    "AI21", "ALIBABA", "AMP", "ANTHROPIC", "AUGMENT", "AZURE_OPENAI", "CEREBRAS", "CHUTES",
    "CLAUDE", "CODEX", "COHERE", "COPILOT", "CURSOR", "DASHSCOPE", "DEEPINFRA", "DEEPSEEK",
    "FACTORY", "FIREWORKS", "GEMINI", "GOOGLE", "GOOSE", "GROQ", "HF", "HUGGINGFACE", "IFLOW",
    "KILO", "KILOCODE", "KIMI", "LITELLM", "MINIMAX", "MISTRAL", "MOONSHOT", "NVIDIA", "OLLAMA",
    "OPENAI", "OPENCODE", "OPENROUTER", "PERPLEXITY", "QODER", "QWEN", "STEPFUN", "TOGETHER",
    "VERTEX", "VIBE", "VOYAGE", "XAI", "ZAI", "ZHIPU",
)
# fmt: on
"""Prefixes of variables that agents use to reach their models."""

_MODELS: Final = tuple(f"{name}_" for name in MODELS)
_PROXY: Final = re.compile(r"[A-Z]+_PROXY", re.IGNORECASE)
_KEY: Final = re.compile(
    r"(?:.*_)?(?:TOKENS?|AUTH|(?:API|ACCESS|AUTH)?_?KEYS?|JWT|PAT)(?:_.*)?|.*TOKEN", re.IGNORECASE
)
"""Names of a key to a model, after the name of its provider."""
_SECRET: Final = re.compile(
    r"(?:.*_)?(?:SECRETS?|TOKENS?|PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|CREDENTIALS?|COOKIES?|PAT|JWT"
    r"|(?:API|ACCESS|AUTH|PRIVATE|SECRET)?KEYS?|DSN|CONN(?:ECTION)?_STR(?:ING)?|AUTH|BEARER|OTP"
    r"|WEBHOOK|AUTHORIZATION|PW|KEY_?FILE|HTPASSWD)(?:_.*)?"
    r"|.*(?:PASSWORD|PASSWD|TOKEN|SECRET|APIKEY|PASSPHRASE|KEYFILE)"
    r"|(?:.*_)?(?:DB|SQL|SMTP|MAIL|LDAP|BIND|REDIS|USER|ADMIN|ROOT|KEY|STORE)(?:PASS|PWD|PW)",
    re.IGNORECASE,
)
_NEVER_A_MODEL_S: Final = re.compile(
    r"(?:.*_)?(?:DB|DATABASE|SQL|POSTGRES|MYSQL|REDIS|MONGO|SMTP|MAIL|SSH|DEPLOY|WEBHOOK|COOKIES?"
    r"|PRIVATE_KEYS?|SIGNING|ENCRYPTION)(?:_.*)?",
    re.IGNORECASE,
)
"""Names that belong to a provider's other services."""
_OTHER_SECRET: Final = re.compile(
    r"SECRET|PASS|PWD|CREDENTIAL|COOKIE|DSN|CONN(?:ECTION)?_STR", re.IGNORECASE
)
_CREDENTIALS: Final = re.compile(
    r"[a-z0-9+.-]://(?:[^/?#:]*+:(?:[^/]*+\Z|(?!\d+/))|[^/?#:]{20,}+\Z)", re.IGNORECASE
)
"""The part of a URL before an `@` that has a user with a password, or a long token."""
_WITH_SECRET: Final = re.compile(
    r"[?&;](?:password|passwd|pwd|token|secret|api_?key|access_key|sig)=[^&;\s]"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/",
    re.IGNORECASE,
)
_OPAQUE: Final = re.compile(r"[\w.+=~-]{20,}+", re.ASCII)
"""Words in which a key or a token may begin."""
_WITHOUT: Final = frozenset(
    {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "GOOGLE_APPLICATION_CREDENTIALS", "XAUTHORITY"}
)
"""Folders, sockets and files: their paths are not secret, even if their contents are."""


_ALWAYS: Final = re.compile(
    r"HTTP_AUTHORIZATION|PROXY_AUTHORIZATION|CREDENTIALS_DIRECTORY|NOTIFY_SOCKET|MAINPID|FDSTORE"
    r"|LISTEN_(?:FDS|PID|FDNAMES|PIDFDID)|WATCHDOG_(?:PID|USEC)|MEMORY_PRESSURE_(?:WATCH|WRITE)"
    r"|AGENTRT_(?:SERVE_.*|TERMINAL_STORE|.*(?:TOKEN|SECRET|PASSWORD|KEY).*)"
)
"""Variables for the host itself, wherever agentrt runs: its tokens, and the variables that a
service manager sets for a service."""
_SERVER: Final = re.compile(
    r"AGENTRT_(?!GUARD|TEST_).*|OTEL_EXPORTER_OTLP_(?:.*_)?(?:HEADERS|CLIENT_KEY|CLIENT_CERTIFICATE)"
    r"|(?:CONFIGURATION|RUNTIME|STATE|CACHE|LOGS)_DIRECTORY|INVOCATION_ID|JOURNAL_STREAM"
    r"|SYSTEMD_EXEC_PID|MANAGERPID"
)
"""Variables for `agentrt serve`: its settings, the keys of its telemetry, the folders of its
service."""
_DATABASE: Final = re.compile(r"PG[A-Z]+")
"""Variables that tell libpq the database, its password and its keys: `PGPASSFILE`, `PGSERVICE` …"""
_TELEMETRY_SECRETS: Final = re.compile(r"OTEL_EXPORTER_OTLP_(?:.*_)?(?:HEADERS|CLIENT_KEY)")
_DATABASE_SECRETS: Final = re.compile(
    r"PG(?:PASSWORD|PASSFILE|SERVICEFILE|SSLKEY|SSLCERT|SSLPASSWORD|SYSCONFDIR)"
)
"""The variables of libpq that contain secrets, or name files with secrets."""


def without_own(
    environ: Mapping[str, str], *, server: bool = False, database: bool = False
) -> dict[str, str]:
    """Return `environ` without the variables for agentrt itself, and without those with values that
    are paths in its credentials folder.

    `server`: this process is `agentrt serve`; exclude the other variables of that as well.
    `database`: its store is in PostgreSQL, so that all of libpq's variables are excluded.
    """
    own = [_ALWAYS, *([_SERVER] if server else []), *([_DATABASE] if database else [])]
    folder = environ.get("CREDENTIALS_DIRECTORY", "").rstrip("/")
    within = re.compile(rf"{re.escape(folder)}(?![\w.-])") if folder else None
    return {
        name: value
        for name, value in environ.items()
        if not any(pattern.fullmatch(name) for pattern in own)
        and not (within is not None and within.search(value))
    }


def inherited(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return `environ` without the variables for agentrt itself, and without secrets other than
    keys to models.

    A secret is recognized by its name, or by a password, a token or a private key in its value.
    """
    return _inherited(tuple(environ.items()))


@lru_cache(maxsize=1)
def _inherited(environ: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """The sessions of a process share one mapping, and reading each variable takes a while."""
    return {
        name: value
        for name, value in without_own(dict(environ)).items()
        if not is_secret(name, value)
        and not _DATABASE_SECRETS.fullmatch(name)
        and not _TELEMETRY_SECRETS.fullmatch(name)
    }


def has_secret_name(name: str) -> bool:
    """True if a variable has the name of a secret, including keys to models."""
    return name not in _WITHOUT and _SECRET.fullmatch(name) is not None


def is_secret(name: str, value: str) -> bool:
    """True if a variable looks like a secret that agents do not need."""
    by_name = _is_secret_by_name(name)
    if by_name is not None:
        return by_name
    # Few values contain any of these, and each session checks all variables.
    if "@" in value or "=" in value or "-----" in value or "//" in value:
        if _holds_secret(value) and not _is_model_s_address(name, value):
            return True
    return not _is_model_s(name) and _holds_token(value)


def _holds_token(value: str) -> bool:
    """Return True if a word of a value is a key or a token of a known service."""
    return any(
        _DIGIT.search(word[0]) is not None and _issued().match(word[0]) is not None
        for word in _OPAQUE.finditer(value)
    )


_DIGIT: Final = re.compile(r"[0-9]")


@lru_cache(maxsize=1)  # compiling it takes a while, and few environments have such words
def _issued() -> re.Pattern[str]:
    """Return the pattern of tokens that known services issue, and of JSON web tokens."""
    from ..token_shapes import SHAPES

    words = (*((prefix, rest) for prefix, rest in SHAPES), (r"eyJ[\w-]{8,}+\.", r"[\w-]{8,}+"))
    return re.compile("|".join(f"(?:{prefix})(?:{rest})" for prefix, rest in words), re.ASCII)


def _holds_secret(value: str) -> bool:
    """Return True if a value has a password: in a URL, in a connection string or as a
    private key.
    """
    if _WITH_SECRET.search(value) is not None:
        return True
    return "://" in value and any(
        _CREDENTIALS.search(part) is not None
        for word in value.split()
        for part in word.split("@")[:-1]
    )


@lru_cache(maxsize=4096)  # the names are the same for each session
def _is_secret_by_name(name: str) -> bool | None:
    """Return None if the value decides."""
    if name in _WITHOUT or _PROXY.fullmatch(name):
        return False
    if not _SECRET.fullmatch(name):
        return None
    if not _is_model_s(name) or _NEVER_A_MODEL_S.fullmatch(name):
        return True
    return not _KEY.fullmatch(name) or _OTHER_SECRET.search(name) is not None or None


def _is_model_s(name: str) -> bool:
    """Return True if a name begins with that of a provider of models."""
    return name[:-1].upper().startswith(_MODELS)


def _is_model_s_address(name: str, value: str) -> bool:
    """True for the URL of a provider behind a gateway that requires a password."""
    return _is_model_s(name) and value.lower().startswith(("http://", "https://"))
