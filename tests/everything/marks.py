"""The texts that each step of the scripted agents shows, in the order of the steps."""

from __future__ import annotations

from typing import Final

PICTURE: Final = "<picture>"
"""Stands for the data of the image, and for its place on a terminal without images."""
STRUCTURED: Final = "structured-value"
COMMAND: Final = "new-command"
USED: Final = "API time 61.0 s|API 1:01|61.0"

CLAUDE: Final[list[tuple[str, ...]]] = [
    ("a-thought", "streamed-text"),
    ("streamed-input",),
    ("whole-command",),
    ("tool-output",),
    ("draw-subject", "picture-text", PICTURE, "linked-name", STRUCTURED),
    ("was-old", "is-new"),
    ("search-query", "search-result", "https://found.example/page"),
    ("cited-answer", "citation-title", "https://cited.example/page"),
    ("plan-entry",),
    ("agent-title",),
    ("agent-words", "agent-step", "agent-output"),
    ("agent-progress", "4,321|4.3K"),
    ("agent-report", "9,876|9.9K"),
    ("91%|91.0",),
    ("broken-server",),
    ("hook-words",),
    ("overloaded-words",),
    ("denied-words",),
    ("hint-words",),
    ("summarised",),
    (COMMAND,),
    ("last-words", USED, "1.2 s|1.234|first token 1 s", "0.4242|$0.42", "3,333|3.3K|3333"),
]
"""Of `claude_agent.py`."""

CODEX: Final[list[tuple[str, ...]]] = [
    ("a-thought", "streamed-text"),
    ("whole-command",),
    ("tool-output",),
    ("tool-progress",),
    ("picture-text", PICTURE, "linked-name", "resource-text", STRUCTURED),
    ("was-old", "is-new"),
    ("search-query", "search-result", "https://found.example/page"),
    ("https://opened.example/",),
    ("found-pattern",),
    ("viewed-image.png",),
    ("image-prompt", "generated-image.png"),
    ("plan-entry",),
    ("agent-title",),
    ("agent-words", "agent-step", "agent-output"),
    ("9,876|9.9K",),
    ("agent-report",),
    ("goal-words",),
    ("review-words",),
    ("review-result",),
    ("hook-words",),
    ("hook-prompt",),
    ("ompacting the conversation",),
    ("91%|91.0",),
    ("broken-server", "server-error"),
    ("retry-words",),
    ("warning-words",),
    ("last-words",),
]
"""Of `codex_agent.py`."""

CODEX_COMMANDS: Final = {
    "compact": ("Summarize the conversation", "the conversation so far was summarised"),
    "review": ("Review the uncommitted changes", "slash-review-result"),
    "init": ("Write an AGENTS.md", "slash-init-words"),
    "status": ("Show the model, the mode", "Model: scripted"),
}
"""Codex's slash commands: a part of the description, and of what a turn with the command shows."""
