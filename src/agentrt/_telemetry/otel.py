"""`OpenTelemetry`: what a program says about its spans. Nothing of the extra is imported before
one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._errors import AgentrtError
from .._model.log import Log
from .._trace.redact import Redaction
from .observation import Observation
from .spans import Redact

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from .._journal.store import Store
    from .tracing import Tracing


class OpenTelemetry:
    """Spans of what sessions do, through OpenTelemetry's API: give it to `open_session` or
    `open_runtime` as `telemetry`. A turn is a span below the one in which the prompt was made, with
    its tool calls, questions and sub-agents in it. What becomes of the spans is for the program's
    SDK to say.

    - `tracer_provider`: default: the program's global one.
    - `content`: whether prompts, answers and what goes in and out of tools are recorded. True takes
      out what looks like a key or a password; a function `text -> text` is asked instead.

    Raises `AgentrtError` if the extra `otel` is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        content: bool | Redact = False,
    ) -> None:
        try:
            from .tracing import Tracing
        except ModuleNotFoundError as error:
            raise AgentrtError(
                f'OpenTelemetry needs {error.name}: pip install "agentrt[otel]"'
            ) from error
        redact = Redaction().text if content is True else content or None
        self._tracing: Tracing = Tracing(tracer_provider, redact)

    def observe(self, agent: str, log: Log) -> Observation:
        """For agentrt's own use."""
        return self._tracing.observe(agent, log.session)

    def environment(self) -> Mapping[str, str]:
        """For agentrt's own use."""
        return self._tracing.environment()

    def keeps(self, store: Store) -> None:
        """For agentrt's own use."""
