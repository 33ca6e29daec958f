"""The slash commands of an interactive session.

Each command is an async function of the `Repl` and the text after the command's name. It shows its
result with `say`, or offers choices with `choose`, and reports wrong arguments by raising
`UsageError`. It runs as a task, so it may wait for the agent; commands that replace the session end
with `leave(next=…)`, and the main loop then opens the next one.

Sessions of a server replace some of these commands (`ServerSource`), because the rules and the
store are the server's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Final, get_args

from msgspec import structs

from ..._public import Session
from ...agents import ProviderSetting, find_agents, resolve_agent
from ...config import PermissionMode, PermissionSettings
from ...events import Choice
from ...events import Command as AgentCommand
from ...hosting import SessionControl
from ..exit_status import UsageError
from ..printing import limit_text
from ..session_view import ProvidersView, text_of
from ..text import one_line
from .conversation import Repl, SlashCommand
from .earlier_sessions import resume, show_sessions
from .inspecting import debug, export, tasks
from .reviewing import copy_answer, diff, edit_prompt, fork_ends, search, send_output, turns

_MODES: Final = {
    "ask": "other requests are asked",
    "deny": "other requests are denied",
    "allow-all": "other requests are allowed",
}


async def permissions(repl: Repl, argument: str) -> None:
    """Run `/permissions [ask | deny | allow-all | allow RULE | deny RULE | forget RULE]`."""
    now = repl.setup.config.permissions
    word, _, rule = argument.partition(" ")
    rule = rule.strip()
    if rule and word in ("allow", "deny", "forget"):
        _permit(repl, _changed(now, word, rule))
    elif argument in get_args(PermissionMode):
        _permit(repl, structs.replace(now, mode=argument))
    elif argument:
        raise UsageError(
            "/permissions takes ask, deny, allow-all, allow RULE, deny RULE, forget RULE"
        )
    now = repl.setup.config.permissions
    mode = now.mode or "ask"
    repl.say(f"{mode}: {_MODES[mode]}")
    for word, rules in (("allow", now.allow), ("deny", now.deny)):
        for each in rules:
            repl.say(f"  {word.ljust(5)}  {one_line(each)}")


def _changed(now: PermissionSettings, word: str, rule: str) -> PermissionSettings:
    """Return the rules after `allow RULE`, `deny RULE` or `forget RULE`.

    Raises `UsageError` for a rule to forget that does not exist.
    """
    if word == "allow":
        return structs.replace(now, allow=(*now.allow, rule))
    if word == "deny":
        return structs.replace(now, deny=(*now.deny, rule))
    if rule not in (*now.allow, *now.deny):
        raise UsageError(f"no such rule: {rule!r}")
    return structs.replace(
        now,
        allow=tuple(each for each in now.allow if each != rule),
        deny=tuple(each for each in now.deny if each != rule),
    )


def _permit(repl: Repl, permissions: PermissionSettings) -> None:
    """Use changed rules for the open session and the sessions after it."""
    config = structs.replace(repl.setup.config, permissions=permissions)
    repl.permit(structs.replace(repl.setup, config=config))


async def _help(repl: Repl, argument: str) -> None:
    """Show the keys, the commands, and the agent's own commands."""
    ours = [(f"/{c.name} {c.hint}".rstrip(), c.description) for c in repl.commands.values()]
    lines = ["Keys:", *_columns(repl.keys)]
    lines += ["Commands (//TEXT sends the prompt /TEXT):", *_columns(ours)]
    commands = repl.view.commands
    if commands:
        lines.append("Commands of the agent (with // where the name is also one of the above):")
        lines += _columns(
            [
                (f"{_name(repl, c)} {one_line(c.hint or '')}", one_line(c.description))
                for c in commands
            ]
        )
    repl.say_long(lines)


def agent_commands(repl: Repl) -> list[tuple[str, str]]:
    """Return the agent's commands, each as it is typed and with its description."""
    return [(_name(repl, c), c.description) for c in repl.view.commands]


def _name(repl: Repl, command: AgentCommand) -> str:
    """Return a command of the agent as it is typed."""
    slash = "//" if command.name in repl.commands else "/"
    return slash + one_line(command.name)


async def _quit(repl: Repl, argument: str) -> None:
    repl.leave()


