"""Permission: what an agent asks for, what may be decided, and who decides.

A policy is a function from a `PermissionRequest` to a `Decision`, sync or async. `deny_all` is what
holds without one; `allow_all`, `ask` and `rules` are the others that come with agentrt.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

from msgspec import Struct, structs

from .._agents.agent import Agent
from .._model.content import JsonObject
from .._model.driver import Asked
from .._model.events import PermissionOption
from .mcp_calls import called_tool

if TYPE_CHECKING:
    from .rules import Rule
    from .seen import Seen


class _Decided(Struct, frozen=True, eq=False):
    """The base of decisions. Two that mean the same are equal, whichever rules they come from."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Decided) or type(other) is not type(self):
            return NotImplemented
        return self._meaning() == other._meaning()

    def __hash__(self) -> int:
        return hash((type(self), repr(self._meaning())))

    def _meaning(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "rule")


class Allow(_Decided, frozen=True, eq=False):
    """Let it happen: by `option`, the id of one of the request's, or else by the weakest option
    that allows it. `remember` prefers the one that keeps the agent from asking again.
    `updated_input` is run in place of what the agent asked for, where its protocol can say so."""

    option: str | None = None
    updated_input: JsonObject | None = None
    remember: bool = False
    rule: str = ""
    """The rule that decided, for the log (`PermissionClosed.rule`)."""


class Deny(_Decided, frozen=True, eq=False):
    """Do not. `message` is for the model, where the protocol can; `interrupt` also ends the
    turn."""

    message: str = ""
    interrupt: bool = False
    rule: str = ""
    """The rule that decided, for the log (`PermissionClosed.rule`)."""


class Ask(_Decided, frozen=True, eq=False):
    """Leave it open, for a person to answer."""

    rule: str = ""
    """The rule that wants a person to be asked."""


Decision: TypeAlias = Allow | Deny | Ask


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """What the agent wants to do, as it says it. `title` and `kind` are for people to read: they
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
    changes: tuple[str, ...] = ()
    """The files of the changes that it shows, as the agent wrote them."""
    created: tuple[str, ...] = ()
    """The files among them that it writes as a whole."""
    locations: tuple[str, ...] = ()
    """The files that the agent says it is about: its own word, too."""
    tools: dict[str, str] = {}
    """What the agent calls its tools, and what rules call them."""
    shown_command: str | None = None
    """The command that the agent's program shows to people, if it is the whole one. No rule allows
    anything for it."""
    kind_holds: bool = False
    """Whether `kind` is the word of the agent's program, and not of its model."""
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
            changes=tuple(asked.changes),
            created=tuple(asked.created),
            locations=tuple(asked.locations),
            raw=asked.raw,
        )

    @property
    def command(self) -> str | None:
        """The shell command that the input contains, if it contains one."""
        from .seen import find_command

        return find_command(self.input)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that the input names, where it leads now: absolute, links followed. What is
        no path of this machine (a URL, a NUL in it) does not begin with a slash. Raises ValueError
        if the input has more than 2,000 parts."""
        from .paths import find_paths, resolve

        return tuple(resolve(path) for path in find_paths(self.input, self.cwd))


Policy: TypeAlias = Callable[[PermissionRequest], Decision | Awaitable[Decision]]
"""Decides. One that raises, or takes longer than `limits.permission`, has denied."""


_ALLOW: Final = Allow(rule="allow_all")
NOTHING_IS_ALLOWED: Final = "Nothing is allowed here."
_NOTHING: Final = Deny(NOTHING_IS_ALLOWED, rule="deny_all")
OnViolation: TypeAlias = Literal["warn", "cancel"]
"""The reaction to a tool call that ran unasked although the policy refuses such a call."""


def deny_all(request: PermissionRequest) -> Decision:
    """Nothing is allowed."""
    return _NOTHING


def allow_all(request: PermissionRequest) -> Decision:
    """Everything is allowed, without a question. For agents in a sandbox."""
    return _ALLOW


def ask(request: PermissionRequest) -> Decision:
    """A viewer decides."""
    return Ask()


class NamedTool(Protocol):
    """A tool of the program's, as `agentrt.tool` makes it."""

    @property
    def name(self) -> str: ...

    @property
    def input_schema(self) -> JsonObject: ...


RuleLike: TypeAlias = "str | NamedTool"
"""A rule: its text, or a tool of the program's own."""


