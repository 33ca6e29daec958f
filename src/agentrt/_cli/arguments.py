"""The options of all commands.

One parser reads every command line. The options of the interactive session and of `-p` belong to
the main parser; each subcommand has its own parser, which a `_fill_…` function fills from
groups (`_add_…`) that several commands share. The prose of `--help` is in `manual`; the options'
own help is here, next to the option.

Three rules hold everywhere:

- An option that the settings file knows, too, has no default here: it is None, or false for a
  switch, if it was not given. `options` then applies the settings and the built-in defaults; a
  default in this module would hide both.
- Subcommands are created with `argument_default=SUPPRESS`, so that an option given before the
  command (`agentrt --store FILE sessions`) is not overwritten by the command's own default.
- Values are checked here as far as their text allows (`_seconds`, `_count`, `_budget`), so that a
  mistake is reported before anything starts. Everything that needs the file system, the settings or
  an agent is checked by the command.

Errors become `WrongArguments` instead of a printed usage and an exit: the caller decides on the
form of the message, because a one-shot command with JSON output reports errors as JSON, too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

from .._version import __version__
from . import manual

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

SHELLS = ("bash", "zsh", "fish")
LISTED_SESSIONS_DEFAULT = 50
"""The number of sessions that a list shows."""


class WrongArguments(Exception):
    """The arguments cannot be parsed; `program` is the command whose `--help` lists them."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program


