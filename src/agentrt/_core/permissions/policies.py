"""Permission requests, decisions, and the policies that make them.

A policy is a function from a `PermissionRequest` to a `Decision`, sync or async. `deny_all` applies
if no policy is given; agentrt also has `allow_all`, `ask` and `rules`.

Agents name a tool of an MCP server each in a format of its own.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, get_args

import msgspec
from msgspec import Struct, structs

from ..agents.agent import Agent
from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import DecisionAnswer, DecisionRequested
from ..model.events import Notice, PermissionOpened, PermissionOption

if TYPE_CHECKING:
    from .request_facts import RequestFacts
    from .rules import PermissionRule

OWN_NAME: Final = "agentrt"
"""The MCP server of the program's functions: rules and models name a tool `mcp__agentrt__NAME`."""

_TOOL: Final = r"([A-Za-z0-9_.-]{1,128})"
_SERVER: Final = r"([A-Za-z0-9_-]{1,64}?)"
_NAMES: Final = (
    re.compile(rf"mcp__{_SERVER}__{_TOOL}"),  # Claude Code, Kimi
    re.compile(rf"mcp_{_SERVER}\.{_TOOL}"),  # Mistral Vibe
)
"""Names that agents' programs give to tools of MCP servers."""
_TITLES: Final = (
    *_NAMES,
    re.compile(rf"{_TOOL} \({_SERVER} MCP Server\)"),  # Gemini
)
"""Titles that programs give to such a tool if they do not send its name."""
_MESSAGE: Final = re.compile(rf'Allow the {_SERVER} MCP server to run tool "{_TOOL}"\?')


def called_tool(request: PermissionRequest) -> tuple[str, str, Any] | None:
    """Return the server, the tool and the arguments of a request about a tool of an MCP server.

    They are taken from the text of the agent's program. None for all other requests.
    """
    match request.raw:
        case {"mcp_server": {"source": str(source)}} if source not in ("sdk", "dynamic"):
            return None  # Claude Code: a server from the user's or the project's settings
    if request.tool:
        return _named(request)
    return _approved_by_codex(request) or _titled(request)


def _named(request: PermissionRequest) -> tuple[str, str, Any] | None:
    """Return server, tool and arguments of a request that names the tool of an MCP server."""
    for pattern in _NAMES:
        if found := pattern.fullmatch(request.tool):
            return found[1], found[2], request.input
    return None


def _approved_by_codex(request: PermissionRequest) -> tuple[str, str, Any] | None:
    """Return server, tool and arguments of codex's approval request for an MCP tool.

    The two ACP adapters for codex send it in different forms.
    """
    match request.input, _meta(request.raw):
        case (
            {"server": str(server), "tool": str(tool), "arguments": arguments},
            {"is_mcp_tool_approval": True},
        ):  # codex-acp
            return server, tool, arguments
        case {"server_name": str(server), "request": {"message": str(message), "_meta": meta}}, _:
            found = _MESSAGE.fullmatch(message)  # codex-acp of Zed
            approves = isinstance(meta, dict) and meta.get("codex_approval_kind") == "mcp_tool_call"
            if found and found[1] == server and approves:
                return server, found[2], meta.get("tool_params")
    return None


def _titled(request: PermissionRequest) -> tuple[str, str, Any] | None:
    """Return server and tool of a request that names them only in its title.

    The title counts only if it comes from the agent's program (`kind_holds`), because a model could
    write any title.
    """
    if request.kind != "other" or not request.kind_holds or request.input is not None:
        return None
    for pattern in _TITLES:
        if found := pattern.fullmatch(request.title):
            server, tool = found[1], found[2]
            return (tool, server, None) if " " in request.title else (server, tool, None)
    return None


def _meta(raw: Any) -> Any:
    """Return ACP's `_meta` of a request, if it has one."""
    return raw.get("_meta") if isinstance(raw, dict) else None


