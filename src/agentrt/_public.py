"""The names of `import agentrt`, each imported on first use.

Other parts of the package import these names from here, because `agentrt` itself is above them.
"""

import importlib as _importlib
import typing as _typing

from ._homes import HOMES as _HOMES

if _typing.TYPE_CHECKING:
    from ._core.agents import Agent as Agent
    from ._core.agents import find_agents as find_agents
    from ._core.errors import AgentrtError as AgentrtError
    from ._core.errors import AgentStartError as AgentStartError
    from ._core.errors import Busy as Busy
    from ._core.errors import LocalProtocolError as LocalProtocolError
    from ._core.errors import SessionClosed as SessionClosed
    from ._core.errors import ToolError as ToolError
    from ._core.limits import Limits as Limits
    from ._core.model.content import Image as Image
    from ._core.model.content import Prompt as Prompt
    from ._core.model.events import Event as Event
    from ._core.model.events import ItemClosed as ItemClosed
    from ._core.model.events import ItemOpened as ItemOpened
    from ._core.model.events import ItemUpdated as ItemUpdated
    from ._core.model.events import Notice as Notice
    from ._core.model.events import PermissionOpened as PermissionOpened
    from ._core.model.events import TextDelta as TextDelta
    from ._core.model.events import ThoughtDelta as ThoughtDelta
    from ._core.model.events import ToolCall as ToolCall
    from ._core.model.events import TurnEnded as TurnEnded
    from ._core.model.events import TurnStarted as TurnStarted
    from ._core.model.result import TurnFailed as TurnFailed
    from ._core.model.result import TurnResult as TurnResult
    from ._core.permissions.policies import Allow as Allow
    from ._core.permissions.policies import Deny as Deny
    from ._core.permissions.policies import PermissionRequest as PermissionRequest
    from ._core.permissions.policies import Policy as Policy
    from ._core.permissions.policies import allow_all as allow_all
    from ._core.permissions.policies import ask as ask
    from ._core.permissions.policies import deny_all as deny_all
    from ._core.permissions.policies import rules as rules
    from ._core.runtime.open import open_session as open_session
    from ._core.runtime.options import SessionOptions as SessionOptions
    from ._core.runtime.query import Query as Query
    from ._core.runtime.query import query as query
    from ._core.runtime.registry import SessionInfo as SessionInfo
    from ._core.runtime.runtime import Runtime as Runtime
    from ._core.runtime.runtime import open_runtime as open_runtime
    from ._core.session.budget import budget as budget
    from ._core.session.core import When as When
    from ._core.session.session import Session as Session
    from ._core.session.session import SessionQueue as SessionQueue
    from ._core.session.turn import Turn as Turn
    from ._core.tools.extensions import hook as hook
    from ._core.tools.tools import Tool as Tool
    from ._core.tools.tools import ToolContext as ToolContext
    from ._core.tools.tools import tool as tool

if not _typing.TYPE_CHECKING:  # mypy would take a list that is not literal for an empty one
    __all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _importlib.import_module(f".{_HOMES[name]}", __package__)
    value = globals()[name] = getattr(module, name)
    return value
