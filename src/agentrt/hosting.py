"""For authors of servers, command lines and test kits: runtimes and sessions from the inside.

A program that only uses sessions needs none of these names.

The web server, the terminal, `agentrt.aio` and the test kit of agentrt use the core only through
this module and the other public ones.

- `runtime_host` returns the runtime with the methods that a server needs: stored sessions, the
  sessions of other processes, listeners for changes. `SessionControl` does the same for a session.
- `answering` marks the answers and cancellations of a block as those of a client, so that the log
  names it.
- `ClientTools` and `ClientServices` are for clients that run tools or provide files to the agent.
- `open_session_over` and `open_runtime_over` use the caller's connection in the place of an agent's
  process; `stand_in_for_programs` does so for all sessions that any code opens in a block.
- `FolderView` shows the files of a session's folders to viewers, and nothing outside of them.
- `next_event`, `must_yield`, `has_yielded` and `call_when_more` read events without Trio's `await`,
  for other event loops.
- The `checked_…` functions validate arguments as `open_session` does, for wrappers of it.

- `decide` and `call_tool` run a policy or a tool by itself.
- `limits_for` and `ChangingPolicy` are for commands: the limits of one agent with its own defaults,
  and a policy that changes while sessions use it.

Most objects here are the same as their public counterparts, seen with more methods: a `RuntimeHost`
is a `Runtime`. So a server can be given the runtime of a program, and both use it at the same time.
"""

from ._core.files.uncommitted import ComparedFile, ComparedFolder
from ._core.model.fork_point import check_forks, shown_until
from ._core.model.state import left_open
from ._core.permissions.standing import ChangingPolicy, decide
from ._core.runtime.folder_view import FolderView, ShownEntry, ShownFile, ShownFolder
from ._core.runtime.injected import (
    OpenTransport,
    StandIn,
    open_runtime_over,
    open_session_over,
    stand_in_for_programs,
)
from ._core.runtime.offer import checked_service
from ._core.runtime.open import wait_for_rest
from ._core.runtime.protocol_setup import limits_for
from ._core.runtime.runtime import RuntimeHost, runtime_host
from ._core.session.control import SessionControl
from ._core.session.core import PromptRemoved
from ._core.session.interfaces import ClientGone, ClientServices
from ._core.session.questions import answering
from ._core.session.subscription import call_when_more, has_yielded, must_yield, next_event
from ._core.tools.client_tools import ClientTools
from ._core.tools.extensions import (
    checked_extensions,
    checked_hooks,
    checked_tools,
    checked_tools_and_servers,
)
from ._core.tools.tools import Provided, ProvidedServer, call_tool
from ._core.trio_task import check_trio
from ._core.wire.mcp import ToolOutcome

__all__ = [
    # runtimes
    "runtime_host",
    "RuntimeHost",
    # sessions
    "SessionControl",
    "answering",
    "wait_for_rest",
    "left_open",
    "check_forks",
    "shown_until",
    "PromptRemoved",
    # clients that provide tools, files and programs
    "ClientTools",
    "ClientServices",
    "ClientGone",
    # folders of a session, for its viewers
    "FolderView",
    "ShownFolder",
    "ShownEntry",
    "ShownFile",
    "ComparedFolder",
    "ComparedFile",
    # connections of the caller
    "open_session_over",
    "open_runtime_over",
    "OpenTransport",
    "stand_in_for_programs",
    "StandIn",
    # tools and policies by themselves
    "call_tool",
    "ToolOutcome",
    "decide",
    # settings of a command
    "limits_for",
    "ChangingPolicy",
    # other event loops
    "check_trio",
    "next_event",
    "must_yield",
    "has_yielded",
    "call_when_more",
    "checked_tools",
    "checked_tools_and_servers",
    "checked_hooks",
    "checked_extensions",
    "checked_service",
    "Provided",
    "ProvidedServer",
]