class _Decided(Struct, frozen=True, eq=False):
    """Base class of decisions. Two decisions are equal if they differ only in `rule`."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Decided) or type(other) is not type(self):
            return NotImplemented
        return self._meaning() == other._meaning()

    def __ne__(self, other: object) -> bool:  # Struct defines both
        return not self == other

    def __hash__(self) -> int:
        return hash((type(self), repr(self._meaning())))

    def _meaning(self) -> tuple[object, ...]:
        """Return the fields that make up the decision; the rule is for the log only."""
        return tuple(getattr(self, name) for name in self.__struct_fields__ if name != "rule")


class Allow(_Decided, frozen=True, eq=False):
    """Allow the request.

    `option` is the id of one of the request's options; without it, the least permissive option that
    allows is chosen. `remember` prefers the option that keeps the agent from asking again.
    `updated_input` replaces the tool's input, if the agent's protocol supports it.
    """

    option: str | None = None
    updated_input: JsonObject | None = None
    remember: bool = False
    rule: str = ""
    """The rule that decided, for the log (`PermissionClosed.rule`)."""


class Deny(_Decided, frozen=True, eq=False):
    """Deny the request.

    `message` is shown to the model, if the protocol supports it. `interrupt` also ends the turn.
    """

    message: str = ""
    interrupt: bool = False
    rule: str = ""
    """The rule that decided, for the log (`PermissionClosed.rule`)."""


class Ask(_Decided, frozen=True, eq=False):
    """Leave the request open, for a person to answer."""

    rule: str = ""
    """The rule that requires a person to be asked."""


Decision: TypeAlias = Allow | Deny | Ask
"""The decision of a policy."""


class PermissionRequest(Struct, frozen=True, kw_only=True):
    """A permission request as the agent sent it.

    `title` and `kind` are for people to read. The agent chooses them freely, so a policy must not
    rely on them.
    """

    title: str
    tool: str = ""
    """The tool's name; empty if the agent gave none (many ACP agents do not)."""
    kind: str = "other"
    """The kind of work, such as `read`, `edit` or `execute`; see `kind_holds`."""
    input: Any = None
    """The tool's parsed arguments, usually an object; None if the agent gave none."""
    options: tuple[PermissionOption, ...] = ()
    """The answers that the agent offers."""
    cwd: str = "/"
    """The session's working directory, absolute."""
    tool_call: str | None = None
    """The agent's id of the tool call that it asks about, if any."""
    changes: tuple[str, ...] = ()
    """The files in the changes that the request shows, as the agent wrote them."""
    created: tuple[str, ...] = ()
    """The files of `changes` that the agent writes as a whole."""
    locations: tuple[str, ...] = ()
    """The files that the agent claims the request is about. Not verified."""
    tools: dict[str, str] = {}
    """The agent's tool names, mapped to the names that rules use."""
    shown_command: str | None = None
    """The command that the agent's program shows to people, if it is complete. No rule allows a
    request because of it."""
    kind_holds: bool = False
    """True if `kind` comes from the agent's program, not from its model."""
    raw: Any = None
    """The request as the protocol transmitted it."""
    id: str = ""
    """The id of the request, as in `PermissionOpened.request`."""
    subject: str = ""
    """As in `PermissionOpened.subject`: not empty if agentrt asks, about the agent's limits."""

    @property
    def command(self) -> str | None:
        """The shell command in the input; None if there is none."""
        from .request_facts import find_command

        return find_command(self.input)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path in the input as it resolves now: absolute, with symlinks followed.

        A string that is not a path on this machine (a URL, or one with a NUL) does not start with a
        slash. Raises `ValueError` if the input has more than 2,000 parts.
        """
        from .paths import find_paths, resolve

        return tuple(resolve(path) for path in find_paths(self.input, self.cwd))


def request_of(asked: DecisionRequested, *, cwd: str) -> PermissionRequest:
    """Return the request that policies receive, from the driver's `asked`."""
    return PermissionRequest(
        id=asked.key,
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
        subject=asked.subject,
    )


Policy: TypeAlias = Callable[[PermissionRequest], Decision | Awaitable[Decision]]
"""A function that decides. If it raises, or takes longer than `limits.permission_timeout_s`, the
request is denied."""


