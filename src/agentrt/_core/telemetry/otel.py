"""`OpenTelemetry`: spans of sessions. Packages of the extra `otel` are imported only when one is
made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..errors import AgentrtError
from ..model.log import Log
from ..session.interfaces import ViewerAction
from ..trace.redact import Redaction
from .observation import Observation

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

    from ..store.store import Store
    from .tracing import SpanTelemetry


class OpenTelemetry:
    """Spans of sessions, through the API of OpenTelemetry.

    Give it to `open_session` or `open_runtime` as `telemetry`. A turn is a span below the one in
    which the prompt was made; it contains spans of its tool calls, questions and sub-agents. The
    program's SDK decides where the spans are exported.

    - `tracer_provider`: by default the program's global one.
    - `content`: True records prompts, answers, and inputs and outputs of tools, without text that
      looks like a key or a password. A function `text -> text` is used instead of this redaction.

    Raises `AgentrtError` if the extra `otel` is not installed.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        content: bool | Callable[[str], str] = False,
    ) -> None:
        """Import the packages of the extra, which this module does without."""
        try:
            from .tracing import SpanTelemetry
        except ModuleNotFoundError as error:
            raise AgentrtError(
                f'OpenTelemetry needs {error.name}: pip install "agentrt[otel]"'
            ) from error
        redact = Redaction().text if content is True else content or None
        self._tracing: SpanTelemetry = SpanTelemetry(tracer_provider, redact)

    def observe(self, agent: str, log: Log) -> Observation:
        """Internal: used by agentrt itself."""
        return self._tracing.observe(agent, log.session)

    def environment(self) -> Mapping[str, str]:
        """Internal: used by agentrt itself."""
        return self._tracing.environment()

    def keeps(self, store: Store) -> None:
        """Internal: used by agentrt itself."""

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        """Internal: used by agentrt itself."""