class _Parser(argparse.ArgumentParser):
    """A parser that raises its errors, and accepts no abbreviated option names.

    An abbreviation that works today becomes ambiguous when an option is added, so scripts could not
    rely on it.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        """Raise `WrongArguments` where argparse would print the usage and exit."""
        raise WrongArguments(message, self.prog)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        """Print a message. Unlike `argparse`'s own method, it raises if the reader has gone."""
        (file or sys.stderr).write(message)


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Raises `WrongArguments`, with suggestions for misspelt names.
    """
    try:
        return parser.parse_args(arguments)
    except WrongArguments as wrong:
        message = _explained(parser, arguments, str(wrong))
        raise WrongArguments(message, wrong.program) from None


def _explained(parser: argparse.ArgumentParser, arguments: Sequence[str], message: str) -> str:
    """Explain an error for which argparse has refused the arguments with `message`.

    argparse takes the value of an unknown option for the command, so unknown options are looked for
    first.
    """
    commands = _commands(parser)
    chosen = next((commands[each] for each in arguments if each in commands), None)
    ours = [*parser._option_string_actions]
    theirs = [*chosen._option_string_actions] if chosen is not None else []
    if "invalid choice" in message or message.startswith("unrecognized arguments"):
        for each in arguments:
            name = each.partition("=")[0]
            if name == "--":
                break
            if name.startswith("--") and name not in (*ours, *theirs):
                return f"unknown option {name}{_meant(name, theirs) or _meant(name, ours)}"
    if message.startswith("argument COMMAND: invalid choice"):
        word = message.split("'")[1]
        meant = _meant(word, list(commands))
        return f"unknown command {word!r}{meant or '; to send a prompt, use -p TEXT'}"
    return message


def one_shot_format(arguments: Sequence[str]) -> Literal["json", "stream-json"] | None:
    """Return the structured output format that a one-shot command line requests, if any.

    It reads arguments that could not be parsed, so it only compares their text.
    """
    for name, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if name in ("conformance", "--"):
            return None
        option, _, joined = name.partition("=")
        if option == "--output-format" and (given := joined or value) in ("json", "stream-json"):
            return "json" if given == "json" else "stream-json"
    return None


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of the subcommands by name; empty for a parser without subcommands.

    argparse has no public access to them, nor to the options of a parser, so this module reads its
    private attributes.
    """
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _meant(word: str, known: Sequence[str]) -> str:
    """Return a suggestion to append to an error message; empty if no known name is similar."""
    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = _Parser(
        prog="agentrt", usage=manual.USAGE, description=manual.MAIN, epilog=manual.MAIN_MORE
    )
    parser.add_argument("--version", action="version", version=f"agentrt {__version__}")
    _add_agent(parser)
    _add_prompt(parser)
    _add_session(parser)
    _add_store(parser)
    parser.add_argument(
        "-c",
        "--continue",
        action="store_true",
        default=None,
        dest="continue_",
        help="continue the most recent session in this directory",
    )
    _add_terminal(parser)
    _add_log(parser)
    parser.set_defaults(cwd=".")
    commands = parser.add_subparsers(
        prog="agentrt", dest="subcommand", metavar="COMMAND", help=argparse.SUPPRESS
    )

    def command(name: str, description: str, more: str) -> argparse.ArgumentParser:
        """Add a subcommand and return its parser."""
        # Options that are not given after a command keep their value from before it.
        parser = commands.add_parser(
            name, description=description, epilog=more, argument_default=argparse.SUPPRESS
        )
        _add_log(parser)
        return parser

    _fill_serve(command("serve", manual.SERVE, manual.SERVE_MORE))
    _fill_attach(command("attach", manual.ATTACH, manual.ATTACH_MORE))
    _fill_acp(command("acp", manual.ACP, manual.ACP_MORE))
    agents = command("agents", manual.AGENTS, manual.AGENTS_MORE)
    _add_json(agents)
    _fill_doctor(command("doctor", manual.DOCTOR, manual.DOCTOR_MORE))
    _fill_sandbox(command("sandbox", manual.SANDBOX, manual.SANDBOX_MORE))
    _fill_sessions(command("sessions", manual.SESSIONS, manual.SESSIONS_MORE))
    _fill_nodes(command("nodes", manual.NODES, manual.NODES_MORE))
    audit = command("audit", manual.AUDIT, manual.AUDIT_MORE)
    audit.add_argument(
        "session",
        metavar="SESSION",
        nargs="?",
        default=None,
        help="only this session, by an id prefix",
    )
    audit.add_argument("--file", metavar="FILE", default=None, help="the audit log (see --audit)")
    _add_json(audit)
    _fill_trust(command("trust", manual.TRUST, manual.TRUST_MORE))
    _fill_rules(command("rules", manual.RULES, manual.RULES_MORE))
    _fill_trace(command("trace", manual.TRACE, manual.TRACE_MORE))
    _fill_checkpoints(command("checkpoints", manual.CHECKPOINTS, manual.CHECKPOINTS_MORE))
    record = command("record", manual.RECORD, manual.RECORD_MORE)
    record.add_argument("file", metavar="FILE", help="the trace")
    record.add_argument("words", metavar="COMMAND", nargs="+", help="the agent's command, after --")
    replay = command("replay", manual.REPLAY, manual.REPLAY_MORE)
    replay.add_argument("file", metavar="FILE", help="the trace")
    add = replay.add_argument
    add(
        "--speed", type=_speed, metavar="N", default=1.0, help="play it N times as fast (default 1)"
    )
    add("--session", metavar="ID", default="", help="an id prefix")
    add(
        "--page",
        action="store_true",
        default=False,
        help="on the page, when the first browser has connected",
    )
    add(
        "--port", type=int, metavar="N", default=0, help="port of the page (default: any free port)"
    )
    _fill_conformance(command("conformance", manual.CONFORMANCE, manual.CONFORMANCE_MORE))
    new = command("new", manual.NEW, manual.NEW_MORE)
    new.add_argument("folder", metavar="DIR", help="the folder of the new project")
    new.add_argument("--agent", "-a", metavar="NAME", help="the agent (default: claude)")
    config = command("config", manual.CONFIG, manual.CONFIG_MORE)
    config.add_argument("--cwd", metavar="DIR", help="show the settings for this folder")
    _add_json(config)
    completion = command("completion", manual.COMPLETION, manual.COMPLETION_MORE)
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def _add_acp_version(add: Callable[..., object]) -> None:
    """Add `--acp-version`. It limits the offer of the handshake; an agent may still choose version
    1.
    """
    add(
        "--acp-version",
        type=int,
        choices=(1, 2),
        help="the highest version of ACP to ask the agent for (default: 1; 2 is a draft)",
    )


