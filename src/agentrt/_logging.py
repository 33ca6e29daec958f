"""agentrt's loggers, and what they say each record is about.

What a session has started knows by a context variable which session that is: its own tasks, and the
program's handlers. What is logged about a session elsewhere, as when a program cancels its turn,
names it itself (`LogScope.say`): there, the variable may be another session's.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from ._model.log import Log
from ._process.inherited import has_secret_name

if TYPE_CHECKING:
    from ._trace.redact import Redaction

FIELDS: Final = ("session", "agent", "turn", "seq")
"""What a record is about, as far as that is known."""

_NAMES: Final = (
    *("session", "process", "process.stderr", "tools", "terminals", "store"),
    *("server", "trace", "telemetry"),
)
"""The loggers, below `agentrt`."""

_current: ContextVar[LogScope | None] = ContextVar("agentrt.log", default=None)


class LogScope:
    """A session, or one of its turns, as something that is logged about."""

    __slots__ = ("_env", "_log", "_redaction", "agent", "turn")

    def __init__(
        self,
        log: Log,
        agent: str,
        env: Callable[[], Mapping[str, str]] = dict,
        turn: str | None = None,
    ) -> None:
        """`env`: what the agent was given, some of which is secret."""
        self.agent = agent
        self.turn = turn
        self._log = log
        self._env = env
        self._redaction: Redaction | None = None

    def of(self, turn: str | None) -> LogScope:
        """The same session, in that turn."""
        return self if turn == self.turn else LogScope(self._log, self.agent, self._env, turn)

    @property
    def fields(self) -> dict[str, str | int]:
        found: dict[str, str | int] = {"session": self._log.session, "agent": self.agent}
        if self.turn is not None:
            found["turn"] = self.turn
        return found | {"seq": self._log.seq}

    @property
    def redaction(self) -> Redaction:
        if self._redaction is None:
            self._redaction = _redaction({**os.environ, **self._env()})
        return self._redaction

    def enter(self) -> None:
        """From now on, what runs in this context is about it."""
        _current.set(self)

    def entered(self) -> _Entered:
        """A block: what is started in it is about it."""
        return _Entered(self)

    def say(
        self,
        level: int,
        message: str,
        *args: object,
        turn: str | None = None,
        exc_info: Exception | None = None,
        **more: object,
    ) -> None:
        """Log something about the session, in whosever context; `more`: further fields."""
        if _session.isEnabledFor(level):
            with self.of(turn).entered():
                _session.log(level, message, *args, exc_info=exc_info, extra=more, stacklevel=2)


class _Entered:
    """What `contextmanager` would make of a generator, at a fifth of its cost."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: LogScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._token = _current.set(self._scope)

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)


def log_context() -> dict[str, str | int]:
    """What the running code works for, to be added to what it logs: `session` and `agent` and, if
    it does so for a turn, `turn`; `seq` is the number of the session's last event.

    It is empty outside sessions. In it are tools, hooks, policies and all else that a session calls
    or starts; a block that reads a turn's events is its caller's.
    """
    scope = _current.get()
    return {} if scope is None else scope.fields


class LogContext(logging.Filter):
    """Puts `log_context` on each record as attributes: a filter for the handlers of a program, so
    that its own records have them, too. Every record gets all four; what is not known is None."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Takes every record."""
        known = log_context()
        for name in FIELDS:
            if name not in record.__dict__:
                setattr(record, name, known.get(name))
        return True


class _Own(logging.Filter):
    """Of agentrt's own records: they say what they are about, and no secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        scope = _current.get()
        if scope is not None:
            vars(record).update(scope.fields)
        text = (_outside() if scope is None else scope.redaction).text
        if isinstance(record.args, tuple):
            record.args = tuple(
                text(str(each)) if isinstance(each, str | Exception) else each
                for each in record.args
            )
        if record.exc_info:
            record.exc_text = text(_formatter.formatException(record.exc_info))
        return True


class _PrintFailures(logging.Handler):
    """Prints exceptions of the program's own code as long as the program configures no logging.

    Without it, a tool that raises is only an error for the model, and its author sees nothing.
    Everything else that agentrt logs stays silent by default, as in any library.
    """

    def emit(self, record: logging.LogRecord) -> None:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return  # the program sees to its records itself
            logger = logger.parent if logger.propagate else None
        if record.exc_info and sys.stderr is not None:
            sys.stderr.write(f"agentrt: {record.getMessage()}\n{record.exc_text}\n")


def get_logger(name: str) -> logging.Logger:
    """One of agentrt's loggers, which are all set up when this module is imported."""
    return logging.getLogger(f"agentrt.{name}")


def _redaction(env: Mapping[str, str]) -> Redaction:
    from ._trace.redact import Redaction  # its patterns cost a start 9 ms

    return Redaction(value for name, value in env.items() if has_secret_name(name))


def _outside() -> Redaction:
    return _redaction(os.environ)


_session: Final = get_logger("session")
_formatter: Final = logging.Formatter()
_own: Final = _Own()
_printing = _PrintFailures(logging.ERROR)
logging.getLogger("agentrt").addHandler(_printing)
for _name in _NAMES:
    get_logger(_name).addFilter(_own)