_ALLOW: Final = Allow(rule="allow_all")
NOTHING_IS_ALLOWED: Final = "Nothing is allowed here."
_NOTHING: Final = Deny(NOTHING_IS_ALLOWED, rule="deny_all")
OnViolation: TypeAlias = Literal["warn", "cancel"]
"""The reaction to a tool call that ran unasked although the policy refuses such a call."""


def deny_all(request: PermissionRequest) -> Decision:
    """Deny every request."""
    return _NOTHING


def allow_all(request: PermissionRequest) -> Decision:
    """Allow every request without asking. For agents in a sandbox."""
    return _ALLOW


def ask(request: PermissionRequest) -> Decision:
    """Leave every request to a viewer."""
    return Ask()


def is_plain(policy: object) -> bool:
    """Return True for a policy above, which decides without looking at the request."""
    return policy is ask or policy is allow_all or policy is deny_all


class NamedTool(Protocol):
    """A tool defined by the host program, as `agentrt.tool` creates it."""

    @property
    def name(self) -> str:
        """The name by which the agent calls it."""
        ...

    @property
    def input_schema(self) -> JsonObject:
        """The JSON Schema of its arguments."""
        ...


RuleLike: TypeAlias = "str | NamedTool"
"""A rule: its text, or a tool of the program."""


class RulesPolicy:
    """The policy that `rules` returns."""

    def __init__(
        self,
        *,
        allow: Sequence[PermissionRule],
        deny: Sequence[PermissionRule],
        ask: Sequence[PermissionRule],
        otherwise: Policy,
        attended: bool,
        on_violation: OnViolation = "warn",
    ) -> None:
        """Create the policy; `rules` describes the arguments."""
        self.allow = tuple(allow)
        self.deny = tuple(deny)
        self.ask = tuple(ask)
        self.otherwise = otherwise
        self.attended = attended
        self.on_violation = on_violation
        self.__qualname__ = "rules"

    def __call__(self, request: PermissionRequest) -> Decision | Awaitable[Decision]:
        """Decide a request: deny rules first, then ask rules, then allow rules, then `otherwise`.

        A deny rule that only may match does not deny, but it prevents any allowing: if `otherwise`
        would allow, a person is asked, or the request is denied if no person can be.
        """
        from .programs import Verdict
        from .protected import names_file, protected_change
        from .request_facts import RequestFacts
        from .rules import covered, worst

        seen = RequestFacts(request)
        rule, found = worst(self.deny, seen)
        if found.verdict is Verdict.YES:
            return Deny(f"Denied by the rule {rule}.", rule=f"deny {rule}")
        asking, wanted = worst(self.ask, seen)
        if wanted.verdict is not Verdict.NO:
            return Ask(rule=f"ask {asking}")
        # An allow rule that names one of the project's programs accepts everything it does.
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
        """Return the decision about a call of one of the program's own tools.

        None if no rule denies the call or wants it asked. A rule counts only if it names the tool,
        all tools of its server, or everything.
        """
        from .programs import Verdict
        from .request_facts import RequestFacts
        from .rules import worst

        request = PermissionRequest(
            title=tool, tool=f"mcp__{server}__{tool}", input=arguments, cwd=cwd
        )
        seen = RequestFacts(request, own_tool=tool)
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


