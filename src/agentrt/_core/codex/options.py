"""The options of a Codex session, as `options=` of `open_session` takes them."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from ..model.content import JsonObject


class CodexConfig(TypedDict, total=False):
    """The settings that Codex reports as options of a session (`Modes.options`)."""

    effort: str
    """Reasoning effort, such as `"low"`, `"medium"` or `"high"`; the model decides which exist."""


class CodexOptions(TypedDict, total=False):
    """The `options` of a session with Codex.

    For example::

        options: agentrt.codex.CodexOptions = {"config": {"effort": "high"}}
        async with agentrt.open_session("codex", options=options) as session:
            ...
    """

    config: CodexConfig
    """Settings for the first turn; change them later with `Session.set_option`."""
    json_schema: JsonObject
    """JSON schema of the answers."""
    codex: dict[str, Any]
    """Any other settings of Codex's `config.toml`, by their names there."""
    replay: bool
    """False if a resumed session should not repeat its history. Default: True."""
    session: Literal[False]
    """Set by agentrt for a process that only lists or deletes stored sessions."""
