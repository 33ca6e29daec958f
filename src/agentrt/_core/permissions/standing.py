"""Refusals that apply even if the agent does not ask.

A policy answers requests. A refusal must also apply if there is no request: in a mode that never
asks, after an "always", or because of settings that an earlier session wrote into the agent's
configuration. `Standing` is the part of a policy with such refusals: `deny` and `ask` rules, and
`deny_all`. It judges a call by its effect, whether or not the agent asks.

Functions of the host program are policies that only answer requests; they have no standing.

A function passed as `tools=` is code of the program itself, so every agent may call it unless a
rule of the session's policy denies it or wants it asked. Agents differ in whether they ask at all
(Codex and OpenCode do not), and in how they name the tool when they ask. `OwnTools` hides both
differences: it recognises a request about such a tool in each agent's format, and checks the call
itself, which agentrt serves, against the same rules.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Container, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct, structs

from ..agents.agent import Agent, Quirks
from ..model.driver import DecisionRequested
from ..model.events import Modes, PermissionOption
from .policies import (
    NOTHING_IS_ALLOWED,
    OWN_NAME,
    Allow,
    Ask,
    Decision,
    Deny,
    PermissionRequest,
    Policy,
    RulesPolicy,
    allow_all,
    called_tool,
    check_decision,
    check_policy,
    deny_all,
    for_agent,
    given,
    is_plain,
    policy_rules,
    with_catalogue_data,
)


class OwnTools:
    """The tools that a program gives to one session, and the rules about them.

    - `tools`: names of functions.
    - `servers`: names of MCP servers that the program runs itself.
    - `kind_holds`: the kind of a request comes from the agent's program (`Quirks.kinds_hold`).
    """

    _asked: frozenset[str] = frozenset()
    """The tools that the agent has asked about, as `mcp__SERVER__TOOL`."""

    def __init__(
        self,
        tools: Iterable[str] = (),
        servers: Iterable[str] = (),
        *,
        policy: Policy | None = None,
        cwd: str = "/",
        kind_holds: bool = False,
    ) -> None:
        """Name the tools of a session.

        `policy` has the rules about them; `cwd` is the session's folder.
        """
        self._tools = tuple(tools)
        self._servers = tuple(servers)
        self._rules = policy_rules(policy)
        self._cwd = cwd
        self._kind_holds = kind_holds

    def set_tools(self, tools: Iterable[str]) -> None:
        """Replace the names of the functions."""
        self._tools = tuple(tools)

    def decide(self, request: PermissionRequest) -> Decision | None:
        """Decide a request about one of these tools; None if it is about something else."""
        found = self._called(request) if self._tools or self._servers else None
        if found is None:
            return None
        server, tool, _ = found
        self._asked |= {f"mcp__{server}__{tool}"}
        return self._decided(*found)

    def preview(self, request: PermissionRequest) -> Decision | None:
        """Return the decision about a call of one of these tools that the agent has not asked
        about; None if it is about something else."""
        found = self._called(request) if self._tools or self._servers else None
        return None if found is None else self._decided(*found)

    def _called(self, request: PermissionRequest) -> tuple[str, str, Any] | None:
        """Return server, tool and arguments of a request about one of these tools, else None."""
        found = called_tool(structs.replace(request, kind_holds=self._kind_holds))
        if found is None:
            return None
        server, tool, _ = found
        ours = tool in self._tools if server == OWN_NAME else server in self._servers
        return found if ours else None

    def _decided(self, server: str, tool: str, arguments: Any) -> Decision:
        """Return the decision about a call, which is allowed unless a rule is against it."""
        decision = self._judge(server, tool, arguments)
        return Allow(rule="own tool") if decision is None else decision

    def refusal(self, tool: str, arguments: Any, server: str = OWN_NAME) -> str | None:
        """Return the reason why a call that has reached agentrt must not run; None if it may.

        If rules want the call asked and the agent asks about this tool, the call runs: without an
        answer it would not have arrived.
        """
        if self._rules is None:
            return None
        match self._judge(server, tool, arguments):
            case Deny(message=message):
                return message
            case Ask() if f"mcp__{server}__{tool}" not in self._asked:
                return f"A rule requires approval for {tool}, and this agent did not ask."
        return None

    def _judge(self, server: str, tool: str, arguments: Any) -> Deny | Ask | None:
        """Return the decision of the policy's rules about a call; None if none of them applies."""
        rules = self._rules
        return None if rules is None else rules.about_tool(server, tool, arguments, self._cwd)


