"""The program's own tools: recognising requests about them and applying rules to calls.

A function passed as `tools=` is code of the program itself, so every agent may call it unless a
rule of the session's policy denies it or wants it asked. Agents differ in whether they ask at all
(Codex and OpenCode do not), and in how they name the tool when they ask. This module hides both
differences: it recognises a request about such a tool in each agent's format, and checks the call
itself, which agentrt serves, against the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from .mcp_calls import OWN_NAME, called_tool
from .policies import Allow, Ask, Decision, Deny, PermissionRequest, Policy, policy_rules


class OwnTools:
    """The tools that a program gives to one session, and the rules about them.

    - `tools`: names of functions.
    - `servers`: names of MCP servers that the program runs itself.
    - `kind_holds`: the kind of a request comes from the agent's program (`Quirks.kinds_hold`).
    """

    def __init__(
        self,
        tools: Iterable[str] = (),
        servers: Iterable[str] = (),
        *,
        policy: Policy | None = None,
        cwd: str = "/",
        kind_holds: bool = False,
    ) -> None:
        self._tools = frozenset(tools)
        self._servers = frozenset(servers)
        self._policy = policy
        self._cwd = cwd
        self._kind_holds = kind_holds
        self._asked: set[str] = set()

    def set_tools(self, tools: Iterable[str]) -> None:
        """Replace the names of the functions."""
        self._tools = frozenset(tools)

    def decide(self, request: PermissionRequest) -> Decision | None:
        """Decide a request about one of these tools; None if it is about something else."""
        found = self._called(request)
        if found is None:
            return None
        server, tool, _ = found
        self._asked.add(f"mcp__{server}__{tool}")
        return self._decided(*found)

    def preview(self, request: PermissionRequest) -> Decision | None:
        """Return the decision about a call of one of these tools that the agent has not asked
        about; None if it is about something else."""
        found = self._called(request)
        return None if found is None else self._decided(*found)

    def _called(self, request: PermissionRequest) -> tuple[str, str, Any] | None:
        found = called_tool(structs.replace(request, kind_holds=self._kind_holds))
        if found is None:
            return None
        server, tool, _ = found
        ours = tool in self._tools if server == OWN_NAME else server in self._servers
        return found if ours else None

    def _decided(self, server: str, tool: str, arguments: Any) -> Decision:
        decision = self._judge(server, tool, arguments)
        return Allow(rule="own tool") if decision is None else decision

    def refusal(self, tool: str, arguments: Any, server: str = OWN_NAME) -> str | None:
        """Return the reason why a call that has reached agentrt must not run; None if it may.

        If rules want the call asked and the agent asks about this tool, the call runs: without an
        answer it would not have arrived.
        """
        decision = self._judge(server, tool, arguments)
        match decision:
            case Deny(message=message):
                return message
            case Ask() if f"mcp__{server}__{tool}" not in self._asked:
                return f"A rule wants {tool} to be asked about, and this agent did not ask."
        return None

    def _judge(self, server: str, tool: str, arguments: Any) -> Deny | Ask | None:
        rules = policy_rules(self._policy)
        return None if rules is None else rules.about_tool(server, tool, arguments, self._cwd)
