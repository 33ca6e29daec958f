"""The loggers of agentrt, and the session that each log record belongs to.

Tasks and handlers started by a session find it in a context variable. Messages about a session that
are logged in another context, for example when a program cancels its turn, name the session
explicitly (`LogScope.say`), because the variable may refer to another session there.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, TypeVar

from .model.log import Log
from .process.inherited import has_secret_name

if TYPE_CHECKING:
    from .trace.redact import Redaction

T = TypeVar("T")
R = TypeVar("R")

LOG_FIELDS: Final = ("session", "agent", "turn", "seq")
"""Attributes of a log record that identify its session, as far as they are known."""

_NAMES: Final = (
    "session",
    "process",
    "process.stderr",
    "tools",
    "terminals",
    "sandbox",
    "store",
    "server",
    "trace",
    "telemetry",
    "audit",
)
"""Names of the loggers below `agentrt`."""

_current: ContextVar[LogScope | None] = ContextVar("agentrt.log", default=None)


class LogScope:
    """A session, or one of its turns, as the subject of log records."""

    __slots__ = ("_hides", "_log", "_of_turn", "agent", "turn")

    def __init__(
        self,
        log: Log,
        agent: str,
        env: Callable[[], Mapping[str, str]] = dict,
        turn: str | None = None,
        hides: _LazyRedaction | None = None,
    ) -> None:
        """`env`: the environment of the agent, which may contain secrets. `hides`: for the scope
        of a turn, the redaction of its session.
        """
        self.agent: str = agent
        self.turn: str | None = turn
        self._log = log
        self._hides = _LazyRedaction(env) if hides is None else hides
        self._of_turn: LogScope | None = None
        """The scope that `of` returned last."""

    def of(self, turn: str | None) -> LogScope:
        """Return the scope of the same session in this turn."""
        if turn == self.turn:
            return self
        scope = self._of_turn
        if scope is None or scope.turn != turn:
            scope = LogScope(self._log, self.agent, turn=turn, hides=self._hides)
            self._of_turn = scope
        return scope

    @property
    def fields(self) -> dict[str, str | int]:
        """The attributes for a log record."""
        found: dict[str, str | int] = {"session": self._log.session, "agent": self.agent}
        if self.turn is not None:
            found["turn"] = self.turn
        return found | {"seq": self._log.seq}

    @property
    def redaction(self) -> Redaction:
        """The redaction of secrets in the environments of this process and the agent."""
        return self._hides.made()

    def enter(self) -> None:
        """Make this the scope of the current context."""
        _current.set(self)

    def entered(self) -> _Entered:
        """Return a context manager that makes this the scope for everything started in the
        block.
        """
        return _Entered(self)

    def call(self, function: Callable[[T], R], argument: T) -> R:
        """Call a function of the program as this scope, and return its result."""
        token = _current.set(self)
        try:
            return function(argument)
        finally:
            _current.reset(token)

    def say(
        self,
        level: int,
        message: str,
        *args: object,
        turn: str | None = None,
        exc_info: Exception | None = None,
        **more: object,
    ) -> None:
        """Log a message about the session from any context. `more`: further fields."""
        if _session.isEnabledFor(level):
            with self.of(turn).entered():
                _session.log(level, message, *args, exc_info=exc_info, extra=more, stacklevel=2)


class _LazyRedaction:
    """The redaction of a session, made when it is first needed. Its scopes share it."""

    __slots__ = ("_env", "_made")

    def __init__(self, env: Callable[[], Mapping[str, str]]) -> None:
        self._env = env
        self._made: Redaction | None = None

    def made(self) -> Redaction:
        """Return the redaction."""
        if self._made is None:
            self._made = _redaction({**os.environ, **self._env()})
        return self._made


class _Entered:
    """A context manager at a fifth of the cost of one made by `contextmanager`."""

    __slots__ = ("_scope", "_token")

    def __init__(self, scope: LogScope) -> None:
        self._scope = scope

    def __enter__(self) -> None:
        self._token = _current.set(self._scope)

    def __exit__(self, *exc: object) -> None:
        _current.reset(self._token)


def log_context() -> dict[str, str | int]:
    """Return the session that the running code works for, as fields for a log record.

    The keys are `session` and `agent`, `turn` within a turn, and `seq`, the number of the session's
    last event. The dict is empty outside sessions. Tools, hooks, policies and everything else that
    a session calls or starts run inside one; a block that reads a turn's events belongs to its
    caller.
    """
    scope = _current.get()
    return {} if scope is None else scope.fields


class LogContext(logging.Filter):
    """Logging filter that adds `log_context` to each record as attributes.

    Attach it to the program's handlers, so that its own records have them, too. Every record gets
    all four attributes; unknown ones are None.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True for every record."""
        known = log_context()
        for name in LOG_FIELDS:
            if name not in record.__dict__:
                setattr(record, name, known.get(name))
        return True


class _Own(logging.Filter):
    """Filter for agentrt's own records: adds their scope and redacts secrets."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the session's fields, and redact secrets. Returns True: no record is left out.

        The exception is formatted here, so that each handler gets the redacted text: a formatter of
        the standard library uses `exc_text` if it is set.
        """
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
    """Prints exceptions from the program's own code if the program has not configured logging.

    Otherwise a tool that raises would only be an error for the model, and its author would see
    nothing. All other records of agentrt are silent by default, as in any library.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Print an exception unless a logger on the way to the root has another handler."""
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(each is not self for each in logger.handlers):
                return  # the program handles its records itself
            logger = logger.parent if logger.propagate else None
        if record.exc_info and sys.stderr is not None:
            sys.stderr.write(f"agentrt: {record.getMessage()}\n{record.exc_text}\n")


def get_logger(name: str) -> logging.Logger:
    """Return one of agentrt's loggers, all of which are set up when this module is imported."""
    return logging.getLogger(f"agentrt.{name}")


def _redaction(env: Mapping[str, str]) -> Redaction:
    """Return the redaction of the values of variables with secret names."""
    from .trace.redact import Redaction  # compiling its patterns takes 9 ms of the start

    return Redaction(value for name, value in env.items() if has_secret_name(name))


def _outside() -> Redaction:
    """Return the redaction for records outside of sessions.

    The environment is read each time: the program may have changed it.
    """
    return _redaction(os.environ)


_session: Final = get_logger("session")
_formatter: Final = logging.Formatter()
_own: Final = _Own()
_printing = _PrintFailures(logging.ERROR)
logging.getLogger("agentrt").addHandler(_printing)
for _name in _NAMES:
    get_logger(_name).addFilter(_own)