def _add_agent(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    """Add the options that choose the agent and record its protocol messages.

    `several`: `--agent` may be repeated and is called `agents` in the namespace, for commands that
    look at all agents unless some are named. The default is then chosen by the command.
    """
    add = parser.add_argument_group("the agent").add_argument
    if several:
        add(
            "--agent",
            "-a",
            metavar="NAME",
            action="append",
            dest="agents",
            help="only this agent (repeatable)",
        )
    else:
        add(
            "--agent", "-a", metavar="NAME", help="the agent, by a name that `agentrt agents` lists"
        )
    add("--command", metavar="'CMD ARGS'", help="any other agent, by its command line")
    add(
        "--protocol",
        choices=("acp", "claude", "codex"),
        help="protocol of --command (default: acp)",
    )
    _add_acp_version(add)
    add("--trace", metavar="FILE", help="record protocol messages to FILE (see agentrt trace)")


def _add_store(parser: argparse.ArgumentParser) -> None:
    """Add `--store`, for commands that only use stored sessions.

    `serve` has its own `--store` option, whose help names the default that applies to it.
    """
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="where sessions are stored: a file, postgresql://…, or `off` (see agentrt doctor)",
    )


def _add_json(command: argparse.ArgumentParser, *verbs: argparse.ArgumentParser) -> None:
    """Add `--json` to a command, and to those of its verbs that can print JSON.

    The default belongs to the command: one of a verb would replace an option before the verb.
    """
    for parser in (command, *verbs):
        parser.add_argument(
            "--json", action="store_true", default=argparse.SUPPRESS, help="print JSON"
        )
    command.set_defaults(json=False)


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    """Add the options of `-p`, including those that `attach` lacks because the agent's own process
    must be started with them or because they change files on this machine.
    """
    add = parser.add_argument_group("one prompt").add_argument
    _add_one_prompt(add)
    add(
        "--json-schema",
        metavar="SCHEMA",
        help="JSON schema of the answer, or a file with one; the answer is then a JSON value"
        " (Claude Code)",
    )
    add("--max-turns", type=_count, metavar="N", help="maximum number of model calls (Claude Code)")
    add(
        "--worktree",
        action="store_true",
        default=None,
        help="work in a separate working tree of the repository, and bring the changes back",
    )


def _add_one_prompt(add: Callable[..., argparse.Action]) -> None:
    """Add the options of a prompt that also work for a session on a server.

    `--prompt` is not required: without it, the prompt is read from standard input if that is not a
    terminal, and an interactive session begins otherwise.
    """
    add(
        "-p",
        "--prompt",
        metavar="TEXT",
        help="the prompt; standard input is appended to it (`-`: standard input alone)",
    )
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        help="text as it streams (default), one object at the end, or one event per line",
    )
    add(
        "--attach",
        metavar="FILE",
        dest="attachments",
        action="append",
        help="send this file with the prompt: an image itself, else a link (repeatable)",
    )
    add("--last-message", metavar="FILE", help="also write the agent's last message to FILE")
    add(
        "--fail-on-denied",
        action="store_true",
        default=None,
        help="exit with 5 if a permission request was rejected, even if the turn completed",
    )


def _add_session(parser: argparse.ArgumentParser) -> None:
    """Add the options for opening or resuming a session, with its permissions and limits.

    `--resume` without an ID has the value `""`: an interactive session then asks for one. None
    means that it was not given.
    """
    add = parser.add_argument_group("the session").add_argument
    add(
        "--cwd",
        metavar="DIR",
        help="the agent's working directory; with --resume, the session moves there",
    )
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="resume an earlier session by an id prefix (see `agentrt sessions`) or by the agent's"
        " own id; without ID, choose one of this directory",
    )
    _add_settings(add)
    add(
        "--system",
        metavar="TEXT",
        help="replace the agent's system prompt (Claude Code, some others)",
    )
    add("--append-system", metavar="TEXT", help="append to the agent's system prompt (same agents)")
    _add_bounds(parser)
    _add_unattended(parser)