class RulesPolicy:
    """The policy that `rules` returns."""

    def __init__(
        self,
        *,
        allow: Sequence[Rule],
        deny: Sequence[Rule],
        ask: Sequence[Rule],
        otherwise: Policy,
        attended: bool,
        on_violation: OnViolation = "warn",
    ) -> None:
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self.ask = tuple(ask)
        self.otherwise = otherwise
        self.attended = attended
        self.on_violation = on_violation
        self.__qualname__ = "rules"

    def __call__(self, request: PermissionRequest) -> Decision | Awaitable[Decision]:
        from .programs import Verdict
        from .protected import names_file, protected_change
        from .rules import covered, worst
        from .seen import Seen

        seen = Seen(request)
        rule, found = worst(self.deny, seen)
        if found.verdict is Verdict.YES:
            return Deny(f"Denied by the rule {rule}.", rule=f"deny {rule}")
        asking, wanted = worst(self.ask, seen)
        if wanted.verdict is not Verdict.NO:
            return Ask(rule=f"ask {asking}")
        # An allow rule that names a program of the project's accepts all that it does.
        if found.verdict <= Verdict.HIDDEN and covered(self.allow, seen):
            entry = protected_change(seen)
            if entry is None or names_file(self.allow, entry):
                return Allow(rule=_covering(self.allow, seen))
        if found.verdict is Verdict.NO:
            return self.otherwise(request)
        reason = f"Denied because the rule {rule} may apply: {found.why}."
        doubt = Deny(reason, rule=f"deny {rule}")
        instead = Ask(rule=f"deny {rule}") if self.attended else doubt
        return _unless_allowed(self.otherwise, request, instead)

    def about_tool(self, server: str, tool: str, arguments: Any, cwd: str) -> Deny | Ask | None:
        """The decision about a call of the program's own tool; None if no rule denies it or wants
        it asked. Only rules count that name the tool, all tools of its server, or everything."""
        from .programs import Verdict
        from .rules import worst
        from .seen import Seen

        request = PermissionRequest(
            title=tool, tool=f"mcp__{server}__{tool}", input=arguments, cwd=cwd
        )
        seen = Seen(request, own_tool=tool)
        rule, found = worst([each for each in self.deny if each.names(seen)], seen)
        if found.verdict is Verdict.YES:
            return Deny(f"Denied by the rule {rule}.", rule=f"deny {rule}")
        if found.verdict is not Verdict.NO:
            reason = f"Denied because the rule {rule} may apply: {found.why}."
            doubt = Deny(reason, rule=f"deny {rule}")
            return Ask(rule=f"deny {rule}") if self.attended else doubt
        asking, wanted = worst([each for each in self.ask if each.names(seen)], seen)
        if wanted.verdict > Verdict.NO:
            return Ask(rule=f"ask {asking}")
        inner = policy_rules(self.otherwise)
        return None if inner is None else inner.about_tool(server, tool, arguments, cwd)


def _covering(allowing: Sequence[Rule], seen: Seen) -> str:
    """The rules that together allow a request, for the log."""
    alone = next((rule for rule in allowing if rule.covers(seen)), None)
    if alone is not None:
        return f"allow {alone}"
    return ", ".join(f"allow {rule}" for rule in allowing if rule.names(seen))


