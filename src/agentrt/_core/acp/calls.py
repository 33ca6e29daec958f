"""Requests to the agent outside a turn: neutral commands as requests of the protocol."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from .messages import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AgentSessionCapabilities,
    ListSessionsRequest,
    LogoutRequest,
    SessionRequest,
)
from .settings import AcpSettingChange, AcpSettings, UnsupportedAcpSetting

_OWN = {
    "initialize": "start",
    "authenticate": "start",
    "session/new": "start",
    "session/load": "start",
    "session/resume": "start",
    "session/prompt": "prompt",
    "session/cancel": "cancel",
    "session/close": "goodbye",
    "$/cancel_request": "uncall",
    "session/set_mode": "set_mode",
    "session/set_model": "set_model",
    "session/set_config_option": "set_option",
}
"""Methods that change state which the driver tracks; each has its own command, named here."""


def resolve(
    method: str, params: JsonObject, session: str, settings: AcpSettings, agent: AgentCapabilities
) -> AcpSettingChange:
    """Return the request for a command.

    Raises `UnsupportedAcpSetting` if the agent did not advertise it, and `LocalProtocolError` if
    the command itself is wrong.
    """
    sessions = agent.session_capabilities or AgentSessionCapabilities()
    auth = agent.auth or AgentAuthCapabilities()
    gate = {
        "list_sessions": sessions.list,
        "session/list": sessions.list,
        "delete_session": sessions.delete,
        "session/delete": sessions.delete,
        "session/fork": sessions.fork,
        "logout": auth.logout,
    }
    if method in gate and gate[method] is None:
        raise UnsupportedAcpSetting(f"the agent does not offer {method}")
    match method:
        case "set_mode":
            return settings.change_mode(session, _text(params, "mode"))
        case "set_model":
            return settings.change_model(session, _text(params, "model"))
        case "set_option":
            value = params.get("value")
            if not isinstance(value, str | bool):
                raise LocalProtocolError(f"an option's value is text or a bool, not {value!r}")
            return settings.change_option(session, _text(params, "option"), value)
        case "list_sessions":
            request: Struct = ListSessionsRequest(params.get("cwd"), params.get("cursor"))
            return AcpSettingChange("session/list", request)
        case "delete_session":
            return AcpSettingChange("session/delete", SessionRequest(_text(params, "session")))
        case "logout":
            return AcpSettingChange("logout", LogoutRequest())
        case _ if method in _OWN:
            raise LocalProtocolError(f"{method} is not to be called: it is done by {_OWN[method]}")
        case _:
            return AcpSettingChange(method, params)


def _text(params: JsonObject, name: str) -> str:
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} must be given as text, not {value!r}")
    return value