def _add_settings(add: Callable[..., argparse.Action]) -> None:
    """Add the options that can be changed in a session later, and therefore also for `attach` and
    `acp`.
    """
    add("--model", metavar="ID", help="the model, as the agent names it")
    add("--mode", metavar="ID", help="the mode, as the agent names it")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    """Add the limits on the agent: permissions, trust, sandbox and time.

    The times stay text or numbers: `none` is kept as text, because None means that the option was
    not given and the setting applies.
    """
    add = parser.add_argument_group("permissions").add_argument
    add(
        "--permissions",
        choices=("ask", "deny", "allow-all"),
        help="decision for requests that no rule matches (default: ask if there is a terminal, else"
        " deny); allow-all requires --sandbox or --no-sandbox",
    )
    add(
        "--allow",
        metavar="RULE",
        action="append",
        help="allow requests that match the rule (see below)",
    )
    add("--deny", metavar="RULE", action="append", help="deny requests that match the rule")
    add(
        "--trust",
        choices=("ask", "yes", "no"),
        help="let the agent act on the folder's own files (its hooks, MCP servers and settings):"
        " yes, no, or ask, which shows them first and counts as no with -p (default: ask)",
    )
    add(
        "--on-violation",
        choices=("warn", "cancel"),
        help="when the agent runs a denied tool call without asking: print a warning, or cancel the"
        " turn as well (default: warn)",
    )
    _add_sandbox(parser)
    add = parser.add_argument_group("limits, in seconds or `none`").add_argument
    add(
        "--timeout",
        type=_seconds,
        metavar="S",
        help="maximum time for the command (default 1800 for the turn); in an interactive session"
        " or `serve`: per turn (default none)",
    )
    add(
        "--idle-timeout",
        type=_seconds,
        metavar="S",
        help="maximum silence in a turn (default none)",
    )
    add(
        "--cancel-grace",
        type=_seconds,
        metavar="S",
        help="time for a cancelled agent to end its turn (default 10)",
    )


def _add_unattended(parser: argparse.ArgumentParser) -> None:
    """Add the options for running without a person: checkpoints, budget, rate limits and audit log.

    `--budget` and `--wait-for-limits` are checked here but keep their text, which `options` parses
    again together with the values from the settings file.
    """
    add = parser.add_argument_group("running unattended").add_argument
    add(
        "--checkpoints",
        action="store_true",
        default=None,
        help="save the files before and after each turn; `agentrt checkpoints` restores them",
    )
    add(
        "--budget",
        type=_budget,
        metavar="LIMITS",
        help="end turns when this is used up, such as 5usd,2Mtok,30min,20turns",
    )
    add(
        "--wait-for-limits",
        type=_duration,
        metavar="TIME",
        help="wait for the end of rate limits, at most this long in a turn, such as 6h",
    )
    add(
        "--audit",
        metavar="FILE",
        help="append requests, decisions and actions to this file; `agentrt audit` shows them",
    )


def _add_sandbox(parser: argparse.ArgumentParser) -> None:
    """Add the options of the sandbox. `--sandbox` without a value means `workspace`.

    `--no-sandbox` is a separate option because it must override a sandbox from the settings file.
    """
    add = parser.add_argument_group("the sandbox").add_argument
    add(
        "--sandbox",
        nargs="?",
        const="workspace",
        choices=("workspace", "offline", "open-network"),
        help="run the agent and everything that it starts in a sandbox (see `agentrt doctor"
        " --sandbox`); its network: the model's hosts (workspace, the default), none, or all public"
        " hosts",
    )
    add(
        "--no-sandbox",
        action="store_true",
        default=None,
        help="no sandbox, regardless of the configuration",
    )
    add(
        "--allow-network",
        metavar="HOST",
        action="append",
        help="a host that can be reached from the sandbox: api.github.com, *.pypi.org:443",
    )
    add(
        "--allow-write",
        metavar="PATH",
        action="append",
        help="another folder or file that can be written in the sandbox",
    )
    add(
        "--allow-port",
        metavar="N",
        type=int,
        action="append",
        help="a port of this machine that can be reached from the sandbox",
    )