def _covering(allowing: Sequence[PermissionRule], seen: RequestFacts) -> str:
    """List the rules that together allow a request, for the log."""
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
    """Make a policy from rules. A rule is written `NAME` or `NAME(TARGET)`::

        Bash(git status:*)       commands that begin with these words
        Bash(npm test)           this command
        Edit(src/**)             changes to files in src, in the session's working directory
        Write(/tmp/*.txt)        files written as a whole; * and ? stay within one part of a path
        Read(~/notes/**)         files read, listed or searched
        Fetch(*.example.com)     pages of these hosts
        Read                     everything of that kind
        mcp__app__*              tools of an MCP server; * matches any characters
        *                        everything
        run_shell_command        an agent's own name for a tool

    A tool of your program (see `tool`) is also a rule: `deny=[greet]`, or by name,
    `deny=["greet"]`. Agents may call it unless a rule denies it or wants it asked.

    - A request that a `deny` rule matches is denied.
    - A request that a `deny` rule *may* match (the command cannot be parsed, or the agent does not
      state it) is never allowed. If a person can be asked, which is so if `otherwise` asks or
      `attended` is true, the person decides; otherwise it is denied.
    - A request that an `ask` rule matches, or may match, is asked.
    - A request that `allow` rules cover completely is allowed; in a line with several commands,
      every command must be covered. A change to a file that makes programs run (`.git/…`,
      `.claude/settings.json`, `.npmrc`, …) is allowed only by a rule that names the file or its
      folder: `Edit(.vscode/**)`.
    - `otherwise` decides all other requests.

    `deny` and `ask` rules and `otherwise=deny_all` apply for the life of the session, even if the
    mode is changed or a request is answered "always". Claude Code asks agentrt before every tool
    call. Other agents may run a call without asking; if a rule matches or may match it, a notice
    with the code `ran_unasked` reports it, and `on_violation="cancel"` also cancels the turn.

    The names mean the same for every agent. An agent's own description (kind, title) can cause a
    request to be denied, but never to be allowed. Raises `ValueError` for a text that is not a
    rule.
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


def _read_rules(
    name: str, texts: Iterable[RuleLike], *, denies: bool = False
) -> list[PermissionRule]:
    """Read a list of rules. Raises `ValueError` for a single text in place of a list, too."""
    if isinstance(texts, str):
        raise ValueError(f"{name} must be a list of rules: {name}=[{texts!r}]")
    if not isinstance(texts, Iterable):
        given = getattr(texts, "name", None) or getattr(texts, "__name__", None) or repr(texts)
        raise ValueError(f"{name} must be a list of rules: {name}=[{given}]")
    texts = list(texts)
    if not texts:
        return []  # importing the rules costs as much as importing a driver
    from .rules import PermissionRule

    return [PermissionRule(_rule_text(name, each), denies=denies) for each in texts]


def _rule_text(name: str, rule: RuleLike) -> str:
    """Return the text of a rule. Raises `ValueError` for a function that is not a tool."""
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
    """Return the policy's decision, but `instead` if that is `Allow`."""

    def judged(decision: Decision) -> Decision:
        """Replace an `Allow` of the policy."""
        decision = check_decision(policy, decision)
        return instead if isinstance(decision, Allow) else decision

    async def later() -> Decision:
        """Call an asynchronous policy, when the result is awaited."""
        decision = policy(request)
        return judged(await decision if inspect.isawaitable(decision) else decision)

    called = getattr(policy, "__call__", None)  # noqa: B004 - of an object, its method
    if inspect.iscoroutinefunction(policy) or inspect.iscoroutinefunction(called):
        return later()  # the policy is called when this is awaited
    decision = policy(request)
    if inspect.isawaitable(decision):
        return _Judged(decision, judged)
    return judged(decision)


class _Judged:
    """An awaitable that passes its result through `judged` and never needs to be closed."""

    def __init__(
        self, pending: Awaitable[Decision], judged: Callable[[Decision], Decision]
    ) -> None:
        """Wait for `pending`, then apply `judged`."""
        self._pending = pending
        self._judged = judged

    def __await__(self) -> Generator[Any, Any, Decision]:
        return self._judged((yield from self._pending.__await__()))


def check_policy(policy: object, name: str = "permissions") -> None:
    """Raise `ValueError` unless `policy` can be called with a request."""
    if callable(policy) and _takes_request(policy):
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
    elif callable(policy):
        meant = "Did you mean agentrt.rules(…)? " if policy is rules else ""
        meant = f"It cannot be called with one argument, the request. {meant}"
    else:
        meant = ""
    raise ValueError(
        f"{name}={policy!r} is not a policy. {meant}Choices: agentrt.allow_all, agentrt.deny_all,"
        " agentrt.ask, agentrt.rules(allow=[…], deny=[…]), or a function that takes a"
        " PermissionRequest and returns a Decision"
    )


