"""The command line: maps parsed arguments to the coroutine to run.

Everything except the parser is imported on demand, to keep `--version` and `--help` fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from .._agents import Agent
    from .._config import Config
    from .._errors import AgentrtError
    from .._model.content import JsonObject
    from .commands.conformance import Request
    from .commands.one_shot import Asked
    from .repl.export import ExportFormat
    from .setup import Setup

Work = Callable[[], Awaitable[int]]

_OF_A_CONVERSATION = {
    "prompt": "-p",
    "output_format": "--output-format",
    "last_message": "--last-message",
    "json_schema": "--json-schema",
    "max_turns": "--max-turns",
    "fail_on_denied": "--fail-on-denied",
    "continue_": "--continue",
    "serve": "--serve",
    "system": "--system",
    "append_system": "--append-system",
}
"""Options for conversations, which other commands reject."""
_TOKENS = ("token", "viewer_token", "metrics_token")
_WITHOUT_AN_AGENT = frozenset(
    {"agents", "nodes", "rules", "trace", "replay", "config", "completion"}
)
_OF_A_PROMPT = ("prompt", "output_format", "last_message", "fail_on_denied")
"""Options for a single prompt, which `attach` also accepts."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        _handle_interrupts()
        _fill_standard_streams()
        try:
            options = _parsed(sys.argv[1:] if arguments is None else arguments)
            status = 2 if options is None else _run(options)
        except SystemExit as done:  # raised by argparse after `--help` or `--version`
            status = done.code if isinstance(done.code, int) else 1
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from .output import forget_stdout

        forget_stdout()
        return 141
    return status


def _handle_interrupts() -> None:
    """Let Ctrl-C raise `KeyboardInterrupt` from now on; until then `__main__` lets it end the
    process.
    """
    import signal

    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _parsed(arguments: Sequence[str]) -> argparse.Namespace | None:
    """Parse the arguments. Returns None if an error was printed."""
    from .arguments import WrongArguments, make_parser, parse

    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:
        from .commands.completion import complete

        complete(parser)
    try:
        return parse(parser, arguments)
    except WrongArguments as error:
        _print_wrong_arguments(arguments, error, error.program)
        return None


def _print_wrong_arguments(arguments: Sequence[str], error: Exception, program: str) -> None:
    """Print an error of the parser, also to standard output if JSON was requested there."""
    from .arguments import one_shot_format
    from .commands.formats import failure
    from .text import escaped, plain

    message = plain(str(error))
    print(f"agentrt: {message}\nagentrt: see `{program} --help`", file=sys.stderr)
    if (format := one_shot_format(arguments)) is not None:
        from .._model.events import ErrorInfo

        line = failure(format, ErrorInfo("usage", message), agent=None)
        sys.stdout.write(escaped(line.decode()))


