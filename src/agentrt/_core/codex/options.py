"""The options of a Codex session, as `options=` of `open_session` takes them, and the result of a
program's tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypedDict

from ..model.content import Image, JsonObject, plain_text
from .messages import (
    DynamicToolCallOutputContentItem,
    DynamicToolCallResponse,
    InputImageDynamicToolCallOutputContentItem,
    InputTextDynamicToolCallOutputContentItem,
)

if TYPE_CHECKING:
    from ..wire.mcp import ToolOutcome


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


def tool_response(outcome: ToolOutcome) -> DynamicToolCallResponse:
    """Convert a tool's result. Text and images are kept; other content is only named."""
    items: list[DynamicToolCallOutputContentItem] = []
    for block in outcome.content:
        if isinstance(block, Image):
            url = f"data:{block.mime_type};base64,{block.data}"
            items.append(InputImageDynamicToolCallOutputContentItem(image_url=url))
        else:
            items.append(InputTextDynamicToolCallOutputContentItem(text=plain_text([block])))
    return DynamicToolCallResponse(content_items=items, success=not outcome.is_error)
