"""Modes, models and options of a session, and requests outside a turn, such as those that change
them.

ACP has had three mechanisms: `modes`, `models` (removed, still sent by older agents) and config
options, of which the one with category `mode` or `model` is the mode or the model. Where both
exist, the config option takes precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct, ValidationError

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import UnsupportedSetting, pick_choice
from ..model.events import Choice, ErrorInfo, Modes, Option
from ..model.providers import ProviderSetting, without
from ..wire.jsonrpc import JsonRpcError
from .messages import (
    AgentAuthCapabilities,
    AgentCapabilities,
    AgentSessionCapabilities,
    ConfigOption,
    DisableProviderRequest,
    ListProvidersRequest,
    ListSessionsRequest,
    LogoutRequest,
    OfferedSettings,
    SessionModelState,
    SessionModeState,
    SessionRequest,
    SetConfigOptionRequest,
    SetModelRequest,
    SetModeRequest,
    SetProviderRequest,
    SetTitleRequest,
)
from .translate import error_of
from .wire import WIRE_1, AcpWire


class AcpSettingChange(NamedTuple):
    """A request to the agent. If it changes a setting, `apply` takes its result."""

    method: str
    params: Struct | JsonObject
    apply: Callable[[Any], None] | None = None
    secrets: tuple[str, ...] = ()
    """Values in `params` that neither a trace nor an error may show."""

    def refusal(self, error: JsonRpcError) -> ErrorInfo:
        """Return the agent's error in neutral form. It may repeat the parameters."""
        info = error_of(error)
        if not self.secrets:
            return info
        return ErrorInfo(
            info.code, without(self.secrets, info.message), without(self.secrets, info.data)
        )


class AcpSettings:
    """The settings of one session, as last reported."""

    def __init__(self, refused_modes: Mapping[str, str] | None = None) -> None:
        """Create empty settings.

        `refused_modes`: modes that the host must not choose in this session, with the reason for
        each.
        """
        self._refused_modes = refused_modes or {}
        self.modes: SessionModeState | None = None
        self.models: SessionModelState | None = None
        self.options: list[ConfigOption] = []
        self.wire: AcpWire = WIRE_1
        """The version of the protocol."""

    def negotiated(self, wire: AcpWire) -> None:
        """Take the version of the protocol from the agent's first answer."""
        self.wire = wire

    def open(self, offered: OfferedSettings) -> None:
        """Take the settings from the response that opened the session."""
        self.modes = offered.modes
        self.models = offered.models
        self.options = offered.config_options or []

    def view(self) -> Modes:
        """Return all settings in neutral form."""
        mode, model = self._option("mode"), self._option("model")
        modes = Modes(
            options=[
                Option(
                    id=option.id,
                    name=option.name or option.id,
                    category=option.category,
                    description=option.description,
                    value=option.current_value,
                    choices=_choices(option),
                )
                for option in self.options
                if option is not mode
                and option is not model
                and option.type in ("select", "boolean")
            ]
        )
        if mode is not None:
            modes.mode, modes.modes = str(mode.current_value), _choices(mode)
        elif self.modes is not None:
            modes.mode = self.modes.current_mode_id
            modes.modes = [
                Choice(each.id, each.name or each.id, each.description)
                for each in self.modes.available_modes
            ]
        if model is not None:
            modes.model, modes.models = str(model.current_value), _choices(model)
        elif self.models is not None:
            modes.model = self.models.current_model_id
            modes.models = [
                Choice(each.model_id, each.name or each.model_id, each.description)
                for each in self.models.available_models
            ]
        return modes

    def mode_is(self, mode: str) -> None:
        """Set the current mode, after a report of the agent or a successful request."""
        if self.modes is not None:
            self.modes.current_mode_id = mode
        option = self._option("mode")
        if option is not None and any(choice.id == mode for choice in _choices(option)):
            option.current_value = mode

    def change_mode(self, session: str, mode: str) -> AcpSettingChange:
        """Return the request that changes the mode, given by id or name.

        Raises `UnsupportedSetting` if the mode does not exist, or is refused.
        """
        view = self.view()
        mode = pick_choice("mode", mode, view.modes, owner="the agent")
        self._check_mode(mode)
        if (option := self._option("mode")) is not None:
            return self._set(session, option, mode)
        return AcpSettingChange(
            "session/set_mode", SetModeRequest(session, mode), lambda result: self.mode_is(mode)
        )

    def change_model(self, session: str, model: str) -> AcpSettingChange:
        """Return the request that changes the model. Raises `UnsupportedSetting` if the agent
        does not offer it."""
        view = self.view()
        if model != view.model:  # the current model need not be among those it offers
            model = pick_choice("model", model, view.models, owner="the agent")
        if (option := self._option("model")) is not None:
            return self._set(session, option, model)

        def apply(result: Any) -> None:
            """Set the current model after a successful answer."""
            if self.models is not None:
                self.models.current_model_id = model

        return AcpSettingChange("session/set_model", SetModelRequest(session, model), apply)

    def change_option(self, session: str, id: str, value: str | bool) -> AcpSettingChange:
        """Return the request that changes an option. Raises `UnsupportedSetting` if the option
        or the value does not exist."""
        option = next((each for each in self.options if each.id == id), None)
        if option is None:
            known = ", ".join(each.id for each in self.options) or "none"
            raise UnsupportedSetting(f"the agent has no option {id!r}; it has: {known}")
        if option.type == "boolean":
            if not isinstance(value, bool):
                raise UnsupportedSetting(f"option {id!r} is a switch: true or false, not {value!r}")
        else:
            value = pick_choice(f"value of {id!r}", str(value), _choices(option), owner="the agent")
        if option is self._option("mode"):
            self._check_mode(str(value))
        return self._set(session, option, value)

    def _check_mode(self, mode: str) -> None:
        """Raise `UnsupportedSetting` with the reason if the mode may not be chosen here."""
        if mode in self._refused_modes:
            raise UnsupportedSetting(self._refused_modes[mode])

    def _set(self, session: str, option: ConfigOption, value: str | bool) -> AcpSettingChange:
        """Return the request that sets a configuration option."""

        def apply(result: Any) -> None:
            """Take all options from the answer; if the agent leaves them out, only this one."""
            try:
                self.options = self.wire.read_options(result)
            except ValidationError:  # the complete list is required, but some agents do not send it
                option.current_value = value

        kind = "boolean" if isinstance(value, bool) else "id" if self.wire.typed_options else None
        request = SetConfigOptionRequest(session, option.id, value, type=kind)
        return AcpSettingChange("session/set_config_option", request, apply)

    def _option(self, category: str) -> ConfigOption | None:
        """Return the select option that is the mode or the model, or None."""
        return next(
            (each for each in self.options if each.category == category and each.type == "select"),
            None,
        )


