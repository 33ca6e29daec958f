"""The mode, the model and the options of a session: what was chosen outlives the agent's process.

A new process would begin with its own defaults. A mode may be what keeps an agent from writing, so
whatever somebody has set goes into the opening of every process that comes after.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from .._errors import LocalProtocolError, SessionClosed
from .._model.events import Choice, Modes, ModesChanged, Option

if TYPE_CHECKING:
    from .engine import Engine


class Settings:
    """Changes the settings of one session. While its agent does not run, they are only noted, and
    what it does not offer raises `LocalProtocolError`; else as `Calls.call`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def set_mode(self, mode: str) -> None:
        if await self._runs():
            await self._engine.calls.call("set_mode", {"mode": mode})
        else:
            known = self._known()
            mode = _choice("mode", mode, known.modes)
            self._note(structs.replace(known, mode=mode))
        self._engine.opening = structs.replace(self._engine.opening, mode=mode)

    async def set_model(self, model: str) -> None:
        if await self._runs():
            await self._engine.calls.call("set_model", {"model": model})
        else:
            known = self._known()
            model = _choice("model", model, known.models)
            self._note(structs.replace(known, model=model))
        self._engine.opening = structs.replace(self._engine.opening, model=model)

    async def set_option(self, option: str, value: str | bool) -> None:
        engine = self._engine
        if await self._runs():
            await engine.calls.call("set_option", {"option": option, "value": value})
        else:
            known = self._known()
            if all(each.id != option for each in known.options):
                raise LocalProtocolError(f"the agent has no option {option!r}")
            options = [_changed(o, value) if o.id == option else o for o in known.options]
            self._note(structs.replace(known, options=options))
        told = engine.opening.options
        config = {**told.get("config", {}), option: value}
        engine.opening = structs.replace(engine.opening, options={**told, "config": config})

    async def _runs(self) -> bool:
        """Whether there is an agent to be asked. One that is just being started is waited for."""
        engine = self._engine
        await engine.revival.settled()
        if engine.conversation.lifecycle == "closed":
            raise SessionClosed("the session is closed")
        return engine.ready

    def _known(self) -> Modes:
        return self._engine.log.state.modes or Modes()

    def _note(self, modes: Modes) -> None:
        self._engine.log.append(ModesChanged(modes))
        self._engine.publish()


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
