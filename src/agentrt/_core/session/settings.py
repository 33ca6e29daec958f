"""Requests from agentrt to the agent outside turns: settings, tasks, and the list of the sessions
that the agent itself stores.

The mode, model and options of a session persist across agent processes.

A new process would start with its own defaults. Since a mode may keep an agent from writing, every
setting goes into the opening of all later processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
import trio
from msgspec import Struct, structs

from ..errors import LocalProtocolError, RemoteProtocolError, RequestError, SessionClosed
from ..model.content import JsonObject
from ..model.driver import CallReturned
from ..model.events import Choice, Modes, Notice, Option
from ..model.providers import Provider, ProviderSetting
from ..wire.jsonrpc import METHOD_NOT_FOUND
from .core import SessionCore
from .host import SessionHost
from .interfaces import AgentSession


async def call(
    core: SessionCore,
    method: str,
    params: JsonObject,
    *,
    succeeded: Callable[[], None] = lambda: None,
) -> Any:
    """Send a request and return its result in the protocol's own shape.

    `succeeded` is called in the same step as a successful answer, so that its changes are stored
    together with the answer's events.

    Raises `RequestError` with the agent's error, or `SessionClosed` if no agent runs. Always a
    checkpoint. Cancelling this call notifies the agent if the protocol supports it.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    asked = _PendingCall(succeeded)
    forget = core.requests.call(method, params, asked.returned)
    try:
        await asked.done.wait()
    finally:
        forget()
    return asked.result()


async def change(
    core: SessionCore, setting: str, method: str, params: JsonObject, succeeded: Callable[[], None]
) -> None:
    """Change one setting of the agent. Arguments and errors are those of `call`.

    Cancelling this call does not withdraw the request: the agent may still carry it out. Until it
    answers or its process ends, the session's state shows the setting as unconfirmed, and a late
    answer counts like any other.
    """
    await trio.lowlevel.checkpoint_if_cancelled()
    asked = _PendingCall(succeeded)

    def returned(answer: CallReturned) -> None:
        """Take the answer.

        One that comes after the caller has gone is shown as a notice if it fails.
        """
        asked.returned(answer)
        if given_up:
            core.conversation.confirm(setting)
            if answer.error is not None:
                words = f"the change of {setting!r} was not carried out: {answer.error.message}"
                core.add_notice(Notice("warning", "setting_refused", words, {"setting": setting}))

    given_up = False
    core.requests.call(method, params, returned)
    try:
        await asked.done.wait()
    finally:
        if asked.answer is None:
            given_up = True
            with core.step():
                core.conversation.unconfirm(setting)
    asked.result()


class _PendingCall:
    """A request to the agent, and its answer once it has come."""

    def __init__(self, succeeded: Callable[[], None]) -> None:
        """Begin without an answer. `succeeded` is called as soon as a successful one comes."""
        self.done = trio.Event()
        self.answer: CallReturned | None = None
        self._succeeded = succeeded

    def returned(self, answer: CallReturned) -> None:
        """Take the answer and wake the caller."""
        self.answer = answer
        if answer.error is None:
            self._succeeded()
        self.done.set()

    def result(self) -> Any:
        """Return the value of a successful answer. Raises `RequestError` for an error."""
        assert self.answer is not None
        error = self.answer.error
        if error is None:
            return self.answer.value
        code = error.data.get("code") if isinstance(error.data, dict) else None
        if not isinstance(code, int):
            code = METHOD_NOT_FOUND if error.code == "unsupported" else 0
        raise RequestError(code, error.message, error.data)