def rules(
    *,
    allow: Iterable[RuleLike] = (),
    deny: Iterable[RuleLike] = (),
    ask: Iterable[RuleLike] = (),
    otherwise: Policy = deny_all,
    attended: bool = False,
    on_violation: OnViolation = "warn",
) -> Policy:
    """Make a policy of rules. They are written `NAME` or `NAME(WHAT)`::

        Bash(git status:*)       commands that begin with these words
        Bash(npm test)           this command
        Edit(src/**)             changes of files in src, in the session's folder
        Write(/tmp/*.txt)        files written as a whole; * and ? stay within one part of a path
        Read(~/notes/**)         files read, listed or searched
        Fetch(*.example.com)     pages of these hosts
        Read                     everything of that kind
        mcp__app__*              tools of an MCP server; * stands for any characters
        *                        everything
        run_shell_command        an agent's own name of a tool

    A tool of your program (see `tool`) is a rule as well: `deny=[greet]`, or by its name,
    `deny=["greet"]`. Agents may call it unless a rule denies it or wants it asked.

    - A request that a `deny` rule matches is denied.
    - A request that a `deny` rule *may* match (the command cannot be read, the agent does not say
      what it wants) is never allowed: it is left to a person if one can be asked, that is if
      `otherwise` asks or `attended` is true, and denied otherwise.
    - A request that an `ask` rule matches, or may match, is asked.
    - A request that `allow` rules cover wholly is allowed: of a line with several commands, each.
      A change of a file that makes programs run (`.git/…`, `.claude/settings.json`, `.npmrc`, …) is
      allowed only by a rule that names the file or its folder: `Edit(.vscode/**)`.
    - All other requests are for `otherwise`.

    `deny` and `ask` rules and `otherwise=deny_all` hold for the life of the session, whichever mode
    is chosen in it and whatever was answered "always". Claude Code asks agentrt before every tool
    call. Of other agents, a call that ran without a question, and that a rule matches or may match,
    is reported by a notice with the code `ran_unasked`; with `on_violation="cancel"` it also
    cancels the turn.

    The names mean the same for every agent. An agent's own words (kind, title) may have a request
    denied, never allowed. Raises ValueError for a text that is not a rule.
    """
    allowing = _read_rules("allow", allow)
    denying = _read_rules("deny", deny, denies=True)
    asking = _read_rules("ask", ask, denies=True)
    check_policy(otherwise, "otherwise")
    if on_violation not in get_args(OnViolation):
        raise ValueError(f"on_violation must be 'warn' or 'cancel', not {on_violation!r}")
    if not (allowing or denying or asking) and on_violation == "warn":
        return otherwise
    return RulesPolicy(
        allow=allowing,
        deny=denying,
        ask=asking,
        otherwise=otherwise,
        attended=attended,
        on_violation=on_violation,
    )


def _read_rules(name: str, texts: Iterable[RuleLike], *, denies: bool = False) -> list[Rule]:
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of rules: {name}=[{texts!r}]")
    if not isinstance(texts, Iterable):
        given = getattr(texts, "name", None) or getattr(texts, "__name__", None) or repr(texts)
        raise ValueError(f"{name} must be a list of rules: {name}=[{given}]")
    texts = list(texts)
    if not texts:
        return []  # importing the rules costs as much as importing a driver
    from .rules import Rule

    return [Rule(_rule_text(name, each), denies=denies) for each in texts]


def _rule_text(name: str, rule: RuleLike) -> str:
    """The text of a rule. Raises ValueError for a function that is not a tool."""
    if isinstance(rule, str):
        return rule
    if isinstance(getattr(rule, "input_schema", None), dict):
        return f"mcp__agentrt__{rule.name}"
    if callable(rule):
        plain = getattr(rule, "__name__", None) or repr(rule)
        raise ValueError(
            f"{name}=[{plain}]: {plain} is a bare function, not a tool; decorate it with"
            " @agentrt.tool"
        )
    raise ValueError(f"{name} must be a list of rules and tools, not {rule!r}")


def _unless_allowed(
    policy: Policy, request: PermissionRequest, instead: Decision
) -> Decision | Awaitable[Decision]:
    """What a policy says, but not `Allow`."""

    def judged(decision: Decision) -> Decision:
        decision = check_decision(policy, decision)
        return instead if isinstance(decision, Allow) else decision

    async def later() -> Decision:
        decision = policy(request)
        return judged(await decision if inspect.isawaitable(decision) else decision)

    called = getattr(policy, "__call__", None)  # noqa: B004 - of an object, its method
    if inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(called):
        return later()  # which calls it only when it is awaited
    decision = policy(request)
    if inspect.isawaitable(decision):
        return _Judged(decision, judged)
    return judged(decision)


class _Judged:
    """An awaitable whose value another function gets, and nothing that must be closed."""

    def __init__(
        self, pending: Awaitable[Decision], judged: Callable[[Decision], Decision]
    ) -> None:
        self._pending = pending
        self._judged = judged

    def __await__(self) -> Generator[Any, Any, Decision]:
        return self._judged((yield from self._pending.__await__()))


