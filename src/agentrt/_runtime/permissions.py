"""Permission: what an agent asks for, what may be decided, and who decides.

A policy is a function from a `PermissionRequest` to a `Decision`, sync or async. `deny_all` is what
holds without one; `allow_all`, `ask` and `rules` are the others that come with agentrt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from msgspec import Struct

from .._model.content import JsonObject
from .._model.driver import Asked
from .._model.events import PermissionOption
from .rules import Rule, Seen, find_command, find_paths, resolve


@dataclass(frozen=True)
class Allow:
    """Let it happen: by `option`, the id of one of the request's, or else by the weakest option
    that allows it. `remember` prefers the one that keeps the agent from asking again.
    `updated_input` is run in place of what the agent asked for, where its protocol can say so."""

    option: str | None = None
    updated_input: JsonObject | None = None
    remember: bool = False


@dataclass(frozen=True)
class Deny:
    """Do not. `message` is told to the model, where the protocol can; `interrupt` also ends the
    turn."""

    message: str = ""
    interrupt: bool = False


@dataclass(frozen=True)
class Ask:
    """Leave it open, for a person to answer."""


Decision: TypeAlias = Allow | Deny | Ask


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """What the agent wants to do, as it tells it. `title` and `kind` are for people to read: they
    are the agent's own words, and nothing that a policy should rest on."""

    title: str
    tool: str = ""
    """The tool's name; empty if the agent gave none (many ACP agents do not)."""
    kind: str = "other"
    input: Any = None
    """The tool's parsed arguments, usually an object; None if the agent gave none."""
    options: tuple[PermissionOption, ...] = ()
    cwd: str = "/"
    """The session's folder, absolute."""
    tool_call: str | None = None
    raw: Any = None
    """The request in the protocol's own shape."""

    @classmethod
    def of(cls, asked: Asked, *, cwd: str) -> PermissionRequest:
        return cls(
            title=asked.title,
            tool=asked.name or "",
            kind=asked.tool_kind or "other",
            input=asked.input,
            options=tuple(asked.options),
            cwd=cwd,
            tool_call=asked.tool_call,
            raw=asked.raw,
        )

    @property
    def command(self) -> str | None:
        """The shell command that the input contains, if it contains one."""
        return find_command(self.input)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the input names, where it leads now: absolute, links followed. What is
        no path of this machine (a URL, a NUL in it) does not begin with a slash. Raises ValueError
        if the input has more than 2,000 parts."""
        return tuple(resolve(path) for path in find_paths(self.input, self.cwd))


Policy: TypeAlias = Callable[[PermissionRequest], Decision | Awaitable[Decision]]
"""Decides. One that raises, or takes longer than `limits.permission`, has denied."""


_ALLOW: Final = Allow()


def deny_all(request: PermissionRequest) -> Decision:
    """Nothing is allowed."""
    return Deny("Nothing is allowed here.")


def allow_all(request: PermissionRequest) -> Decision:
    """Everything is allowed, without a question. For agents in a sandbox."""
    return _ALLOW


def ask(request: PermissionRequest) -> Decision:
    """A viewer decides."""
    return Ask()


def rules(
    *,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    ask: Iterable[str] = (),
    otherwise: Policy = deny_all,
) -> Policy:
    """A policy of rules over the tool's name and its parsed input; see `Rule` for how they are
    written. Raises `ValueError` for one that is not.

    A request that a `deny` rule touches is denied; one that an `ask` rule touches, or may touch, is
    asked about; one that an `allow` rule covers wholly is allowed, unless a `deny` rule may touch
    it. All else is for `otherwise`.
    """
    allowing, denying, asking = ([Rule(text) for text in texts] for texts in (allow, deny, ask))

    def decide(request: PermissionRequest) -> Decision | Awaitable[Decision]:
        seen = Seen(request)
        denied = {rule.touches(seen): rule for rule in denying}
        if True in denied:
            return Deny(f"Denied by the rule {denied[True]}.")
        if any(rule.touches(seen) is not False for rule in asking):
            return Ask()
        if None not in denied and any(rule.covers(seen) for rule in allowing):
            return Allow()
        return otherwise(request)

    return decide


def choose_option(
    options: Sequence[PermissionOption], decision: Decision
) -> PermissionOption | None:
    """The option that carries a decision out; None means to answer `cancelled`.

    Options are told apart by their kind, never by id or name, and "once" is preferred to "always"
    unless the decision says to remember. Where nothing allows, it is rejected; where nothing
    rejects, it is cancelled.
    """

    def first(*kinds: str) -> PermissionOption | None:
        return next((o for kind in kinds for o in options if o.kind == kind), None)

    chosen = None
    match decision:
        case Allow(option=None, remember=True):
            chosen = first("allow_always", "allow_once")
        case Allow(option=None):
            chosen = first("allow_once", "allow_always")
        case Allow(option=id):
            chosen = next((o for o in options if o.id == id and o.kind.startswith("allow_")), None)
    return chosen or first("reject_once", "reject_always")