async def _agent(repl: Repl, argument: str) -> None:
    """List the installed agents, or start a new session with another one."""
    config = repl.setup.config
    if argument:
        repl.leave(next=repl.setup.changed(resolve_agent(argument, config)))
        return
    repl.choose(
        "/agent",
        [(each.agent.name, each.agent.title) for each in find_agents(config) if each.available],
        repl.setup.agent.name,
    )


async def _new(repl: Repl, argument: str) -> None:
    """Start a new session with the same agent."""
    repl.leave(next=repl.setup.changed(repl.setup.agent))


async def _mode(repl: Repl, argument: str) -> None:
    """List the agent's modes, or switch to one. The change is shown when the agent reports it."""
    session = repl.session
    if session is None:
        return
    if argument:
        await session.set_mode(argument)
        return
    modes = session.modes
    _choices(repl, "mode", modes.modes if modes else [], modes.mode if modes else None)


async def _model(repl: Repl, argument: str) -> None:
    """List the agent's models, or switch to one."""
    session = repl.session
    if session is None:
        return
    if argument:
        await session.set_model(argument)
        repl.say(f"model: {one_line(argument)}")
        return
    modes = session.modes
    _choices(repl, "model", modes.models if modes else [], modes.model if modes else None)


async def _rename(repl: Repl, argument: str) -> None:
    """Show the session's title, or set it."""
    session = repl.session
    if session is None:
        return
    if argument:
        session.rename(argument)
        repl.say(f"title: {one_line(argument)}")
    else:
        repl.say(f"title: {one_line(session.title or 'none')}")


async def _providers(repl: Repl, argument: str) -> None:
    """List the services of the agent's model, set one, or return to the agent's own.

    Headers are named with the variables that contain their values, so that no key is typed.
    """
    session = repl.session
    if session is None:
        return
    if not isinstance(session, ProvidersView):
        raise UsageError("the providers of a server's session are set by the server's program")
    words = argument.split()
    if words[:1] == ["off"] and len(words) == 2:
        await session.set_provider(ProviderSetting(id=words[1]))
    elif len(words) >= 3:
        await session.set_provider(_provider(*words))
    elif words:
        raise UsageError("use /providers ID API URL [HEADER=VARIABLE …], or /providers off ID")
    for each in await session.list_providers():
        now = f"{each.api_type} at {each.base_url}" if each.api_type else "off"
        apis = ", ".join(each.api_types)
        repl.say(one_line(f"{each.id}: {now}; APIs: {apis or 'unknown'}"))


def _provider(id: str, api_type: str, base_url: str, *headers: str) -> ProviderSetting:
    """Return a setting with headers from variables. Raises `UsageError` for a missing one."""
    values = {}
    for header in headers:
        name, _, variable = header.partition("=")
        if variable not in os.environ:
            raise UsageError(f"write {name}=VARIABLE, with an existing environment variable")
        values[name] = os.environ[variable]
    return ProviderSetting(id=id, api_type=api_type, base_url=base_url, headers=values)


def _choices(repl: Repl, what: str, choices: list[Choice], current: str | None) -> None:
    """Offer the choices in a menu, or report that the agent has none."""
    if choices:
        rows = [(one_line(c.id), one_line(c.description or c.name)) for c in choices]
        repl.choose(f"/{what}", rows, current)
    else:
        repl.say(f"The agent has no {what} to choose.")


async def _queue(repl: Repl, argument: str) -> None:
    """Carry out `/queue`: list the waiting prompts, or remove one or all of them.

    Raises `UsageError` for other words, or a number that is not in the list.
    """
    word, _, number = argument.partition(" ")
    session = repl.session
    entries = list(session.queue) if session is not None else []
    if session is not None and word == "clear":
        for entry in entries:
            session.queue.remove(entry.id)
    elif session is not None and word == "drop" and number.isdecimal():
        if not 0 < int(number) <= len(entries):
            raise UsageError(f"no queued prompt {number}")
        session.queue.remove(entries[int(number) - 1].id)
    elif word:
        raise UsageError(
            "/queue shows the waiting prompts; /queue drop N, /queue clear remove some"
        )
    entries = list(session.queue) if session is not None else []
    for place, entry in enumerate(entries, 1):
        mark = "  (paused)" if entry.paused else ""
        repl.say(f"{place}  {one_line(text_of(entry.content))}{mark}")
    if repl.paused:
        repl.say(f"{repl.paused} paused; press Enter to resume.")
    if not entries:
        repl.say("No queued prompts.")