def _takes_request(policy: Callable[..., object]) -> bool:
    """Return True if a policy takes one argument, as far as its signature shows."""
    if policy in DECISIONS:
        return False
    if is_plain(policy):
        return True  # a signature takes long to find, and most sessions have one of these
    try:
        inspect.signature(policy).bind(None)
    except TypeError:
        return False
    except ValueError:  # callables of other languages may have no signature
        return True
    return True


def for_agent(policy: Policy, agent: Agent) -> Policy:
    """Wrap a policy for one agent.

    Its requests are completed from the catalogue (`with_catalogue_data`). Its return value is not
    checked; see `given`.
    """
    if is_plain(policy):
        return policy  # it does not look at the request

    def decide(request: PermissionRequest) -> Decision | Awaitable[Decision]:
        """Complete the request from the catalogue, and call the policy."""
        return policy(with_catalogue_data(request, agent))

    decide.__qualname__ = getattr(policy, "__qualname__", None) or repr(policy)
    decide.__wrapped__ = policy  # type: ignore[attr-defined]
    return decide


def policy_rules(policy: Policy | None) -> RulesPolicy | None:
    """Return the rules that a policy consists of, also through wrappers with `__wrapped__`."""
    found: Any = policy
    if callable(found) and not isinstance(found, RulesPolicy):
        found = inspect.unwrap(found, stop=lambda each: isinstance(each, RulesPolicy))
    return found if isinstance(found, RulesPolicy) else None


def _with_tool(request: PermissionRequest) -> PermissionRequest:
    """Return the request with the name that rules use for a tool of an MCP server."""
    found = None if request.tool else called_tool(request)
    if found is None:
        return request
    server, tool, arguments = found
    return structs.replace(
        request, tool=f"mcp__{server}__{tool}", input=arguments, kind="other", shown_command=None
    )


def with_catalogue_data(request: PermissionRequest, agent: Agent) -> PermissionRequest:
    """Return the request with everything that the catalogue knows about this agent's requests."""
    known = structs.replace(
        request,
        tools=agent.tools,
        shown_command=_shown_command(request, agent.quirks.command_shown),
        kind_holds=agent.quirks.kinds_hold,
    )
    return _with_tool(known)


def _shown_command(request: PermissionRequest, where: str | None) -> str | None:
    """Return the command that the agent's program shows in a title or in the content, if complete.

    `where` comes from the catalogue; None: this agent shows no command that could be relied on.
    """
    if where is None or request.kind != "execute" or request.input is not None:
        return None
    if where == "title":
        return request.title
    try:
        [block] = request.raw["toolCall"]["content"]
        text = str(block["content"]["text"])
    except (KeyError, TypeError, ValueError):
        return None
    # A long command is shown only in part, ending with "…".
    found = re.fullmatch(r"[\w ]+: (.*[^…])", text, re.DOTALL)
    return found[1] if found else None


DECISIONS: Final = (Allow, Deny, Ask)


def check_decision(policy: object, decision: object) -> Decision:
    """Return the policy's result if it is a decision. Raises `TypeError` if it is not."""
    if isinstance(decision, DECISIONS):
        return decision
    name = getattr(policy, "__qualname__", None) or repr(policy)
    raise TypeError(
        f"{name} returned {decision!r:.200}, which is not a decision; return Allow(),"
        " Deny() or Ask()"
    )


def given(policy: object, decision: object) -> Decision | Awaitable[Decision]:
    """Like `check_decision`, but an awaitable is returned unchecked."""
    if isinstance(decision, DECISIONS) or inspect.isawaitable(decision):
        return decision
    return check_decision(policy, decision)


def choose_option(
    options: Sequence[PermissionOption], decision: Decision
) -> PermissionOption | None:
    """Return the option that carries out a decision; None means to answer `cancelled`.

    Options are selected by kind, never by id or name, and "once" is preferred to "always" unless
    the decision sets `remember`. An option that also changes the mode or adds a folder (`effect`)
    is chosen only by its id. If no option allows, the request is rejected; if no option rejects,
    it is cancelled.
    """

    def first(*kinds: str) -> PermissionOption | None:
        """Return the first option of the first of these kinds that is offered.

        An option with a further effect does not count.
        """
        for kind in kinds:
            for option in options:
                if option.kind == kind and not option.effect:
                    return option
        return None

    chosen = None
    match decision:
        case Allow(option=None, remember=True):
            chosen = first("allow_always", "allow_once")
        case Allow(option=None):
            chosen = first("allow_once", "allow_always")
        case Allow(option=id):
            chosen = next((o for o in options if o.id == id and o.kind.startswith("allow_")), None)
    return chosen or first("reject_once", "reject_always")