READING_RULES: Final = frozenset({"Read"})
"""Names of rules for calls that only look."""
HARMLESS_KINDS: Final = frozenset({"read", "search", "think", "switch_mode"})
"""Kinds of calls that change nothing. The agent chooses the kind."""
HARMLESS_COMMANDS: Final = frozenset(
    """ls pwd cat head tail wc grep egrep fgrep stat file which whoami basename dirname realpath
    readlink nl cksum sha256sum true""".split()  # noqa: SIM905
)
"""Programs that only look, with any arguments."""
UNASKED_NAME: Final = re.compile(
    r"bypass|yolo|full.?auto|auto.?(?:edit|approv|accept|run|pilot|nomous|confirm|exec)"
    r"|^auto(?:matic(?:ally)?|.?mode)?$|accept.?edit|full.?access|dangerous|unsafe|^god.?mode$"
    r"|skip.?(?:permission|approval|confirm)|unrestricted|unattended|unsupervised|hands.?free"
    r"|headless|non.?interactive|^(?:turbo|never)$|(?<!un)trusted"
    r"|(?:\bno|never|don.?t|without).?(?:ask|prompt|approval|confirm|permission)"
    r"|always.?(?:allow|approve)|(?:allow|approve|accept|trust).?(?:all|every)",
    re.IGNORECASE,
)
"""Names of modes, and of other settings, that suggest fewer permission requests."""
_ABOUT_ASKING: Final = re.compile(r"mode|approv|permission|confirm|autonom|trust", re.IGNORECASE)
"""Names of options that may decide whether the agent asks."""


class StandingRefusal(Struct, frozen=True):
    """The reason why a call must not happen unasked."""

    decision: Deny | Ask
    rule: str
    certain: bool
    """True if the call cannot have been allowed: a rule matches, or nothing is allowed at all."""