def _choices(option: ConfigOption) -> list[Choice]:
    """Return the values of a select option, including those in groups (groups are not nested)."""
    offered = option.options or []
    return [
        Choice(value.value, value.name or value.value, value.description)
        for each in offered
        for value in (each.options or [] if each.value is None else [each])
        if value.value is not None
    ]


_OWN = {
    "initialize": "start",
    "authenticate": "start",
    "auth/login": "start",
    "session/new": "start",
    "session/load": "start",
    "session/resume": "start",
    "session/prompt": "prompt",
    "session/cancel": "cancel",
    "session/close": "goodbye",
    "$/cancel_request": "uncall",
    "terminal/cancel": "stop_task",
    "tool_call/cancel": "stop_task",
    "session/set_mode": "set_mode",
    "session/set_model": "set_model",
    "session/set_config_option": "set_option",
    "providers/set": "set_provider",
    "providers/disable": "set_provider",
}
"""Methods that change state which the driver tracks; each has its own command, named here."""


def resolve(
    method: str, params: JsonObject, session: str, settings: AcpSettings, agent: AgentCapabilities
) -> AcpSettingChange:
    """Return the request for a command.

    Raises `UnsupportedSetting` if the agent did not advertise it, and `LocalProtocolError` if
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
        "set_title": sessions.title,
        "list_providers": agent.providers,
        "set_provider": agent.providers,
    }
    if method in gate and gate[method] is None:
        raise UnsupportedSetting(f"the agent does not offer {method}")
    if method in _OWN:
        raise LocalProtocolError(f"{method} cannot be called directly: use {_OWN[method]}")
    neutral = _neutral(method, params, session, settings)
    return AcpSettingChange(method, params) if neutral is None else neutral


def _neutral(
    method: str, params: JsonObject, session: str, settings: AcpSettings
) -> AcpSettingChange | None:
    """Return the request for a command with a neutral name; None for a method of the protocol."""
    match method:
        case "set_mode":
            return settings.change_mode(session, _text(params, "mode"))
        case "set_model":
            return settings.change_model(session, _text(params, "model"))
        case "set_option":
            value = params.get("value")
            if not isinstance(value, str | bool):
                raise LocalProtocolError(f"an option's value must be text or a bool, not {value!r}")
            return settings.change_option(session, _text(params, "option"), value)
        case "list_sessions":
            request: Struct = ListSessionsRequest(params.get("cwd"), params.get("cursor"))
            return AcpSettingChange("session/list", request)
        case "delete_session":
            return AcpSettingChange("session/delete", SessionRequest(_text(params, "session")))
        case "logout":
            return AcpSettingChange(settings.wire.logout, LogoutRequest())
        case "set_title":
            return AcpSettingChange(
                "session/set_title", SetTitleRequest(session, _text(params, "title"))
            )
        case "list_providers":
            return AcpSettingChange("providers/list", ListProvidersRequest())
        case "set_provider":
            setting = params.get("setting")
            if not isinstance(setting, ProviderSetting):
                raise LocalProtocolError("a provider is set by `Session.set_provider`")
            return provider_change(setting)
        case _:
            return None


def provider_change(setting: ProviderSetting) -> AcpSettingChange:
    """Return the request that sets a provider, or disables it."""
    meta = setting.meta or None
    if not setting.base_url:
        disable = DisableProviderRequest(setting.id, meta=meta)
        return AcpSettingChange("providers/disable", disable)
    request = SetProviderRequest(
        setting.id, setting.api_type, setting.base_url, setting.headers, meta=meta
    )
    return AcpSettingChange("providers/set", request, secrets=setting.secrets)


def _text(params: JsonObject, name: str) -> str:
    value: Any = params.get(name)
    if not isinstance(value, str):
        raise LocalProtocolError(f"{name} must be given as text, not {value!r}")
    return value