async def _cost(repl: Repl, argument: str) -> None:
    """Show the usage that the agent has reported; agents report different parts of it."""
    usage = repl.view.usage
    if usage is None:
        repl.say("The agent has not reported any usage.")
        return
    if usage.used is not None:
        size = f" of {usage.size:,}" if usage.size is not None else ""
        repl.say(f"context  {usage.used:,}{size} tokens")
    if usage.total_tokens is not None:
        repl.say(f"tokens   {usage.total_tokens:,}")
    if usage.cost is not None:
        repl.say(f"cost     {usage.cost:.4f} {one_line(usage.currency or 'USD')}")
    turn = repl.view.turn_usage
    if turn is not None and turn.api_s is not None:
        repl.say(f"API time {turn.api_s:.1f} s in the last turn")
    if turn is not None and turn.first_token_s is not None:
        repl.say(f"answered after {turn.first_token_s:.1f} s in the last turn")
    for limit in usage.limits or ():
        repl.say(f"limit    {limit_text(limit)}")


async def _budget(repl: Repl, argument: str) -> None:
    """Show the spent part of the budget."""
    own = repl.setup.budget
    spent = repl.view.budget or (str(own.status()) if own is not None else "")
    repl.say(one_line(spent, 1000) or "No budget (see --budget).")


async def _session(repl: Repl, argument: str) -> None:
    """Show the agent, the id for `--resume`, and the folder."""
    session = repl.session
    if session is not None:
        repl.say(f"agent    {one_line(session.agent.name)} {one_line(session.agent.version or '')}")
        repl.say(f"session  {one_line(session.agent_session or '')} (for agentrt --resume)")
        repl.say(f"folder   {repl.setup.cwd}")


async def _share(repl: Repl, argument: str) -> None:
    """Print a new link to the session, also as a QR code for a phone."""
    if repl.source.share is None:
        raise UsageError("this session is not shared; start `agentrt --serve` to share it")
    from .sharing import qr_code, reaches_other_machines

    link = repl.source.share.link()
    for line in qr_code(link):
        repl.say(line)
    repl.say(f"Open once, in one browser: {link}")
    if not reaches_other_machines(link):
        repl.say(
            "Only browsers on this machine can open it; [serve] host in the settings changes that."
        )


async def _steer(repl: Repl, argument: str) -> None:
    """Send text into the running turn. Raises an error if the agent cannot take it then."""
    if not argument:
        raise UsageError("/steer needs the text to send into the running turn")
    if repl.session is not None:
        repl.session.steer(repl.prompt_of(argument))


async def _fork(repl: Repl, argument: str) -> None:
    """Continue in a copy of the session, without the last N turns.

    Without N, the possible ends are offered if there are several and the agent can fork at a turn.
    Raises `UsageError` while the agent works.
    """
    session = repl.session
    if session is None:
        return
    if repl.busy:
        raise UsageError("the agent is working; stop it first")
    ends = fork_ends(session.snapshot())
    if not argument and len(ends) > 1 and session.capabilities.get("fork_at") is not False:
        kept = [f"up to: {one_line(words, 60)}" for _, words in ends[1:]]
        repl.choose("/fork", [(str(n), words) for n, words in enumerate(["all of it", *kept])])
        return
    left = int(argument) if argument.isdecimal() else 0
    if argument and (not argument.isdecimal() or left >= len(ends)):
        raise UsageError(f"/fork takes the number of last turns to leave out: 0 to {len(ends) - 1}")
    at = ends[left][0] if left else None
    repl.leave(next=await repl.source.fork(session, repl.setup, at))


async def _undo(repl: Repl, argument: str) -> None:
    """Restore the files from before the last N turns.

    The agent does not notice that: it remembers the turns, so a fork without them is suggested.
    """
    session = repl.session
    if session is None:
        return
    if repl.busy:
        raise UsageError("the agent is working; stop it first")
    count = turns("/undo", argument)
    restored = await session.checkpoints.undo(count)
    for path in restored.kept:
        repl.say(f"not changed, because it was not saved: {one_line(path)}")
    if session.capabilities.get("fork_at") is not False:
        repl.say(f"The agent still remembers this; /fork {count} continues in a copy without it.")