class Standing:
    """The part of a policy that applies whether or not the agent asks.

    - `agent`: the agent that sends the requests; its catalogue entry lists its tools' names.
    - `own_tools`: the program's own tools, which are judged by their own rules.
    """

    def __init__(
        self,
        policy: Policy | None,
        agent: Agent | None = None,
        own_tools: OwnTools | None = None,
    ) -> None:
        """Find the standing part of a policy."""
        self._policy = policy
        self._agent = agent
        self._own_tools = own_tools
        self.refuses: Final[bool] = any(True for _ in _parts(policy, changing=True))
        """True if the policy refuses anything for the life of the session, or may come to do so: a
        policy that may be replaced counts, since an agent is told at its start that it is asked."""

    @property
    def refuses_now(self) -> bool:
        """True if the policy in force refuses anything whatever the agent asks."""
        return any(True for _ in _parts(self._policy))

    @property
    def cancels(self) -> bool:
        """True if a violation cancels the turn."""
        return any(
            isinstance(part, RulesPolicy) and part.on_violation == "cancel"
            for part in _parts(self._policy)
        )

    def doubts(self, own_tools: Collection[str]) -> dict[str, str]:
        """Return warnings about rules that may not mean a tool, by rule. `own_tools`: the names of
        the program's tools."""
        known = {*own_tools, *(self._agent.tools if self._agent is not None else ())}
        return {
            str(rule): rule.doubt
            for part in _parts(self._policy)
            if isinstance(part, RulesPolicy)
            for rule in (*part.deny, *part.ask, *part.allow)
            if rule.doubt and rule.name not in known
        }

    @property
    def deny_rules(self) -> list[str]:
        """The texts of the deny rules, which are also given to the agent."""
        return [
            str(rule)
            for part in _parts(self._policy)
            if isinstance(part, RulesPolicy)
            for rule in part.deny
        ]

    @property
    def binds(self) -> bool:
        """True if agentrt decides before each tool call of the agent, in every mode."""
        return self._agent is not None and self._agent.protocol == "claude"

    def agent_problem(self) -> str | None:
        """Return the reason why the refusals have no effect in any mode of the agent; None if they
        may."""
        if (
            self._agent is None
            or not self.refuses_now
            or "*" not in self._agent.quirks.unasked_modes
        ):
            return None
        return (
            f"{self._agent.name} never asks for permission, so {self._described()} cannot"
            " hold; calls that"
            " they deny are only reported"
        )

    def mode_problem(self, mode: str, label: str = "") -> str | None:
        """Return the reason why the refusals would have no effect in a mode; None if they have.

        `label`: the name of the mode for people, which may be clearer than its id.
        """
        if self._agent is None or self.binds or not self.refuses_now:
            return None
        quirks = self._agent.quirks
        if "*" in quirks.unasked_modes or mode == quirks.mode:
            return None
        if not (is_unasked(mode, self._agent) or is_unasked(label, self._agent)):
            return None
        return (
            f"{self._agent.name} does not ask for permission in its mode {label or mode!r}, so"
            f" {self._described()} would not hold; choose another mode, or open the session"
            " without them"
        )

    def option_problem(
        self, option: str, value: object, label: str = "", name: str = ""
    ) -> str | None:
        """Return the reason why the refusals would have no effect with a value of an option.

        `label`, `name`: the names of the option and of the value for people. An option whose names
        have nothing to do with permission has no such values.
        """
        if value is True:
            return self.mode_problem(option, label)
        if not isinstance(value, str) or not _ABOUT_ASKING.search(f"{option} {label}"):
            return None
        return self.mode_problem(value, name)

    def offered(self, asked: DecisionRequested, modes: Modes) -> list[PermissionOption]:
        """Return the options of a request that may be chosen, each with its effect and scope.

        Options that switch the agent to a mode in which the refusals would have no effect are left
        out.
        """
        known = {choice.id: choice.name for choice in modes.modes} if modes.modes else {}
        quirks = Quirks() if self._agent is None else self._agent.quirks
        found: list[PermissionOption] = []
        for option in asked.options:
            if option.kind.startswith("allow"):
                mode = _mode_of(option.id, asked.tool_kind, known, quirks)
                if mode is not None and self.mode_problem(mode, known.get(mode, "")) is not None:
                    continue
                option = _with_consequences(option, asked.tool_kind, mode, quirks)
            found.append(option)
        return found

    def _described(self) -> str:
        """Describe the refusals, for messages."""
        rules = [str(rule) for part in _parts(self._policy) for rule in getattr(part, "deny", ())]
        return f"the deny rules ({', '.join(rules)})" if rules else "a policy that denies"

    def refusal(self, request: PermissionRequest, *, ran: bool = False) -> StandingRefusal | None:
        """Return the reason why this call must not happen without a question; None if it may.

        `ran`: the call has already run. Then the kind that the agent gave is trusted, since it can
        only make a notice superfluous.
        """
        own = None if self._own_tools is None else self._own_tools.preview(request)
        match own:
            case Deny(rule=rule):
                return StandingRefusal(own, rule, certain=True)
            case Ask(rule=rule):
                return StandingRefusal(own, rule, certain=False)
            case Allow():
                return None
        if self._agent is not None:
            request = with_catalogue_data(request, self._agent)
        return _refusal(self._policy, request, ran=ran)


def is_unasked(mode: str, agent: Agent) -> bool:
    """True for a mode in which an agent acts without asking.

    The name of a mode decides as well as the catalogue: a later version of the agent may have
    others. The mode in which agentrt starts the agent is an exception, since it is known to ask.
    """
    known = {each.casefold() for each in agent.quirks.unasked_modes}
    if mode.casefold() in known or "*" in known:
        return True
    return mode != agent.quirks.mode and UNASKED_NAME.search(mode) is not None


class ChangingPolicy:
    """A policy that can be replaced while sessions use it."""

    def __init__(self, policy: Policy) -> None:
        """Begin with `policy`."""
        self.policy = policy
        """The policy that decides now; it may be replaced."""
        self.__qualname__ = "permissions"

    def __call__(self, request: PermissionRequest) -> Any:
        return self.policy(request)

    @property
    def __wrapped__(self) -> Policy:
        return self.policy