def check_policy(policy: object, name: str = "permissions") -> None:
    """Raise `ValueError` unless `policy` can be called."""
    if callable(policy):
        return
    wanted = {
        "allow": "allow_all",
        "allow_all": "allow_all",
        "deny": "deny_all",
        "deny_all": "deny_all",
        "ask": "ask",
        "rules": "rules",
    }
    if isinstance(policy, str):
        from difflib import get_close_matches  # for the few who pass a name

        close = get_close_matches(policy.casefold().replace("-", "_"), list(wanted), 1)
        meant = f"Did you mean agentrt.{wanted[close[0]]}? " if close else ""
    else:
        meant = ""
    raise ValueError(
        f"{name}={policy!r} is not a policy. {meant}Choices: agentrt.allow_all, agentrt.deny_all,"
        " agentrt.ask, agentrt.rules(allow=[…], deny=[…]), or a function that takes a"
        " PermissionRequest and returns a Decision"
    )


def for_agent(policy: Policy, agent: Agent) -> Policy:
    """Wrap a policy so that it gets requests in the terms known of this agent, and so that the
    value it returns is checked."""

    def decide(request: PermissionRequest) -> Decision | Awaitable[Decision]:
        return given(policy, policy(known_of(request, agent)))

    decide.__qualname__ = getattr(policy, "__qualname__", None) or repr(policy)
    decide.__wrapped__ = policy  # type: ignore[attr-defined]
    return decide


def policy_rules(policy: Policy | None) -> RulesPolicy | None:
    """The rules that a policy is made of, also below a wrapper that names it `__wrapped__`."""
    found: Any = policy
    if callable(found) and not isinstance(found, RulesPolicy):
        found = inspect.unwrap(found, stop=lambda each: isinstance(each, RulesPolicy))
    return found if isinstance(found, RulesPolicy) else None


def _with_tool(request: PermissionRequest) -> PermissionRequest:
    """The request, with the name that rules have for a tool of an MCP server."""
    found = None if request.tool else called_tool(request)
    if found is None:
        return request
    server, tool, arguments = found
    return structs.replace(
        request, tool=f"mcp__{server}__{tool}", input=arguments, kind="other", shown_command=None
    )


def known_of(request: PermissionRequest, agent: Agent) -> PermissionRequest:
    """The request, with everything that the catalogue knows of the agent's requests."""
    known = structs.replace(
        request,
        tools=agent.tools,
        shown_command=_shown_command(request, agent.quirks.command_shown),
        kind_holds=agent.quirks.kinds_hold,
    )
    return _with_tool(known)


def _shown_command(request: PermissionRequest, where: str | None) -> str | None:
    if where is None or request.kind != "execute" or request.input is not None:
        return None
    if where == "title":
        return request.title
    try:
        [block] = request.raw["toolCall"]["content"]
        text = str(block["content"]["text"])
    except (KeyError, TypeError, ValueError):
        return None
    # It shows the beginning of a long one.
    found = re.fullmatch(r"[\w ]+: (.*[^…])", text, re.DOTALL)
    return found[1] if found else None


DECISIONS: Final = (Allow, Deny, Ask)


def check_decision(policy: object, decision: object) -> Decision:
    """What a policy returned, if it is a decision. Raises TypeError."""
    if isinstance(decision, DECISIONS):
        return decision
    name = getattr(policy, "__qualname__", None) or repr(policy)
    raise TypeError(
        f"{name} returned {decision!r:.200}, which is no decision: Allow(), Deny() or Ask() is"
    )


def given(policy: object, decision: object) -> Decision | Awaitable[Decision]:
    """The same where the decision may be still to come."""
    if not isinstance(decision, DECISIONS) and inspect.isawaitable(decision):
        return decision
    return check_decision(policy, decision)


def choose_option(
    options: Sequence[PermissionOption], decision: Decision
) -> PermissionOption | None:
    """The option that carries a decision out; None means to answer `cancelled`.

    An option counts by its kind, never by its id or name, and "once" is preferred to "always"
    unless the decision says to remember. An option that also changes the mode or adds a folder
    (`effect`) is chosen only by its id. Where nothing allows, it is rejected; where nothing
    rejects, it is cancelled.
    """

    def first(*kinds: str) -> PermissionOption | None:
        plain = [option for option in options if not option.effect]
        return next((o for kind in kinds for o in plain if o.kind == kind), None)

    chosen = None
    match decision:
        case Allow(option=None, remember=True):
            chosen = first("allow_always", "allow_once")
        case Allow(option=None):
            chosen = first("allow_once", "allow_always")
        case Allow(option=id):
            chosen = next((o for o in options if o.id == id and o.kind.startswith("allow_")), None)
    return chosen or first("reject_once", "reject_always")
