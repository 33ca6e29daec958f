"""The options of a session, for functions that pass them on to `open_session`.

`open_session` documents each option and has the defaults.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from .._limits import Limits
from .._model.content import JsonObject
from .._model.fork_point import ForkPoint
from .._permissions.policies import Policy
from .._tools.lent import Tools

if TYPE_CHECKING:
    from .._telemetry.observation import Telemetries
    from .._tools.extensions import Extension
    from .._tools.hooks import Hook
    from .._trace.trace import Trace
    from .own_services import Files, Terminals
    from .project_start import Trusted


class SessionOptions(TypedDict, total=False):
    """The keyword arguments of `open_session` except `store`.

    Use it for your own functions that pass them on (`**options: Unpack[SessionOptions]`).
    """

    cwd: str | os.PathLike[str]
    roots: Sequence[str | os.PathLike[str]]
    tools: Tools
    permissions: Policy | None
    hooks: Iterable[Hook]
    extensions: Iterable[Extension]
    mcp_servers: Sequence[JsonObject]
    resume: str | None
    fork: bool
    fork_at: ForkPoint | None
    model: str | None
    mode: str | None
    options: JsonObject | None
    env: Mapping[str, str] | None
    trusted: Trusted
    files: bool | Files
    terminals: bool | Terminals
    limits: Limits | None
    on_stderr: Callable[[bytes], None] | None
    telemetry: Telemetries | None
    trace: Trace | str | os.PathLike[str] | None
    tenant: str