def _parts(policy: Any, *, changing: bool = False) -> Iterator[object]:
    """Yield the policies with standing that a policy consists of, the outermost first.

    `changing`: also yield a policy that may be replaced, since its successor may have standing.
    """
    while policy is not None:
        if isinstance(policy, ChangingPolicy):
            if changing:
                yield policy
            policy = policy.policy
        elif isinstance(policy, RulesPolicy):
            if policy.deny or policy.ask or policy.on_violation == "cancel":
                yield policy
            policy = policy.otherwise
        elif policy is deny_all:
            yield policy
            return
        elif is_plain(policy):
            return
        else:
            policy = _unwrapped(policy)


def _unwrapped(policy: Any) -> Any:
    """Return the policy inside a wrapper, or None. No code of the wrapper is run."""
    return inspect.getattr_static(policy, "__wrapped__", None)


def _refusal(policy: Any, request: PermissionRequest, *, ran: bool) -> StandingRefusal | None:
    """Return the refusal of a policy, looking through its wrappers; None if it has none.

    A policy that is a plain function has no standing: only the agent's question would call it.
    """
    while policy is not None:
        if isinstance(policy, ChangingPolicy):
            policy = policy.policy
        elif isinstance(policy, RulesPolicy):
            return _by_rules(policy, request, ran=ran)
        elif policy is deny_all:
            if is_harmless(request) or (ran and _is_own_tool(request)):
                return None  # agentrt serves its own tools and checks their calls there
            return StandingRefusal(
                Deny(NOTHING_IS_ALLOWED, rule="deny_all"), "deny_all", certain=True
            )
        else:
            policy = _unwrapped(policy)
    return None


def _by_rules(
    policy: RulesPolicy, request: PermissionRequest, *, ran: bool
) -> StandingRefusal | None:
    """Return the refusal that the rules contain for a request; None if they allow it.

    `ran`: the agent has already acted, so its description of the action is trusted as far as it
    names a kind. Deny rules come first, then ask rules, then allow rules, which never cover a
    protected file unless they name it. The refusal is certain only if a deny rule surely matches.
    """
    from .programs import NOTHING, Verdict
    from .protected import names_file, protected_change
    from .request_facts import RequestFacts
    from .rules import covered, worst
    from .words import KINDS

    if ran and request.kind in KINDS:
        request = structs.replace(request, kind_holds=True)
    seen = RequestFacts(request)
    rule, found = worst(policy.deny, seen)
    if found.verdict is Verdict.YES:
        reason = Deny(f"Denied by the rule {rule}.", rule=f"deny {rule}")
        return StandingRefusal(reason, reason.rule, certain=True)
    asking, wanted = worst(policy.ask, seen)
    if ran and request.kind in ("think", "switch_mode") and seen.unknown:
        found = wanted = NOTHING
    if wanted.verdict is not Verdict.NO:
        return StandingRefusal(Ask(rule=f"ask {asking}"), f"ask {asking}", certain=False)
    if found.verdict <= Verdict.HIDDEN and covered(policy.allow, seen):
        entry = protected_change(seen)
        if entry is None or names_file(policy.allow, entry):
            return None
    if found.verdict is not Verdict.NO:
        return _possibly_denied(policy, f"{rule}", found.why)
    inner = _refusal(policy.otherwise, request, ran=ran)
    if inner is not None and policy.allow:
        return StandingRefusal(inner.decision, inner.rule, certain=False)
    return inner


def _possibly_denied(policy: RulesPolicy, rule: str, why: str) -> StandingRefusal:
    """Refuse a call to which a deny rule may apply: ask if anyone can answer, otherwise deny."""
    denied = f"deny {rule}"
    if policy.attended or policy.otherwise not in (allow_all, deny_all):
        return StandingRefusal(Ask(rule=denied), denied, certain=False)
    reason = f"Denied because the rule {rule} may apply: {why}."
    return StandingRefusal(Deny(reason, rule=denied), denied, certain=False)