def _fill_standard_streams() -> None:
    """Open the null device for each closed standard stream, so that no other file gets its
    number.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


def _run(options: argparse.Namespace) -> int:
    from .._errors import AgentrtError
    from .setup import exit_code
    from .text import plain

    try:
        work = _work(options)
    except AgentrtError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        if options.subcommand in (None, "attach") and options.output_format is not None:
            _print_failure(options, error)
        return exit_code(error)
    import trio

    return trio.run(work)


def _warn(warning: str) -> None:
    from .output import terminal_size
    from .text import plain, wrapped

    text = f"agentrt: warning: {plain(warning)}"
    print(wrapped(text, terminal_size(2)[0]) if os.isatty(2) else text, file=sys.stderr)


def _print_failure(options: argparse.Namespace, error: AgentrtError) -> None:
    """Also report on standard output, in the requested format, why nothing was started."""
    from .commands.formats import error_of, failure
    from .text import escaped

    line = failure(options.output_format, error_of(error), agent=options.agent)
    sys.stdout.write(escaped(line.decode()))


def _work(options: argparse.Namespace) -> Work:
    """Map parsed arguments to the coroutine to run. Raises `AgentrtError`."""
    import logging
    from functools import partial

    from .._config import load_config
    from .setup import UsageError
    from .signals import until_signalled

    if options.subcommand == "record":
        _recorded(options)
    if options.command is not None and options.agent is not None:
        raise UsageError("--agent and --command exclude each other")
    known = options.command is not None or options.subcommand == "conformance"
    if options.protocol is not None and not known:
        raise UsageError("--protocol says what --command speaks, and there is no --command")
    for name, flag in _OF_A_CONVERSATION.items():
        has_it = options.subcommand is None or (
            options.subcommand == "attach" and name in _OF_A_PROMPT
        )
        if not has_it and getattr(options, name) is not None:
            raise UsageError(f"{flag} has no meaning for `agentrt {options.subcommand}`")
    if options.trace is not None and options.subcommand in _WITHOUT_AN_AGENT:
        raise UsageError(
            f"--trace has no meaning for `agentrt {options.subcommand}`, which runs no agent"
        )
    _check_folder(options)
    config = load_config(options.cwd, flags=_flags(options))
    _check_store(getattr(options, "store", None))
    _check_tokens(options, config)
    if options.subcommand != "config":  # it shows the warnings itself
        for warning in config.warnings:
            _warn(warning)
    logging.getLogger("agentrt").addHandler(logging.NullHandler())  # no output unless requested
    level = config.log.level or ("error" if options.subcommand == "serve" else None)
    if level is not None:
        from .logs import start_logging

        start_logging(level, config.log.format)
    match options.subcommand:
        case None:
            return _conversation(options, config)
        case "serve":
            return partial(until_signalled, _serve(options, config))
        case "attach":
            return _attach(options, config)
        case "acp":
            work: Work = _acp(options, config)
        case "agents":
            from .commands.agents import list_agents

            work = partial(list_agents, config, as_json=options.json)
        case "doctor":
            from .commands.doctor import examine, installed
            from .stores import store_files

            chosen = _chosen(options, config)
            if options.project is not None:
                return _project_examination(chosen or installed(config), options)
            work = partial(
                examine,
                chosen or installed(config),
                config,
                as_json=options.json,
                timeout=_bound(options),
                stores=None if chosen else store_files(options.store, config),
            )
        case "sessions":
            work = _sessions(options, config)
        case "nodes":
            work = _nodes(options, config)
        case "rules":
            from .._agents import find_agents
            from .commands.rules import check_rule

            found = {each.agent.name: each.agent for each in find_agents(config)}
            work = check_rule(
                options.rule, options.call, found, cwd=options.cwd, as_json=options.json
            )
        case "trace":
            from .commands.trace import Filter, show_trace

            filter = Filter(
                session=options.session, odd=options.odd, text=options.grep, whole=options.whole
            )
            late, follow = options.late, options.follow
            work = partial(show_trace, options.file, filter, late=late, follow=follow)
        case "replay" if options.page:
            from .commands.replay import replay_on_page

            work = partial(
                replay_on_page,
                options.file,
                session=options.session,
                speed=options.speed,
                port=options.port,
            )
        case "replay":
            from .commands.trace import Filter, replay_trace

            filter = Filter(session=options.session)
            work = partial(replay_trace, options.file, filter, speed=options.speed)
        case "conformance":
            from .commands.conformance import check_agent

            work = partial(check_agent, *_conforming(options, config))
        case "config":
            from .commands.config import show_config

            work = partial(show_config, config, as_json=options.json)
        case _:
            from .commands.completion import print_script

            work = partial(print_script, options.shell)
    return partial(until_signalled, work)


def _check_folder(options: argparse.Namespace) -> None:
    """Check `--cwd`. Raises `UsageError`."""
    from .._runtime.folders import NO_CURRENT_FOLDER, not_utf8
    from .setup import UsageError

    if not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd: there is no folder {options.cwd!r}")
    try:
        os.getcwd()
    except FileNotFoundError:
        if not os.path.isabs(options.cwd):
            raise UsageError(f"{NO_CURRENT_FOLDER} with --cwd DIR") from None
        os.chdir(options.cwd)  # so that other relative paths have an existing folder, too
    works_there = options.subcommand in (None, "serve", "attach", "acp", "sessions")
    if works_there and (why := not_utf8(os.path.abspath(options.cwd))):
        raise UsageError(why)


def _recorded(options: argparse.Namespace) -> None:
    """Turn `record FILE -- COMMAND` into a conversation with that agent and `--trace FILE`."""
    import shlex

    from .setup import UsageError

    if options.command is not None or options.agent is not None or options.trace is not None:
        raise UsageError("record says the agent and the trace: no --agent, --command or --trace")
    options.command, options.trace = shlex.join(options.words), options.file
    options.subcommand = None


def _conforming(options: argparse.Namespace, config: Config) -> tuple[Agent, Request]:
    """Return the agent to check and the request for the check."""
    import shlex
    import shutil

    from .._agents.find import is_known
    from .commands.conformance import make_request
    from .setup import UsageError, choose_agent

    if options.command is not None or options.agent is not None:
        raise UsageError("conformance says the agent itself: no --agent or --command")
    words: list[str] = options.words
    text = words[0] if len(words) == 1 else shlex.join(words)
    is_command = len(words) > 1 or any(each in text for each in " /")
    is_command = is_command or (not is_known(text, config) and shutil.which(text) is not None)
    if options.protocol is not None and not is_command:
        raise UsageError("--protocol says what a command speaks, and a known agent's is known")
    name, command = (None, text) if is_command else (text, None)
    agent, _ = choose_agent(config, name, command, options.protocol)
    return agent, make_request(options, agent, config)


def _check_tokens(options: argparse.Namespace, config: Config) -> None:
    """Warn about tokens that other users of the machine can read."""
    import stat

    flags = [f"--{name.replace('_', '-')}" for name in _TOKENS if getattr(options, name, None)]
    for flag in flags:
        name = f"AGENTRT_SERVE_{flag[2:].replace('-', '_').upper()}"
        _warn(f"others on this machine can read {flag} on the command line: use {name} instead")
    for path in config.files:
        holds = any(config.origins.get(f"serve.{name}") == path for name in (*_TOKENS, "tenants"))
        try:
            if holds and os.stat(path).st_mode & stat.S_IROTH:
                _warn(f"others on this machine can read the tokens in {path}: chmod o-r {path}")
        except OSError:
            continue


def _check_store(said: str | None) -> None:
    """Warn about a password that other users of the machine can read."""
    from .._journal.address import PostgresAddress
    from .stores import named_store

    if said is None or not said.startswith("postgres"):
        return
    store = named_store(said)
    if isinstance(store, PostgresAddress) and store.has_password:
        _warn(
            "others on this machine can read a password on a command line: say it as PGPASSWORD, in"
            " ~/.pgpass, or the whole URL in the configuration file"
        )


def _conversation(options: argparse.Namespace, config: Config) -> Work:
    """Return the work for a single prompt or an interactive conversation."""
    from functools import partial

    from .setup import UsageError

    pick = options.resume == "" and options.prompt is None and os.isatty(0)
    if pick and not options.continue_:
        options.resume = None
    interactive = options.prompt is None and os.isatty(0)
    if options.serve and not interactive:
        raise UsageError("--serve is for an interactive session: it needs a terminal, and no -p")
    setup = _found(options, config) or _setup(options, config, demo=interactive)
    if not interactive:
        from .commands.one_shot import one_shot

        return partial(one_shot, setup, _asked(options, config))
    for name in ("output_format", "last_message", "json_schema", "fail_on_denied"):
        if getattr(options, name) is not None:
            raise UsageError(f"{_OF_A_CONVERSATION[name]} is for a single prompt; use -p TEXT")
    from .repl.line_mode import converse

    return partial(converse, setup, pick=pick, serve=bool(options.serve))


def _asked(options: argparse.Namespace, config: Config) -> Asked:
    from .commands.one_shot import Asked

    return Asked(
        options.prompt,
        options.output_format or "text",
        options.last_message,
        _bound(options),
        config.terminal.color,
        bool(options.fail_on_denied),
    )


def _bound(options: argparse.Namespace) -> float | None:
    """Return the time limit for the whole command."""
    return options.timeout if isinstance(options.timeout, float) else None


def _serve(options: argparse.Namespace, config: Config) -> Work:
    from functools import partial

    from .commands.serve import make_security, serve_pages, store_path

    store_path(config.serve.store)  # report wrong usage before anything starts
    start = options.agent is not None or options.command is not None
    _check_node(config, opens=start or options.resume is not None)
    setup = _setup(options, config, demo=True)
    return partial(serve_pages, setup, make_security(setup), start=start)


def _check_node(config: Config, *, opens: bool) -> None:
    """Check the settings of a shared server. `opens`: a session is opened at startup."""
    from .._journal.address import PostgresAddress
    from .commands.serve import store_path
    from .setup import UsageError

    said = config.serve
    if said.home is not None and said.node is None:
        raise UsageError("--home is for servers that share a store: say --node NAME, too")
    if said.role != "both" and said.node is None:
        raise UsageError("--role is for servers that share a store: say --node NAME, too")
    if said.node is not None and not isinstance(store_path(said.store), PostgresAddress):
        raise UsageError(
            "--node is for servers that share a store, and only one in PostgreSQL can be shared:"
            " --store postgresql://…"
        )
    if opens and said.role == "gateway":
        raise UsageError(
            "--agent, --command and --resume open a session at once, and a gateway runs none"
        )


_OF_A_SERVER = {
    "command": "--command",
    "store": "--store",
    "trace": "--trace",
    "permissions": "--permissions",
    "allow": "--allow",
    "deny": "--deny",
    "trusted": "--trusted",
    "on_violation": "--on-violation",
    "timeout": "--timeout",
    "idle_timeout": "--idle-timeout",
    "cancel_grace": "--cancel-grace",
}
"""Options that a server sets for all its clients."""


def _acp(options: argparse.Namespace, config: Config) -> Work:
    from functools import partial

    from .setup import UsageError

    if options.resume is not None:
        raise UsageError("--resume has no meaning for `agentrt acp`: editors load sessions")
    attach: str | Literal[True] | None = getattr(options, "attach", None)
    if attach is None:
        if getattr(options, "session", None) is not None:
            raise UsageError("--session is one of a server's (--attach): editors load their own")
        from .commands.acp import serve_editor

        return partial(serve_editor, _setup(options, config))
    _refuse_settings_of_a_server(options)
    session = _session_of_a_server(options)
    from .._web.acpmessages import Meta
    from .commands.acp import attach_editor
    from .servers import find_server

    defaults = Meta(agent=options.agent, model=options.model, mode=options.mode, session=session)
    return partial(
        attach_editor,
        *find_server(None if attach is True else attach, insecure=options.insecure),
        defaults,
    )


def _attach(options: argparse.Namespace, config: Config) -> Work:
    from functools import partial

    from .setup import UsageError

    if options.resume is not None:
        raise UsageError("--resume has no meaning for `agentrt attach`: say --session ID")
    once = options.prompt is not None or not os.isatty(0)
    _refuse_settings_of_a_server(options, ours=("timeout", "cancel_grace") if once else ())
    session = _session_of_a_server(options)
    for name in ("output_format", "last_message", "fail_on_denied"):
        if not once and getattr(options, name) is not None:
            raise UsageError(f"{_OF_A_CONVERSATION[name]} is for a single prompt; use -p TEXT")
    from .commands.attach import Wanted, attach
    from .servers import find_server

    wanted = Wanted(
        session=session,
        agent=options.agent,
        model=options.model,
        mode=options.mode,
        cwd=options.cwd,
    )
    where = partial(find_server, options.url, insecure=options.insecure)
    where()  # report wrong usage before anything starts
    if once:
        from .commands.attach_once import attach_once

        return partial(attach_once, where, wanted, config, _asked(options, config))
    return partial(attach, where, wanted, config)


def _session_of_a_server(options: argparse.Namespace) -> str | None:
    """Return the session id given by `--session`, or None."""
    from .setup import UsageError

    session: str | None = getattr(options, "session", None)
    if session == "":
        raise UsageError("--session takes an id, and this one is empty")
    if session is not None and (options.agent, options.model, options.mode) != (None,) * 3:
        raise UsageError("--agent, --model and --mode are for a new session, not for --session")
    return session


def _refuse_settings_of_a_server(options: argparse.Namespace, ours: Sequence[str] = ()) -> None:
    from .setup import UsageError

    for name, flag in _OF_A_SERVER.items():
        if name not in ours and getattr(options, name) is not None:
            raise UsageError(f"{flag} is for the server to say, not for who attaches to it")


def _found(options: argparse.Namespace, config: Config) -> Setup | None:
    """Return the setup for the stored session of `--resume` or `--continue`, with its own agent.

    Returns None if neither refers to a stored session.
    """
    from msgspec import structs

    from .._agents import resolve_stored_agent
    from .._errors import SessionNotFound
    from .setup import Setup, UsageError, choose_agent
    from .stores import find, latest, store_files

    prefix: str | None = options.resume
    if not (prefix or options.continue_):
        return None
    if prefix is not None and options.continue_:
        raise UsageError("--resume and --continue exclude each other")
    agent = None
    if options.agent is not None or options.command is not None:
        agent, _ = choose_agent(config, options.agent, options.command, options.protocol)
    files = store_files(options.store, config)
    name = agent.name if agent is not None else None
    if prefix is None:
        kept = latest(files, os.path.abspath(options.cwd), name)
    else:
        try:
            kept = find(files, prefix, name)
        except SessionNotFound:
            return None  # the agent may know it
    agent = agent or resolve_stored_agent(kept.entry.agent, config)
    if _claude_options(options, agent):
        raise UsageError("a session that is gone on with keeps what it was begun with")
    setup = Setup(agent=agent, config=config, store=options.store).going_on(kept, agent)
    if prefix is not None and options.cwd != ".":
        setup = structs.replace(setup, cwd=os.path.abspath(options.cwd), moved=True)
    return _checked(structs.replace(setup, model=options.model, mode=options.mode))


def _setup(options: argparse.Namespace, config: Config, *, demo: bool = False) -> Setup:
    from .setup import Setup, UsageError, choose_agent

    if options.resume == "":
        raise UsageError("--resume takes an id here (`agentrt sessions` lists them)")
    agent, note = choose_agent(config, options.agent, options.command, options.protocol, demo=demo)
    return _checked(
        Setup(
            agent=agent,
            note=note,
            config=config,
            cwd=options.cwd,
            resume=options.resume,
            store=options.store,
            model=options.model,
            mode=options.mode,
            options=_claude_options(options, agent),
        )
    )


def _checked(setup: Setup) -> Setup:
    setup.policy("deny")  # raises for invalid rules
    for doubt in setup.doubts():  # warnings about the mode of the rules
        print(f"agentrt: warning: {doubt}", file=sys.stderr)
    return setup


def _sessions(options: argparse.Namespace, config: Config) -> Work:
    from functools import partial

    from .commands import sessions, stored
    from .stores import OFF, store_files

    agents = _chosen(options, config)
    files = [] if agents else store_files(options.store, config)
    of_agents = bool(agents) or options.store == OFF
    id, cwd = getattr(options, "session", ""), options.cwd
    match options.verb:
        case "list":
            cwd = None if options.all else cwd
            if of_agents:
                return partial(sessions.show_list, agents, config, cwd, as_json=options.json)
            cwd = None if cwd is None else os.path.abspath(cwd)
            return partial(stored.show_list, files, cwd, options.limit, as_json=options.json)
        case "search":
            words = " ".join(options.words)
            return partial(stored.search, files, words, options.limit, as_json=options.json)
        case "repair":
            return partial(stored.mend, files)
        case "vacuum":
            return partial(stored.vacuum, files)
        case "show" | "export":
            format: ExportFormat = getattr(options, "format", "markdown")
            otherwise = partial(sessions.export, agents, config, cwd, id, format)
            return partial(stored.export, files, id, format, otherwise)
        case _:
            otherwise = partial(sessions.delete, agents, config, cwd, id)
            return partial(stored.delete, files, id, otherwise)


def _nodes(options: argparse.Namespace, config: Config) -> Work:
    from functools import partial

    from .._journal.address import PostgresAddress
    from .commands import nodes
    from .commands.serve import store_path
    from .setup import UsageError

    store = store_path(options.store or config.serve.store)
    if not isinstance(store, PostgresAddress):
        raise UsageError("servers share a store in PostgreSQL: say --store postgresql://…")
    if options.verb == "drain":
        return partial(nodes.drain, store, options.name)
    return partial(nodes.show_list, store, as_json=options.json)


def _chosen(options: argparse.Namespace, config: Config) -> list[Agent]:
    """Return the agents named by the arguments, if any."""
    from .._agents import resolve_agent
    from .setup import UsageError, choose_agent

    names = getattr(options, "agents", [options.agent] if options.agent else [])
    if options.command is None:
        return [resolve_agent(name, config) for name in dict.fromkeys(names)]
    if names:
        raise UsageError("--agent and --command exclude each other")
    return [choose_agent(config, None, options.command, options.protocol)[0]]


def _claude_options(options: argparse.Namespace, agent: Agent) -> JsonObject:
    """Return the agent-specific options, by the names of `ClaudeOptions`."""
    from .setup import UsageError, read_schema

    fields = {
        "system_prompt": options.system,
        "append_system_prompt": options.append_system,
        "json_schema": read_schema(options.json_schema),
        "max_turns": options.max_turns,
    }
    flags = ("--system", "--append-system", "--json-schema", "--max-turns")
    said = {name: value for name, value in fields.items() if value is not None}
    if said and agent.protocol != "claude":
        names = [flag for flag, name in zip(flags, fields, strict=True) if name in said]
        raise UsageError(
            f"{agent.name} speaks ACP, which has nothing for {', '.join(names)}; Claude Code has"
        )
    return said


def _project_examination(agents: list[Agent], options: argparse.Namespace) -> Work:
    """Report on the folder of `--project`, with the settings that apply there."""
    from functools import partial

    from .._config import load_config
    from .commands.project import examine_project
    from .setup import UsageError

    folder = options.project
    if not os.path.isdir(folder):
        raise UsageError(f"--project: there is no folder {folder!r}")
    config = load_config(folder, flags=_flags(options))
    return partial(examine_project, agents, config, folder, as_json=options.json)


def _trusted_folders(options: argparse.Namespace) -> list[str]:
    """Return the folders for `--trusted`: the working folder and its repository."""
    from .._agents.projects import repository

    folder = os.path.realpath(options.cwd)
    return [each for each in (folder, repository(folder)) if each is not None]


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """Convert the options to the structure of a configuration file."""
    limits = {
        "turn_timeout_s": options.timeout,
        "idle_timeout_s": options.idle_timeout,
        "cancel_grace": options.cancel_grace,
    }
    permissions = {
        "mode": options.permissions,
        "allow": options.allow,
        "deny": options.deny,
        "on_violation": options.on_violation,
    }
    serve = {
        name: getattr(options, name, None)
        for name in ("host", "port", "token", "viewer_token", "allow_host", "allow_origin", "root")
    }
    if options.subcommand == "serve":
        for name in ("store", "otel", "url", "metrics_token", "node", "role", "home"):
            serve[name] = getattr(options, name, None)
    log = {"level": options.log_level, "format": options.log_format}
    trace = {"file": options.trace} if options.trace is not None else {}
    terminal = {"color": options.color, "plain": options.plain or None}
    if options.subcommand in (None, "acp"):
        terminal["store"] = options.store
    return {
        "trusted": _trusted_folders(options) if getattr(options, "trusted", None) else [],
        "terminal": {name: value for name, value in terminal.items() if value is not None},
        "serve": {name: value for name, value in serve.items() if value is not None},
        "trace": trace,
        "log": {name: value for name, value in log.items() if value is not None},
        "limits": {name: value for name, value in limits.items() if value is not None},
        "permissions": {name: value for name, value in permissions.items() if value is not None},
    }
