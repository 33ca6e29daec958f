"""Models that an agent does not offer."""

from __future__ import annotations

from collections.abc import Collection

from .events import Notice


def model_unknown(agent: str, model: str | None, offered: Collection[str]) -> Notice | None:
    """Return a warning about a model that was asked for and is not among those offered.

    Return None if no model was asked for, or the agent has named no model that it offers.
    """
    if model is None or not offered or model in offered:
        return None
    message = (
        f"{agent} does not offer the model {model!r:.200} and may refuse prompts; it offers: "
        f"{', '.join(offered)}"
    )
    return Notice("warning", "model_unknown", message, {"model": model, "offered": list(offered)})
