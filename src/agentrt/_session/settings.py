"""The mode, the model and the options of a session: what was chosen outlives the agent's process.

A new process would begin with its own defaults. A mode may be what keeps an agent from writing, so
whatever somebody has set goes into the opening of every process that comes after.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from .._errors import LocalProtocolError, SessionClosed
from .._model.events import Choice, Modes, Option
from .calls import change
from .host import SessionHost


class SessionSettings:
    """Changes the settings of one session. While its agent does not run, they are only noted, and
    what it does not offer raises `LocalProtocolError`; else as `call`."""

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self._core = host.core

    def _check_mode(self, mode: str | bool) -> None:
        """Raise `LocalProtocolError` for a mode in which the policy's refusals would not hold."""
        offered = self._known().modes
        name = str(mode)
        ids = [each.id for each in offered if name.casefold() in (each.id, each.name.casefold())]
        for id in {name, *ids}:
            if problem := self._core.standing.mode_problem(id):
                raise LocalProtocolError(problem)

    async def set_mode(self, mode: str) -> None:
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
        if self._is_mode(option, value):
            self._check_mode(value)
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

    def _is_mode(self, option: str, value: str | bool) -> bool:
        """True if an option may be the mode under another name: one that is the mode, or the model,
        is not among the session's options."""
        known = self._known()
        for each in known.options:
            if each.id == option:
                return each.category == "mode"
        return all(value not in (model.id, model.name) for model in known.models)

    def _open_with(self, **changes: Any) -> None:
        """Every process that comes after this one begins so."""
        self._core.opening = structs.replace(self._core.opening, **changes)

    def _open_with_option(self, option: str, value: str | bool) -> None:
        given = self._core.opening.options
        config = {**given.get("config", {}), option: value}
        self._open_with(options={**given, "config": config})

    async def _runs(self) -> bool:
        """Whether there is an agent to be asked. One that is just being started is waited for."""
        await self._host.restarted()
        if self._core.conversation.ended:
            raise SessionClosed("the session is closed")
        return self._core.ready

    def _known(self) -> Modes:
        return self._core.conversation.modes

    def _note(self, modes: Modes) -> None:
        with self._core:
            self._core.conversation.show_modes(modes)


def _choice(what: str, wanted: str, offered: list[Choice]) -> str:
    """The id of a choice that was given by its id or its name."""
    for choice in offered:
        if wanted == choice.id or wanted.casefold() == choice.name.casefold():
            return choice.id
    known = ", ".join(choice.id for choice in offered) or "none"
    raise LocalProtocolError(f"the agent has no {what} {wanted!r}; it has: {known}")


def _changed(option: Option, value: str | bool) -> Option:
    if isinstance(value, str):
        value = _choice(f"value of {option.id!r}", value, option.choices)
    elif not isinstance(option.value, bool):
        raise LocalProtocolError(f"option {option.id!r} is no switch")
    return structs.replace(option, value=value)
