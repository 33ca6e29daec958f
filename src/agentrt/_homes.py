"""The names of `import agentrt` and where they are defined.

`import agentrt` must be cheap, so a name is imported when it is used first: `agentrt.__getattr__`
looks it up here. `_public` has the same names as ordinary imports, for type checkers and for
modules of agentrt, and a test compares the two.
"""

HOMES = {
    # conversations
    "open_session": "_core.runtime.open",
    "query": "_core.runtime.query",
    "Query": "_core.runtime.query",
    "Session": "_core.session.session",
    "SessionQueue": "_core.session.session",
    "Turn": "_core.session.turn",
    "TurnResult": "_core.model.result",
    "Prompt": "_core.model.content",
    "When": "_core.session.core",
    "SessionOptions": "_core.runtime.options",
    "Limits": "_core.limits",
    # many sessions
    "open_runtime": "_core.runtime.runtime",
    "Runtime": "_core.runtime.runtime",
    "SessionInfo": "_core.runtime.registry",
    "budget": "_core.session.budget",
    # agents
    "Agent": "_core.agents",
    "find_agents": "_core.agents",
    # tools and hooks
    "tool": "_core.tools.tools",
    "Tool": "_core.tools.tools",
    "ToolContext": "_core.tools.tools",
    "ToolError": "_core.errors",
    "hook": "_core.tools.extensions",
    # permission policies
    "rules": "_core.permissions.policies",
    "allow_all": "_core.permissions.policies",
    "deny_all": "_core.permissions.policies",
    "ask": "_core.permissions.policies",
    "Policy": "_core.permissions.policies",
    "PermissionRequest": "_core.permissions.policies",
    "Allow": "_core.permissions.policies",
    "Deny": "_core.permissions.policies",
    # common events and content
    "Event": "_core.model.events",
    "TurnStarted": "_core.model.events",
    "TurnEnded": "_core.model.events",
    "ItemOpened": "_core.model.events",
    "ItemUpdated": "_core.model.events",
    "ItemClosed": "_core.model.events",
    "TextDelta": "_core.model.events",
    "ThoughtDelta": "_core.model.events",
    "ToolCall": "_core.model.events",
    "PermissionOpened": "_core.model.events",
    "Notice": "_core.model.events",
    "Image": "_core.model.content",
    # common errors
    "AgentrtError": "_core.errors",
    "AgentStartError": "_core.errors",
    "LocalProtocolError": "_core.errors",
    "Busy": "_core.errors",
    "SessionClosed": "_core.errors",
    "TurnFailed": "_core.model.result",
}
"""The names of this module, by purpose, and the modules that define them."""