class SessionSettings:
    """Changes the settings of one session.

    If the agent does not run, changes are recorded for the next process; values that it does not
    offer raise `LocalProtocolError`. Otherwise the errors are those of `call`.
    """

    def __init__(self, host: SessionHost) -> None:
        """Change the settings of this host's session."""
        self._host = host
        self._core = host.core

    def _check_mode(self, mode: str | bool) -> None:
        """Raise `LocalProtocolError` for a mode in which the policy's refusals would not hold."""
        given = str(mode)
        meant = {
            each.id: each.name
            for each in self._known().modes
            if given.casefold() in (each.id.casefold(), each.name.casefold())
        }
        for id, name in meant.items() or [(given, "")]:
            if problem := self._core.standing.mode_problem(id, name):
                raise LocalProtocolError(problem)

    def _check_option(self, option: str, value: str | bool) -> None:
        """Raise `LocalProtocolError` for a value with which the policy's refusals would not
        hold.
        """
        for each in self._known().options:
            if each.id == option:
                names = {c.id: c.name for c in each.choices if value in (c.id, c.name)}
                label = each.name
                break
        else:
            names, label = {}, ""
        for choice, name in names.items() or [(value, "")]:
            if problem := self._core.standing.option_problem(option, choice, label, name):
                raise LocalProtocolError(problem)

    async def set_mode(self, mode: str) -> None:
        """Change the mode; see `Session.set_mode`."""
        self._check_mode(mode)
        if await self._runs():
            opened = partial(self._open_with, mode=mode)
            await change(self._core, "mode", "set_mode", {"mode": mode}, opened)
        else:
            known = self._known()
            mode = _choice("mode", mode, known.modes)
            self._open_with(mode=mode)
            self._note(structs.replace(known, mode=mode))

    async def set_model(self, model: str) -> None:
        """Change the model; see `Session.set_model`."""
        if await self._runs():
            opened = partial(self._open_with, model=model)
            await change(self._core, "model", "set_model", {"model": model}, opened)
        else:
            known = self._known()
            if model != known.model:
                model = _choice("model", model, known.models)
            self._open_with(model=model)
            self._note(structs.replace(known, model=model))

    async def set_option(self, option: str, value: str | bool) -> None:
        """Change an option; see `Session.set_option`."""
        if self._is_mode(option, value):
            self._check_mode(value)
        self._check_option(option, value)
        opened = partial(self._open_with_option, option, value)
        if await self._runs():
            params = {"option": option, "value": value}
            await change(self._core, option, "set_option", params, opened)
        else:
            known = self._known()
            if all(each.id != option for each in known.options):
                raise LocalProtocolError(f"the agent has no option {option!r}")
            options = [_changed(o, value) if o.id == option else o for o in known.options]
            opened()
            self._note(structs.replace(known, options=options))

    async def list_providers(self) -> list[Provider]:
        """Return the agent's providers; see `Session.list_providers`."""
        answer = await call(self._core, "list_providers", {})
        try:
            page = msgspec.convert(answer, _ProviderPage)
        except msgspec.ValidationError as error:
            raise RemoteProtocolError(
                f"the agent's list of providers is invalid: {error}"
            ) from None
        return [
            Provider(
                id=each.provider_id,
                api_types=tuple(each.supported),
                required=each.required,
                api_type=None if each.current is None else each.current.api_type,
                base_url=None if each.current is None else each.current.base_url,
            )
            for each in page.providers
        ]

    async def set_provider(self, setting: ProviderSetting) -> None:
        """Set a provider; see `Session.set_provider`."""
        given = check_providers([setting])

        def opened() -> None:
            others = [each for each in self._core.opening.providers if each.id != setting.id]
            self._open_with(providers=(*others, *given))

        if await self._runs():
            name = f"provider {setting.id}"
            await change(self._core, name, "set_provider", {"setting": setting}, opened)
        elif not self._core.capabilities.get("providers"):
            raise RequestError(METHOD_NOT_FOUND, "the agent's providers cannot be set")
        else:
            opened()

    def _is_mode(self, option: str, value: str | bool) -> bool:
        """Return True if an option may be the mode under another name.

        The option that is the mode or the model is not among the session's options.
        """
        known = self._known()
        for each in known.options:
            if each.id == option:
                return each.category == "mode"
        return all(value not in (model.id, model.name) for model in known.models)

    def _open_with(self, **changes: Any) -> None:
        """Set the opening of all later processes."""
        self._core.opening = structs.replace(self._core.opening, **changes)

    def _open_with_option(self, option: str, value: str | bool) -> None:
        """Set an option for all later processes."""
        given = self._core.opening.options
        config = {**given.get("config", {}), option: value}
        self._open_with(options={**given, "config": config})

    async def _runs(self) -> bool:
        """Return True if an agent runs. Waits for one that is being started."""
        await self._host.restarted()
        if self._core.conversation.ended:
            raise SessionClosed("the session is closed")
        return self._core.ready

    def _known(self) -> Modes:
        """Return the settings as last reported, also by an earlier process."""
        return self._core.conversation.modes

    def _note(self, modes: Modes) -> None:
        """Show settings that will apply to the next process."""
        with self._core.step():
            self._core.conversation.show_modes(modes)


def _choice(what: str, wanted: str, offered: list[Choice]) -> str:
    """Return the id of a choice that was given by its id or its name."""
    for choice in offered:
        if wanted == choice.id or wanted.casefold() == choice.name.casefold():
            return choice.id
    known = ", ".join(choice.id for choice in offered) or "none"
    raise LocalProtocolError(f"the agent has no {what} {wanted!r}; it has: {known}")


def _changed(option: Option, value: str | bool) -> Option:
    """Return an option with another value.

    Raises `LocalProtocolError` for a value that it cannot have.
    """
    if isinstance(value, str):
        value = _choice(f"value of {option.id!r}", value, option.choices)
    elif not isinstance(option.value, bool):
        raise LocalProtocolError(f"option {option.id!r} is not a switch")
    return structs.replace(option, value=value)