MAX_OPEN_QUESTIONS: Final = 1024
"""Maximum number of open questions. No person answers more; closing them all at the end of their
turn takes a hundredth of a second."""


def answer_for(
    request: PermissionOpened, decision: Decision, *, protocol: str
) -> tuple[DecisionAnswer, bool, Notice | None]:
    """Return the answer for a policy's decision, True if it allows, and a notice for viewers."""
    notice = None
    if isinstance(decision, Allow):
        if request.form is not None or request.url is not None:
            decision = Deny()  # no policy can fill a form or visit a page
        elif decision.updated_input is not None:
            reason = _unsayable(decision.updated_input, protocol)
            if reason is not None:
                decision = Deny(reason)
                notice = Notice("warning", "input_not_changed", f"rejected: {reason}")
    option = choose_option(request.options, decision)
    id = option.id if option is not None else None
    allowed = option is not None and option.kind.startswith("allow")
    match decision:
        case Allow(updated_input=updated_input) if allowed:
            answer = DecisionAnswer(option=id, updated_input=updated_input)
        case Deny(message=message, interrupt=interrupt):
            answer = DecisionAnswer(option=id, message=message, interrupt=interrupt)
        case _:
            answer = DecisionAnswer(option=id)
    return answer, allowed, notice


def rejection(request: PermissionOpened) -> DecisionAnswer:
    """Return the answer that rejects, with an option for it if there is one."""
    option = choose_option(request.options, Deny())
    return DecisionAnswer(option=option.id if option is not None else None)


def decided_words(request: PermissionOpened, answer: DecisionAnswer, *, denied: bool) -> str:
    """Return the text for an agent that no longer waits for the question's answer."""
    if answer.content is not None:
        content = msgspec.json.encode(answer.content).decode()
        decided = f"The user has now answered: {content}"
    elif denied:
        decided = "The user has now rejected it."
    else:
        decided = "The user has now allowed it, once."
    words = [
        "The program that ran you ended while you waited for an answer. You had asked:",
        f"{request.title!r}.",
        decided,
        f"The user says: {answer.message}" if answer.message else "",
        "The requested action was not carried out. Continue your work, and ask again for"
        " each action that needs permission.",
    ]
    return " ".join(filter(None, words))


def chosen_option(request: PermissionOpened, option: str) -> PermissionOption:
    """Return the option with this id, or else one of this kind without a further effect.

    Raises `LocalProtocolError` if there is none.
    """
    for each in request.options:
        if each.id == option:
            return each
    for each in request.options:
        if each.kind == option and not each.effect:
            return each
    known = ", ".join(f"{o.id} ({o.kind})" for o in request.options) or "none"
    raise LocalProtocolError(f"request {request.request} has no option {option!r}; it has: {known}")


def check_json(value: Any, what: str) -> None:
    """Raise `LocalProtocolError` if the value cannot be sent as JSON."""
    if (problem := json_problem(value)) is not None:
        raise LocalProtocolError(f"{what} cannot be sent as JSON: {problem}")


def json_problem(value: Any) -> str | None:
    """Return the reason why a value cannot be sent as JSON; None if it can."""
    try:
        msgspec.json.encode(value)
    except RecursionError:
        return "it is nested too deeply, or contains itself"
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        return str(error)
    return None


def _unsayable(updated_input: Any, protocol: str) -> str | None:
    """Return the reason why an agent cannot run a changed input; None if it can."""
    if protocol != "claude":  # others would run the original input, not the allowed one
        return "its protocol cannot change the input of a tool"
    problem = json_problem(updated_input)
    return (
        None if problem is None else f"the permission policy's updated_input is not JSON: {problem}"
    )
