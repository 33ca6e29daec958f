"""Resuming and forking in a sandbox: the agent finds its own conversations inside."""

from __future__ import annotations

import pytest

from .test_forks import test_the_model_is_sent_what_was_said_up_to_the_turn_and_no_more
from .test_sandboxed import lab

__all__ = ["lab", "test_the_model_is_sent_what_was_said_up_to_the_turn_and_no_more"]

pytestmark = [pytest.mark.real_agent, pytest.mark.sandbox]