def check_providers(given: Sequence[ProviderSetting]) -> tuple[ProviderSetting, ...]:
    """Check the settings of providers. Raises `TypeError` or `LocalProtocolError`."""
    if not isinstance(given, list | tuple):
        raise TypeError("`providers` must be a list of agentrt.agents.ProviderSetting(…)")
    for each in given:
        if not isinstance(each, ProviderSetting):
            name = type(each).__name__
            raise TypeError(f"a provider must be agentrt.agents.ProviderSetting(…), not {name}")
        try:
            msgspec.convert(structs.asdict(each), ProviderSetting)
        except msgspec.ValidationError as error:
            raise TypeError(f"ProviderSetting: {error}") from None
        if not each.id or (each.base_url and not each.api_type):
            raise LocalProtocolError("a provider has an `id`, and with `base_url` an `api_type`")
    return tuple(given)


class _ProviderConfig(Struct, rename="camel"):
    api_type: str
    base_url: str


class _ProviderFields(Struct, rename="camel"):
    provider_id: str
    supported: list[str] = []
    required: bool = False
    current: _ProviderConfig | None = None


class _ProviderPage(Struct, rename="camel"):
    providers: list[_ProviderFields]


MAX_PAGES: Final = 100
"""The maximum number of pages of a list, so that an agent cannot keep agentrt asking forever."""


class _SessionFields(Struct, rename="camel"):
    """An entry of the list of sessions, in the form that every driver returns."""

    session_id: str
    cwd: str | None = None
    title: str | None = None
    updated_at: str | None = None


class _SessionPage(Struct, rename="camel"):
    """A page of that list; the last one has no `next_cursor`."""

    sessions: list[_SessionFields]
    next_cursor: str | None = None


class AskedSessions:
    """Asks a running agent for its sessions. Implements `AgentSessions`."""

    def __init__(self, core: SessionCore) -> None:
        """Ask the agent of this session."""
        self._core = core

    async def list(self, cwd: str | None) -> list[AgentSession]:
        """Return the sessions, the newest first.

        They are in the agent's order if it does not report the times.
        """
        name = self._offering("list_sessions", "keeps no list of its sessions")
        wanted = _real(cwd)
        found: dict[str, AgentSession] = {}
        cursors: set[str | None] = set()
        cursor: str | None = None
        while cursor not in cursors and len(cursors) < MAX_PAGES:
            cursors.add(cursor)
            params = {"cwd": wanted, "cursor": cursor}
            answer = await call(self._core, "list_sessions", params)
            try:
                page = msgspec.convert(answer, _SessionPage)
            except msgspec.ValidationError as error:
                raise RemoteProtocolError(f"{name}'s list is invalid: {error}") from error
            for each in page.sessions:
                if wanted is None or _real(each.cwd) in (None, wanted):
                    found[each.session_id] = AgentSession(
                        agent=name,
                        id=each.session_id,
                        title=each.title or "",
                        cwd=each.cwd,
                        updated=_seconds(each.updated_at),
                    )
            cursor = page.next_cursor
        return sorted(found.values(), key=lambda each: each.updated or 0, reverse=True)

    async def delete(self, session: str) -> None:
        """Have the agent delete a session."""
        self._offering("delete_session", "cannot delete a session")
        await call(self._core, "delete_session", {"session": session})

    def _offering(self, capability: str, otherwise: str) -> str:
        """Return the agent's name if it has the capability, else raise `RequestError`."""
        name = self._core.conversation.agent.name
        if not self._core.capabilities.get(capability):
            raise RequestError(METHOD_NOT_FOUND, f"{name} {otherwise}")
        return name


def checked_folder(cwd: str | os.PathLike[str] | None) -> str | None:
    """Return the folder as a string. Raises `LocalProtocolError` if it is not a path."""
    folder = os.fspath(cwd) if isinstance(cwd, os.PathLike) else cwd
    if not isinstance(folder, str | None):
        raise LocalProtocolError(f"cwd: a folder is a string or a path, not {cwd!r:.60}")
    return folder


def check_id(session: str) -> None:
    """Raise `LocalProtocolError` if the session id is not a string."""
    if not isinstance(session, str):
        raise LocalProtocolError(f"session must be given as text, not {session!r}")


def check_other(session: str, own: str | None) -> None:
    """Raise `LocalProtocolError` if the session is the open one."""
    if session == own:
        raise LocalProtocolError("that session is open here: close it before it is deleted")


def _real(folder: str | None) -> str | None:
    """Return a folder without links, as agents may report either form."""
    return None if folder is None else os.path.realpath(folder)


def _seconds(text: str | None) -> float | None:
    """Parse an ISO 8601 time."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return (when if when.tzinfo is not None else when.replace(tzinfo=UTC)).timestamp()
