"""The mode, model and options of a session, which persist across agent processes.

A new process would start with its own defaults. Since a mode may keep an agent from writing, every
setting goes into the opening of all later processes.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from msgspec import structs

from ..errors import LocalProtocolError, SessionClosed
from ..model.events import Choice, Modes, Option
from .calls import change
from .host import SessionHost


class SessionSettings:
    """Changes the settings of one session.

    If the agent does not run, changes are recorded for the next process; values that it does not
    offer raise `LocalProtocolError`. Otherwise the errors are those of `call`.
    """

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
        return self._core.conversation.modes

    def _note(self, modes: Modes) -> None:
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
    if isinstance(value, str):
        value = _choice(f"value of {option.id!r}", value, option.choices)
    elif not isinstance(option.value, bool):
        raise LocalProtocolError(f"option {option.id!r} is not a switch")
    return structs.replace(option, value=value)
