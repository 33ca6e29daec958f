"""A model that codex does not offer is reported when the thread begins."""

from __future__ import annotations

import pytest

from agentrt.events import Notice
from agentrt.lowlevel import Opening

from .codex_kit import Peer


@pytest.mark.parametrize(("model", "unknown"), [(None, False), ("m-2", False), ("m-9", True)])
def test_a_model_that_is_not_offered_is_reported(model: str | None, unknown: bool) -> None:
    effects = Peer().greet(Opening(cwd="/shop", model=model))
    notices = [effect for effect in effects if isinstance(effect, Notice)]
    assert [(notice.code, notice.level) for notice in notices] == (
        [("model_unknown", "warning")] if unknown else []
    )
    for notice in notices:
        assert notice.data == {"model": "m-9", "offered": ["m-1", "m-2"]}
        assert "m-1, m-2" in notice.message
