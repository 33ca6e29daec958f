"""What an agent inherits of its host's environment when nobody says which one it is to have.

An agent runs builds and tests in it, so most of it must be there; a program that embeds agentrt may
have keys in it that are nobody's business. So what looks like a secret stays behind, unless it is
what agents call their models with. It keeps secrets out of an agent's reports and its model's
context. It is no wall: whoever runs as the same user can read this process's memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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

_MODELS: Final = re.compile(rf"(?:{'|'.join(MODELS)})_.+|[A-Z]+_PROXY", re.IGNORECASE)
_SECRET: Final = re.compile(
    r"(?:.*_)?(?:SECRETS?|TOKENS?|PASS|PASSWORD|PASSWD|PWD|PASSPHRASE|CREDENTIALS?|COOKIES?|PAT|JWT"
    r"|(?:API|ACCESS|AUTH|PRIVATE|SECRET)?KEYS?|DSN|CONN(?:ECTION)?_STR(?:ING)?)(?:_.*)?"
    r"|.*(?:PASSWORD|PASSWD|TOKEN|SECRET)",
    re.IGNORECASE,
)
_WITH_PASSWORD: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^/@\s]*:[^/@\s]+@", re.IGNORECASE)
_FOLDERS: Final = frozenset({"PWD", "OLDPWD"})


def inherited(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what looks like a secret that is no key to a model: by its name, or a URL
    with a password in it."""
    return {name: value for name, value in environ.items() if not is_secret(name, value)}


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a secret that agents have no use for."""
    if name in _FOLDERS or _MODELS.fullmatch(name):
        return False
    return bool(_SECRET.fullmatch(name) or _WITH_PASSWORD.match(value))