def _add_terminal(parser: argparse.ArgumentParser) -> None:
    """Add the options of the interactive session."""
    add = parser.add_argument_group("the terminal").add_argument
    _add_look(add)
    add(
        "--serve",
        action="store_true",
        default=None,
        dest="serve",
        help="also accept browsers and other clients; /share prints the link",
    )


def _add_look(add: Callable[..., argparse.Action]) -> None:
    """Add the options for colours and line-by-line output, which `attach` has, too."""
    add(
        "--color",
        choices=("auto", "always", "never"),
        help="use colours: auto (on a terminal, unless NO_COLOR is set), always or never",
    )
    add(
        "--plain",
        action="store_true",
        help="line-by-line output, for screen readers and simple terminals",
    )


def _add_log(parser: argparse.ArgumentParser) -> None:
    """Add the options of logging. Every subcommand has them, so that they may follow its name."""
    add = parser.add_argument_group("logging").add_argument
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="log to stderr at this level and above (default: off; `serve`: error)",
    )
    add("--log-format", choices=("text", "json"), help="log lines as text (default) or JSON")


def _fill_trust(trust: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt trust`, whose verbs list, show, add and remove decisions.

    The default verb is `list`. The defaults are set on the main parser of the command, because
    those of a verb would replace options that were given before the verb.
    """
    verbs = trust.add_subparsers(dest="verb", metavar="VERB", title="subcommands")

    def verb(name: str, description: str) -> argparse.ArgumentParser:
        """Add a verb that is about one folder, and return its parser."""
        parser = verbs.add_parser(
            name,
            help=description,
            description=f"{description[0].upper()}{description[1:]}.",
            argument_default=argparse.SUPPRESS,
        )
        parser.add_argument(
            "folder", metavar="DIR", nargs="?", default=".", help="the folder (default: this one)"
        )
        parser.add_argument(
            "--agent",
            "-a",
            metavar="NAME",
            action="append",
            default=[],
            dest="agents",
            help="only this agent; repeatable (default: all installed agents)",
        )
        return parser

    listing = verbs.add_parser(
        "list",
        help="list the stored decisions (default)",
        description="Lists the stored decisions.",
        argument_default=argparse.SUPPRESS,
    )
    show = verb("show", "print the files that agents act on, and their changes")
    add = verb("add", "show the files that agents act on, and trust them after a confirmation")
    add.add_argument("--yes", action="store_true", default=False, help="trust without a question")
    verb("remove", "forget the decisions about a folder")
    _add_json(trust, listing, show)
    trust.set_defaults(verb="list")


def _fill_rules(rules: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt rules check`, which explains one rule and runs nothing."""
    rules.add_argument("verb", choices=("check",), help="explain a rule's effect on a call")
    rules.add_argument("rule", metavar="RULE", help="the rule")
    rules.add_argument("call", metavar="CALL", help="a shell command, or a call such as Edit(a.py)")
    rules.add_argument("--cwd", metavar="DIR", help="the agent's working directory")
    _add_json(rules)


def _fill_serve(serve: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt serve`.

    It takes the options of a session, too, which apply to each session that a client opens; those
    that make no sense for a server are refused later (`subcommands`).
    """
    _add_agent(serve)
    add = serve.add_argument_group("the server").add_argument
    add("--host", metavar="ADDRESS", help="address to listen on (default 127.0.0.1)")
    add("--port", type=int, metavar="N", help="port to listen on (default 0: any free port)")
    add(
        "--token",
        help="bearer token for clients; links to the page carry a one-time ticket instead"
        " (default: random)",
    )
    add("--viewer-token", metavar="TOKEN", help="read-only token")
    add("--metrics-token", help="token required for /metrics (default: /metrics is off)")
    add(
        "--url",
        metavar="URL",
        help="public address of the server, such as https://agents.example or"
        " https://example.org/agents/",
    )
    add(
        "--allow-host",
        metavar="NAME[:PORT]",
        action="append",
        help="host name that clients use for the server",
    )
    add(
        "--allow-origin",
        metavar="URL",
        action="append",
        help="an origin from which pages may connect",
    )
    add(
        "--root",
        metavar="DIR",
        action="append",
        help="a directory in which sessions may be opened (repeatable; default: any)",
    )
    add(
        "--store",
        metavar="FILE",
        help="where sessions are stored (default ~/.local/state/agentrt/journal.db): a file,"
        " postgresql://…, or `off`",
    )
    add(
        "--node",
        metavar="NAME",
        help="name of this server; servers with names share a PostgreSQL store",
    )
    add(
        "--role",
        choices=("both", "gateway", "worker"),
        help="with --node: gateway (runs no sessions), worker (serves no browsers), or both"
        " (default)",
    )
    add(
        "--home",
        metavar="NAME",
        help="with --node: same name on machines with shared files (default: the machine's name)",
    )
    add(
        "--otel",
        action="store_true",
        help="send OpenTelemetry spans, configured by the variables OTEL_…",
    )
    add(
        "--webhook",
        metavar="URL",
        help="send a POST to this address when a question waits or a turn has ended",
    )
    _add_session(serve)


def _add_insecure(add: Callable[..., Any]) -> None:
    """Add `--insecure`. Without it, a token is never sent to another machine in clear text."""
    add(
        "--insecure",
        action="store_true",
        default=False,
        help="send the token unencrypted to a server on another machine",
    )


def _fill_attach(attach: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt attach`: the options of a prompt, a new session and the
    terminal that do not concern the agent's process, which belongs to the server.
    """
    attach.add_argument(
        "url", metavar="URL", nargs="?", default=None, help="the server (default: your own)"
    )
    attach.add_argument("--session", metavar="ID", help="the session, by an id prefix")
    _add_insecure(attach.add_argument)
    add = attach.add_argument_group("one prompt").add_argument
    _add_one_prompt(add)
    add(
        "--timeout",
        type=_number_of_seconds,
        metavar="S",
        help="maximum time, after which the turn is cancelled (default none)",
    )
    add = attach.add_argument_group("a new session").add_argument
    add("--agent", "-a", metavar="NAME", help="an agent of the server")
    add("--cwd", metavar="DIR", help="the agent's working directory")
    _add_settings(add)
    add = attach.add_argument_group("the terminal").add_argument
    _add_look(add)


def _fill_acp(acp: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt acp`, which editors start as an agent.

    `--attach` without a URL has the value True and means the user's own running server.
    """
    _add_agent(acp)
    add = acp.add_argument_group("a server's sessions").add_argument
    add(
        "--attach",
        nargs="?",
        const=True,
        metavar="URL",
        help="use the sessions of a running server: of this URL, or your own server",
    )
    add("--session", metavar="ID", help="use this session instead of new ones")
    _add_insecure(add)
    add = acp.add_argument_group("new sessions").add_argument
    _add_settings(add)
    _add_store(acp)
    _add_bounds(acp)
    _add_unattended(acp)


def _fill_doctor(doctor: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt doctor`.

    It starts agents and performs their handshake, unless `--project` or `--sandbox` is given: these
    only look at a folder or at the machine.
    """
    _add_agent(doctor, several=True)
    doctor.add_argument(
        "--project",
        nargs="?",
        const=".",
        default=None,
        metavar="DIR",
        help="list the files of a folder (default: this one) that agents would act on, and how"
        " agentrt treats them; starts nothing",
    )
    doctor.add_argument(
        "--sandbox",
        action="store_true",
        default=False,
        dest="probe",
        help="test if this machine can build sandboxes; starts no agent",
    )
    doctor.add_argument("--timeout", type=_seconds, metavar="S", help="maximum time for everything")
    _add_json(doctor)


def _fill_sandbox(sandbox: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt sandbox`, which runs a command in the sandbox of a session."""
    _add_agent(sandbox)
    sandbox.add_argument("--cwd", metavar="DIR", help="the folder that can be written")
    _add_sandbox(sandbox)
    sandbox.add_argument(
        "words",
        metavar="COMMAND",
        nargs="*",
        default=[],
        help="the command, after -- (default: a shell)",
    )


def _fill_conformance(conformance: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt conformance`.

    `--output-format` is stored as `report`: `output_format` in the namespace is the option of `-p`,
    with other values, and is refused for this command.
    """
    add = conformance.add_argument
    add(
        "words",
        metavar="AGENT_OR_COMMAND",
        nargs="+",
        help="an agent that `agentrt agents` lists, or after -- the command of any other agent",
    )
    add(
        "--protocol",
        choices=("acp", "claude", "codex"),
        help="protocol of a command (default: acp)",
    )
    _add_acp_version(add)
    add(
        "--timeout",
        type=_number_of_seconds,
        metavar="S",
        help="maximum time for each check (default 60)",
    )
    add("--only", metavar="CHECK", action="append", help="run only this check (repeatable)")
    add("--trace", metavar="FILE", help="record the protocol messages of all checks to FILE")
    add("--traces", metavar="DIR", help="the same into a directory, one file per check")
    add(
        "--output-format",
        choices=("text", "json"),
        default="text",
        dest="report",
        help="text: a table (default); json: one object at the end",
    )
    add = conformance.add_argument_group("prompts for the model").add_argument
    add("--text", metavar="PROMPT", default=None, help="prompt for a short answer")
    add("--long", metavar="PROMPT", default=None, help="prompt for a turn of ten seconds or more")
    add(
        "--permission",
        metavar="PROMPT",
        default=None,
        help="prompt to run `touch agentrt-checked.txt`, for which it must ask permission",
    )


def _fill_sessions(sessions: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt sessions`.

    The default verb is `list`, so its options are accepted with and without the verb.
    """
    verbs = sessions.add_subparsers(dest="verb", metavar="VERB", title="subcommands")

    def verb(name: str, description: str, *, of_agents: bool = True) -> argparse.ArgumentParser:
        """Add a verb and return its parser. `of_agents`: it also concerns sessions that agents have
        stored themselves, and takes the options that choose an agent and a folder.
        """
        parser = verbs.add_parser(
            name,
            help=description,
            description=f"{description[0].upper()}{description[1:]}.",
            argument_default=argparse.SUPPRESS,
        )
        _add_log(parser)
        if of_agents:
            _add_agent(parser, several=name == "list")
            parser.add_argument("--cwd", metavar="DIR", help="sessions of this directory")
        _add_store(parser)
        return parser

    listing = verb("list", "list sessions, newest first (default)")
    search = verb("search", "list sessions that contain all the given words", of_agents=False)
    search.add_argument("words", metavar="WORD", nargs="+", help="a word, or a word prefix")
    _add_json(sessions, listing, search)
    for parser in (sessions, listing, search):
        parser.add_argument(
            "--limit",
            type=_count,
            metavar="N",
            help=f"show at most N (default {LISTED_SESSIONS_DEFAULT})",
        )
    for parser in (sessions, listing):
        parser.add_argument("--all", action="store_true", help="sessions of all directories")
    _add_agent(sessions, several=True)
    _add_store(sessions)
    sessions.add_argument("--cwd", metavar="DIR", help="sessions of this directory")
    sessions.set_defaults(verb="list", all=False, limit=LISTED_SESSIONS_DEFAULT)
    show = verb("show", "print a session")
    export = verb("export", "export a session as Markdown, or as JSON with all details")
    export.add_argument("--format", choices=("markdown", "json"), default="markdown")
    delete = verb("delete", "delete a session; this cannot be undone")
    for parser in (show, export, delete):
        parser.add_argument("session", metavar="ID", help="the session id, or an id prefix")
    verb("repair", "recover the readable part of a damaged store", of_agents=False)
    verb("vacuum", "release unused space of the store", of_agents=False)


def _fill_nodes(nodes: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt nodes`, for servers that share a PostgreSQL store."""
    verbs = nodes.add_subparsers(dest="verb", metavar="VERB", title="subcommands")
    listing = verbs.add_parser(
        "list",
        help="list the running servers (default)",
        description="List the running servers.",
        argument_default=argparse.SUPPRESS,
    )
    drain = verbs.add_parser(
        "drain",
        help="make a server finish its turns, accept no new sessions, and exit",
        description="Make a server finish its turns, accept no new sessions, and exit.",
        argument_default=argparse.SUPPRESS,
    )
    drain.add_argument("name", metavar="NAME", help="the name of the server (its --node)")
    for parser in (nodes, listing, drain):
        parser.add_argument("--store", metavar="URL", help="the store: postgresql://…")
    _add_json(nodes, listing)
    nodes.set_defaults(verb="list")


def _fill_checkpoints(checkpoints: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt checkpoints`. The default verb is `list`."""
    verbs = checkpoints.add_subparsers(dest="verb", metavar="VERB", title="subcommands")

    def verb(name: str, description: str) -> argparse.ArgumentParser:
        """Add a verb with the folder whose checkpoints it uses, and return its parser."""
        parser = verbs.add_parser(
            name,
            help=description,
            description=f"{description[0].upper()}{description[1:]}.",
            argument_default=argparse.SUPPRESS,
        )
        parser.add_argument("--cwd", metavar="DIR", help="checkpoints of this folder")
        return parser

    listing = verb("list", "list the checkpoints of a folder, oldest first (default)")
    diff = verb("diff", "print a patch from a checkpoint to another one, or to the current files")
    diff.add_argument("old", type=_count, metavar="N", help="the number of a checkpoint")
    diff.add_argument(
        "new", type=_count, metavar="M", nargs="?", default=None, help="the other checkpoint"
    )
    restore = verb("restore", "restore the files of a checkpoint, after saving the current ones")
    restore.add_argument("number", type=_count, metavar="N", help="the number of a checkpoint")
    checkpoints.add_argument("--cwd", metavar="DIR", help="checkpoints of this folder")
    _add_json(checkpoints, listing)
    checkpoints.set_defaults(verb="list")


def _fill_trace(trace: argparse.ArgumentParser) -> None:
    """Add the arguments of `agentrt trace`. The verb is required: there is no useful default."""
    verbs = trace.add_subparsers(dest="verb", metavar="VERB", required=True)
    show = verbs.add_parser(
        "show",
        help="print a trace as a conversation",
        description="Prints a trace as a conversation.",
        argument_default=argparse.SUPPRESS,
    )
    show.add_argument("file", metavar="FILE", help="the trace")
    _add_log(show)
    add = show.add_argument
    add(
        "--follow",
        "-f",
        action="store_true",
        default=False,
        help="keep printing as the trace grows",
    )
    add("--odd", action="store_true", default=False, help="only unusual messages")
    add("--session", metavar="ID", default="", help="only this session, by an id prefix")
    add("--grep", metavar="TEXT", default="", help="only messages that contain TEXT")
    add("--whole", action="store_true", default=False, help="with the raw lines")
    add(
        "--late",
        type=_number_of_seconds,
        metavar="S",
        default=10.0,
        help="seconds after which an answer counts as late (default 10)",
    )


def _number_of_seconds(text: str) -> float:
    """Parse a positive number of seconds, for options where `none` has no meaning."""
    seconds = _seconds(text)
    if not isinstance(seconds, float):
        raise argparse.ArgumentTypeError("a number of seconds is required")
    return seconds


def _speed(text: str) -> float:
    """Parse a positive, finite factor."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _duration(text: str) -> str:
    """Check a time such as `6h`, and return its text: `options` parses it with the
    settings' value.
    """
    from ..unattended import wait_from  # slow to import

    try:
        wait_from(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _budget(text: str) -> str:
    """Check a budget such as `5usd,30min`, and return its text, as `_duration` does."""
    from ..unattended import budget_from  # slow to import

    try:
        budget_from(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _seconds(text: str) -> float | str:
    """Parse a positive number of seconds, or `none`."""
    if text == "none":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of seconds nor `none`")
    return value


_MAX_DIGITS: Final = 18
"""Digits of a whole number: a database takes no more."""


def _count(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if not text.isdecimal() or len(text) > _MAX_DIGITS or int(text) < 1:
        raise argparse.ArgumentTypeError(
            f"{text:.40} is not a whole number of 1 or more, with at most {_MAX_DIGITS} digits"
        )
    return int(text)