def is_harmless(request: PermissionRequest) -> bool:
    """True for a call that only looks, plans or delegates, as far as the agent's program shows."""
    from .request_facts import RequestFacts
    from .rules import PermissionRule, covered
    from .words import PLANNING_TOOLS, meant_by, perhaps_meant_by

    seen = RequestFacts(request)
    if request.changes:
        return False
    if seen.has_command or request.shown_command is not None:
        rules = [PermissionRule(f"Bash({program}:*)") for program in HARMLESS_COMMANDS]
        return covered(rules, seen)
    if request.tool:
        if request.tool.casefold() in PLANNING_TOOLS:
            return True
        known = meant_by(request.tool, request.tools) - {request.tool}
        known |= perhaps_meant_by(request.tool, "")
        if known:
            return known <= READING_RULES
    return request.kind in HARMLESS_KINDS


def _is_own_tool(request: PermissionRequest) -> bool:
    """True for a call of the program's own tools, by the naming of any agent."""
    if request.changes or request.kind in ("execute", "edit", "delete", "move", "fetch"):
        return False
    name = request.tool or request.title
    parts = name.replace("(", "_").replace(" ", "_").replace(".", "_").split("_")
    return OWN_NAME in parts


_BASH: Final = re.compile(r"Bash\((?P<words>[\w./ :=@+-]+?)(?P<more>(?::| )\*)?\)", re.ASCII)
_PATHS: Final = re.compile(r"(?P<name>Edit|Read)\((?P<path>[\w./~*@+-]+)\)", re.ASCII)
_MCP: Final = re.compile(r"(?P<server>mcp__[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*)__(?P<tool>[\w.-]+|\*)")
_TOOLS: Final = {
    "Bash": ("Bash",),
    "Edit": ("Edit", "MultiEdit", "Write", "NotebookEdit"),
    "Write": ("Write",),
    "Fetch": ("WebFetch",),
    "Read": ("Read",),
}


def as_claude_rules(rules: Iterable[str], *, whole_tools: bool) -> list[str]:
    """Translate the rules that Claude Code also has into its notation.

    `whole_tools`: also translate rules that name only a tool. Claude Code hides such a tool from
    the model.
    """
    found: list[str] = []
    for rule in rules:
        if bash := _BASH.fullmatch(rule):
            found.append(f"Bash({bash['words']}:*)" if bash["more"] else rule)
        elif paths := _PATHS.fullmatch(rule):
            absolute = "/" if paths["path"].startswith("/") else ""
            found.append(f"{paths['name']}({absolute}{paths['path']})")
        elif mcp := _MCP.fullmatch(rule):
            if mcp["tool"] != "*":
                found.append(rule)
            elif whole_tools:
                found.append(mcp["server"])
        elif whole_tools:
            found += _TOOLS.get(rule, ())
    return found


async def decide(
    policy: Policy, request: PermissionRequest, *, agent: Agent, own_tool: str | None = None
) -> Decision:
    """Return the decision of a policy about a request, as in a session of this agent.

    `own_tool`: the request is a call of the program's own tool with this name, which is allowed
    unless a rule denies it. An exception of the policy is raised. Cancelling this cancels the
    policy.
    """
    check_policy(policy)
    own = OwnTools() if own_tool is None else OwnTools([own_tool], policy=policy)
    if own_tool is not None:
        request = structs.replace(request, tool=f"mcp__{OWN_NAME}__{own_tool}")
    if (decided := own.decide(request)) is not None:
        return decided
    decision = given(policy, for_agent(policy, agent)(request))
    if not isinstance(decision, Decision):
        decision = await decision
    return check_decision(policy, decision)


def _mode_of(
    option: str, tool_kind: str | None, modes: Container[str], quirks: Quirks
) -> str | None:
    """Return the mode to which an option switches the agent, or None."""
    switches = quirks.option_modes
    mode = (switches.get(f"{tool_kind}:{option}") or switches.get(option)) if switches else None
    if mode is None and (option in modes or option in quirks.unasked_modes):
        return option
    return mode


def _with_consequences(
    option: PermissionOption, tool_kind: str | None, mode: str | None, quirks: Quirks
) -> PermissionOption:
    """Add to an option its effect, if it switches the mode, and its scope, if it is known."""
    scopes = quirks.option_scopes
    scope = (scopes.get(f"{tool_kind}:{option.id}") or scopes.get(option.id)) if scopes else None
    if mode is None and not scope:
        return option
    return structs.replace(
        option,
        effect=option.effect if mode is None else option.effect or "mode",
        name=f"{option.name} ({scope})" if scope else option.name,
    )
