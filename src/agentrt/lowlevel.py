"""For authors of integrations: protocol drivers without I/O, the event log, stores and dialects.

A driver turns bytes of an agent into effects and commands into bytes. It needs no Trio, no process
and no clock. The effects are in `agentrt.effects`. A dialect is a protocol for clients of the web
server.

Importing this module does not import Trio. Its parts can be used separately:

- *Drivers*: `AcpDriver`, `ClaudeDriver` and `CodexDriver` implement `Driver`. Some implement
  `Steers` or `EndsBySilence` in addition, for abilities that not all protocols have. Invalid output
  of an agent never makes a driver raise; it becomes a notice.
- *The log*: `Log` numbers events, folds them into a `SessionState` and wakes its readers, each of
  which has a `Cursor`. A `Persister` takes batches of events before readers see them, which is how
  stores delay events until they are safe.
- *Stores*: `Backend` writes and `StoreReader` reads. `agentrt.testing.check_store` checks an
  implementation, and `agentrt.storage` has the encodings of the built-in ones.
- *Shared stores*: the interfaces of a store that several processes write, with a lease for each.
- *Dialects*: a `Dialect` is served at its own path. Its `DialectViewer` translates the messages of
  one client into commands, and events into messages; the `DialectHost` gives it the sessions.

Methods of drivers, logs and dialects are synchronous and never wait.

The part with I/O is not here: starting the process, writing with back pressure, deadlines and
restarts. `agentrt.process` has the process; `agentrt.open_session` does all of it.
"""

from ._core.acp.driver import AcpDriver, AcpStatistics
from ._core.acp.messages import Implementation, client_capabilities
from ._core.claude.driver import ClaudeDriver
from ._core.codex.driver import CodexDriver
from ._core.codex.messages import CodexClientInfo
from ._core.dialect import (
    CommandFields,
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from ._core.model.driver import (
    DecisionAnswer,
    Driver,
    Effect,
    EndsBySilence,
    NewKey,
    Opening,
    Steers,
)
from ._core.model.log import Cursor, Log, Persister
from ._core.model.state import PageRoom, SessionState, updated_item
from ._core.store.base import (
    Backend,
    Fenced,
    Flush,
    FlushPart,
    SessionClaim,
    StoreReader,
    Unusable,
)
from ._core.store.shared import (
    Cluster,
    CommandHandler,
    IdReused,
    PostedCommand,
    StoreMembership,
    StoreServer,
)

__all__ = [
    # drivers
    "Driver",
    "Effect",
    "EndsBySilence",
    "Steers",
    "AcpDriver",
    "AcpStatistics",
    "ClaudeDriver",
    "CodexDriver",
    # arguments of drivers
    "Opening",
    "DecisionAnswer",
    "NewKey",
    "client_capabilities",
    "Implementation",
    "CodexClientInfo",
    # the event log
    "Log",
    "Cursor",
    "SessionState",
    "updated_item",
    "PageRoom",
    "Persister",
    # stores
    "Backend",
    "StoreReader",
    "SessionClaim",
    "Flush",
    "FlushPart",
    "Fenced",
    "Unusable",
    # stores that several processes share
    "StoreServer",
    "StoreMembership",
    "Cluster",
    "CommandHandler",
    "PostedCommand",
    "IdReused",
    # dialects: protocols for clients of the web server
    "Dialect",
    "DialectViewer",
    "DialectHost",
    "ViewedSession",
    "Steps",
    "CommandFields",
    "CommandRefused",
]