async def _sandbox(repl: Repl, argument: str) -> None:
    """Show the sandbox with the permissions given in this session, or take one of them back."""
    if not repl.view.sandbox:
        repl.say("no sandbox: the agent's commands run with its privileges (start with --sandbox)")
        return
    word, _, target = argument.partition(" ")
    if word == "revoke" and target.strip():
        await _revoke(repl, target.strip())
    elif argument:
        raise UsageError("use /sandbox, or /sandbox revoke TARGET to take a permission back")
    else:
        repl.say(f"sandbox: {one_line(repl.view.sandbox)}")
        for tool, each in repl.view.granted:
            repl.say(f"  allowed  {one_line(tool)}  {one_line(each)}")


async def _revoke(repl: Repl, target: str) -> None:
    """Take a permission of the sandbox back. Raises `UsageError` without a sandbox."""
    session = repl.session
    sandbox = None if session is None else session.sandbox
    if sandbox is None:
        raise UsageError("the session has no sandbox")
    control = SessionControl(session) if isinstance(session, Session) else None
    with nullcontext() if control is None else control.acting("revoke", target=target):
        await sandbox.revoke(target)
    repl.say(f"no longer allowed: {one_line(target)}")


async def _retell(repl: Repl, argument: str) -> None:
    """Repeat the conversation to an agent that has lost it."""
    if repl.session is not None:
        repl.session.send_history()


def _columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return rows of names and descriptions with the names padded to equal width."""
    width = max(len(name) for name, _ in rows)
    return [f"  {name.ljust(width)}  {description}" for name, description in rows]


COMMANDS: Final = {
    command.name: command
    for command in (
        SlashCommand("help", "show this help", _help),
        SlashCommand("agent", "list the installed agents, or switch to one", _agent, "[NAME]"),
        SlashCommand("new", "start a new session with the same agent", _new),
        SlashCommand("mode", "list the agent's modes, or switch to one", _mode, "[ID]"),
        SlashCommand("model", "list the agent's models, or switch to one", _model, "[ID]"),
        SlashCommand(
            "providers",
            "list the services of the agent's model, or set one",
            _providers,
            "[ID API URL]",
        ),
        SlashCommand("rename", "show the session's title, or set it", _rename, "[TITLE]"),
        SlashCommand(
            "steer", "send text into the running turn, if the agent supports it", _steer, "TEXT"
        ),
        SlashCommand("queue", "list queued prompts, or remove some", _queue, "[drop N | clear]"),
        SlashCommand("cost", "show tokens, cost and limits", _cost),
        SlashCommand("budget", "show the used part of the budget", _budget),
        SlashCommand("session", "show the session id, for --resume", _session),
        SlashCommand("sessions", "list earlier sessions in this folder", show_sessions),
        SlashCommand("resume", "resume an earlier session", resume, "[N | ID]"),
        SlashCommand("fork", "continue in a copy, without the last N turns", _fork, "[N]"),
        SlashCommand("undo", "restore the files from before the last N turns", _undo, "[N]"),
        SlashCommand("diff", "show the file changes, or those of the last N turns", diff, "[N]"),
        SlashCommand("search", "find a text in the conversation", search, "TEXT"),
        SlashCommand("copy", "copy the last answer, or its code", copy_answer, "[N | code]"),
        SlashCommand("edit", "change an earlier prompt, in a copy", edit_prompt, "[N]"),
        SlashCommand("send", "send the output of your last !command", send_output, "[TEXT]"),
        SlashCommand("retell", "repeat the conversation to an agent that has lost it", _retell),
        SlashCommand("tasks", "list background tasks, or stop one", tasks, "[stop N]"),
        SlashCommand("permissions", "show or change the permission rules", permissions, "[RULE …]"),
        SlashCommand(
            "sandbox", "show the sandbox, or revoke a permission", _sandbox, "[revoke TARGET]"
        ),
        SlashCommand("export", "write the conversation to a file", export, "[FILE]"),
        SlashCommand(
            "debug", "show internals, or the last N protocol messages", debug, "[wire [N]]"
        ),
        SlashCommand("share", "print a link for a browser (with --serve)", _share),
        SlashCommand("quit", "leave (so does Ctrl-D)", _quit),
    )
}
