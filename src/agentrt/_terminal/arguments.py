"""What can be said on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any, Literal, NoReturn

from .._version import __version__
from . import manual

SHELLS = ("bash", "zsh", "fish")
LISTED = 50
"""Sessions that a list shows."""


class WrongArguments(Exception):
    """The arguments cannot be parsed; `program` is the command whose `--help` lists them."""

    def __init__(self, message: str, program: str) -> None:
        super().__init__(message)
        self.program = program


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        raise WrongArguments(message, self.prog)


def parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line. Raises `WrongArguments`, with the names that may have been meant."""
    try:
        return parser.parse_args(arguments)
    except WrongArguments as wrong:
        message = _explained(parser, arguments, str(wrong))
        raise WrongArguments(message, wrong.program) from None


def _explained(parser: argparse.ArgumentParser, arguments: Sequence[str], message: str) -> str:
    """Say what is wrong with arguments that argparse has refused with `message`.

    argparse takes the value of an option that it does not know for the command, so unknown options
    are looked for first.
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
    """Return the structured output format that a one-shot command line asks for, if any.

    Reads arguments that could not be parsed, so it goes by their words alone.
    """
    for name, value in zip(arguments, [*arguments[1:], ""], strict=True):
        if name in ("conformance", "--"):
            return None
        option, _, joined = name.partition("=")
        if option == "--output-format" and (given := joined or value) in ("json", "stream-json"):
            return "json" if given == "json" else "stream-json"
    return None


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found


def _meant(word: str, known: Sequence[str]) -> str:
    close = get_close_matches(word, known, 1)
    return f"; did you mean {close[0]}?" if close else ""


def make_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="agentrt", usage=manual.USAGE, description=manual.MAIN, epilog=manual.MAIN_MORE
    )
    parser.add_argument("--version", action="version", version=f"agentrt {__version__}")
    _add_agent(parser)
    _add_prompt(parser)
    _add_session(parser)
    _add_store(parser)
    parser.add_argument(
        *("-c", "--continue"),
        action="store_true",
        default=None,
        dest="continue_",
        help="go on with the latest session of this folder",
    )
    _add_terminal(parser)
    _add_log(parser)
    parser.set_defaults(cwd=".")
    commands = parser.add_subparsers(
        prog="agentrt", dest="subcommand", metavar="COMMAND", help=argparse.SUPPRESS
    )

    def command(name: str, description: str, more: str) -> argparse.ArgumentParser:
        # What is not said behind a command keeps what was said before it.
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
    _fill_sessions(command("sessions", manual.SESSIONS, manual.SESSIONS_MORE))
    _fill_nodes(command("nodes", manual.NODES, manual.NODES_MORE))
    _fill_rules(command("rules", manual.RULES, manual.RULES_MORE))
    _fill_trace(command("trace", manual.TRACE, manual.TRACE_MORE))
    record = command("record", manual.RECORD, manual.RECORD_MORE)
    record.add_argument("file", metavar="FILE", help="the trace")
    record.add_argument("words", metavar="COMMAND", nargs="+", help="the agent: behind --")
    replay = command("replay", manual.REPLAY, manual.REPLAY_MORE)
    replay.add_argument("file", metavar="FILE", help="the trace")
    add = replay.add_argument
    add("--speed", type=_speed, metavar="N", default=1.0, help="times as fast (1)")
    add("--session", metavar="ID", default="", help="the beginning of its id")
    add("--page", action="store_true", default=False, help="in the page, once a browser has come")
    add("--port", type=int, metavar="N", default=0, help="of the page (any free one)")
    _fill_conformance(command("conformance", manual.CONFORMANCE, manual.CONFORMANCE_MORE))
    config = command("config", manual.CONFIG, manual.CONFIG_MORE)
    config.add_argument("--cwd", metavar="DIR", help="the folder whose settings are meant")
    _add_json(config)
    completion = command("completion", manual.COMPLETION, manual.COMPLETION_MORE)
    completion.add_argument("shell", choices=SHELLS, help="the shell")
    return parser


def _add_agent(parser: argparse.ArgumentParser, *, several: bool = False) -> None:
    add = parser.add_argument_group("the agent").add_argument
    if several:
        add(
            *("--agent", "-a"),
            metavar="NAME",
            action="append",
            dest="agents",
            help="only this one; repeatable",
        )
    else:
        add("--agent", "-a", metavar="NAME", help="a name of `agentrt agents`")
    add("--command", metavar="'CMD ARGS'", help="any other agent: how to start it")
    add("--protocol", choices=("acp", "claude", "codex"), help="what --command speaks (acp)")
    add("--trace", metavar="FILE", help="write what goes over the wire there (see agentrt trace)")


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        metavar="FILE",
        help="where sessions are kept: a file, postgresql://…, or `off` (see agentrt doctor)",
    )


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", default=False, help="for programs")


def _add_prompt(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("one prompt").add_argument
    _add_one_prompt(add)
    add(
        "--json-schema",
        metavar="SCHEMA",
        help="what the answer must be a value of: a JSON schema, or a file with one; the answer"
        " is then that value (Claude Code)",
    )
    add("--max-turns", type=_count, metavar="N", help="the most calls of the model (Claude Code)")


def _add_one_prompt(add: Callable[..., argparse.Action]) -> None:
    add(
        *("-p", "--prompt"),
        metavar="TEXT",
        help="the prompt; standard input is added to it, and is all of it for `-`",
    )
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        help="the answer while it comes (default), one object at the end, or one event a line",
    )
    add("--last-message", metavar="FILE", help="also write the agent's last message to a file")
    add(
        "--fail-on-denied",
        action="store_true",
        default=None,
        help="exit with 5 if a permission request was rejected, even if the turn completed",
    )


def _add_session(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the session").add_argument
    add("--cwd", metavar="DIR", help="the folder that the agent works in")
    add(
        "--resume",
        nargs="?",
        const="",
        metavar="ID",
        help="go on with an earlier session: the beginning of its id (see `agentrt sessions`), or"
        " the agent's own id; a conversation offers those of the folder if there is none",
    )
    _add_settings(add)
    add("--system", metavar="TEXT", help="a system prompt instead of the agent's (Claude Code)")
    add("--append-system", metavar="TEXT", help="more behind the agent's own (Claude Code)")
    _add_bounds(parser)


def _add_settings(add: Callable[..., argparse.Action]) -> None:
    add("--model", metavar="ID", help="the agent's model, by its own name for it")
    add("--mode", metavar="ID", help="the agent's mode, by its own name for it")


def _add_bounds(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("permissions").add_argument
    add(
        "--permissions",
        choices=("ask", "deny", "allow-all"),
        help="what happens to a request that no rule covers"
        " (ask where somebody can be asked, else deny)",
    )
    add("--allow", metavar="RULE", action="append", help="allow what the rule covers (see below)")
    add("--deny", metavar="RULE", action="append", help="deny what it is about, or may be")
    add(
        "--trusted",
        action="store_true",
        default=None,
        help="let the agent act on the folder's own files (its hooks, MCP servers and settings),"
        " as if your configuration listed the folder under `trusted`",
    )
    add = parser.add_argument_group("limits, in seconds or `none`").add_argument
    add(
        "--timeout",
        type=_seconds,
        metavar="S",
        help="the longest that the command may take (1800 for its turn), or a turn where a person"
        " sits, in a conversation or in `serve` (none)",
    )
    add("--idle-timeout", type=_seconds, metavar="S", help="the longest silence in it (none)")
    add(
        "--cancel-grace",
        type=_seconds,
        metavar="S",
        help="how long a cancelled agent may take to end its turn (10)",
    )


def _add_terminal(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the terminal").add_argument
    _add_look(add)
    add(
        "--serve",
        action="store_true",
        default=None,
        dest="serve",
        help="let browsers and other clients into the conversation; /share prints the link",
    )


def _add_look(add: Callable[..., argparse.Action]) -> None:
    add(
        "--color",
        choices=("auto", "always", "never"),
        help="colours: on a terminal unless NO_COLOR is set (auto), always, or never",
    )
    add(
        "--plain",
        action="store_true",
        help="the conversation line by line, for screen readers and simple terminals",
    )


def _add_log(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("logging").add_argument
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="say on standard error what happens, from this level on (nothing; `serve`: error)",
    )
    add("--log-format", choices=("text", "json"), help="lines for people (text) or programs")


def _fill_rules(rules: argparse.ArgumentParser) -> None:
    rules.add_argument("verb", choices=("check",), help="say what a rule would do about a call")
    rules.add_argument("rule", metavar="RULE", help="the rule")
    rules.add_argument("call", metavar="CALL", help="a shell command, or a call such as Edit(a.py)")
    rules.add_argument("--cwd", metavar="DIR", help="the folder that the agent would work in")
    _add_json(rules)


def _fill_serve(serve: argparse.ArgumentParser) -> None:
    _add_agent(serve)
    add = serve.add_argument_group("the server").add_argument
    add("--host", metavar="ADDRESS", help="the address to listen on (127.0.0.1)")
    add("--port", type=int, metavar="N", help="the port (0: any free one)")
    add("--token", help="what programs show, and links stand for (random)")
    add("--viewer-token", metavar="TOKEN", help="another one, which lets its bearers only look on")
    add(
        "--metrics-token", help="serve /metrics to who shows this one, and nobody else (not served)"
    )
    add(
        "--url",
        metavar="URL",
        help="address under which people reach it, such as https://agents.example",
    )
    add("--allow-host", metavar="NAME[:PORT]", action="append", help="a name that it is reached by")
    add("--allow-origin", metavar="URL", action="append", help="an origin whose pages may connect")
    add(
        "--root",
        metavar="DIR",
        action="append",
        help="a folder that pages may open sessions in (any)",
    )
    add(
        "--store",
        metavar="FILE",
        help="where sessions are kept (~/.local/state/agentrt/journal.db): a file,"
        " postgresql://…, or `off`",
    )
    add(
        "--node",
        metavar="NAME",
        help="share the store, one in PostgreSQL, with other servers that have said a name",
    )
    add(
        "--role",
        choices=("both", "gateway", "worker"),
        help="with --node: a gateway runs no sessions, a worker serves no browsers (both)",
    )
    add(
        "--home",
        metavar="NAME",
        help="with --node: the same on machines that have the same files (this machine's name)",
    )
    add(
        "--otel",
        action="store_true",
        help="send spans of what happens to OpenTelemetry, as its own variables (OTEL_…) say",
    )
    _add_session(serve)


def _fill_attach(attach: argparse.ArgumentParser) -> None:
    attach.add_argument("url", metavar="URL", nargs="?", default=None, help="the server (yours)")
    attach.add_argument("--session", metavar="ID", help="the session: the beginning of its id")
    add = attach.add_argument_group("one prompt").add_argument
    _add_one_prompt(add)
    add(
        "--timeout",
        type=_number_of_seconds,
        metavar="S",
        help="the longest that it may take, after which its turn is cancelled (none)",
    )
    add = attach.add_argument_group("a new session").add_argument
    add("--agent", "-a", metavar="NAME", help="one of the server's agents")
    add("--cwd", metavar="DIR", help="the folder that it works in")
    _add_settings(add)
    add = attach.add_argument_group("the terminal").add_argument
    _add_look(add)


def _fill_acp(acp: argparse.ArgumentParser) -> None:
    _add_agent(acp)
    add = acp.add_argument_group("a server's sessions").add_argument
    add(
        "--attach",
        nargs="?",
        const=True,
        metavar="URL",
        help="be a client of a server that runs: of this URL, or of the one that is yours",
    )
    add("--session", metavar="ID", help="that one, instead of new ones")
    add = acp.add_argument_group("new sessions").add_argument
    _add_settings(add)
    _add_store(acp)
    _add_bounds(acp)


def _fill_doctor(doctor: argparse.ArgumentParser) -> None:
    _add_agent(doctor, several=True)
    doctor.add_argument(
        "--timeout", type=_seconds, metavar="S", help="the longest that all of it may take"
    )
    _add_json(doctor)


def _fill_conformance(conformance: argparse.ArgumentParser) -> None:
    add = conformance.add_argument
    add(
        "words",
        metavar="AGENT_OR_COMMAND",
        nargs="+",
        help="a name of `agentrt agents`, or how to start any other: behind --",
    )
    add("--protocol", choices=("acp", "claude", "codex"), help="what a command speaks (acp)")
    add(
        "--timeout",
        type=_number_of_seconds,
        metavar="S",
        help="the longest that one check may take (60)",
    )
    add("--only", metavar="CHECK", action="append", help="only this one; repeatable")
    add("--trace", metavar="FILE", help="write what goes over the wire there, of all checks")
    add("--traces", metavar="DIR", help="the same in a folder, with a file for each check")
    add(
        "--output-format",
        choices=("text", "json"),
        default="text",
        dest="report",
        help="a table (default), or one object at the end",
    )
    add = conformance.add_argument_group("what the model is asked for").add_argument
    add("--text", metavar="PROMPT", default=None, help="a short answer")
    add("--long", metavar="PROMPT", default=None, help="a turn of ten seconds or more")
    add(
        "--permission",
        metavar="PROMPT",
        default=None,
        help="to run `touch agentrt-checked.txt`, about which it has to ask",
    )


def _fill_sessions(sessions: argparse.ArgumentParser) -> None:
    verbs = sessions.add_subparsers(dest="verb", metavar="VERB", title="what to do with them")

    def verb(name: str, description: str, *, of_agents: bool = True) -> argparse.ArgumentParser:
        parser = verbs.add_parser(
            name,
            help=description,
            description=f"{description[0].upper()}{description[1:]}.",
            argument_default=argparse.SUPPRESS,
        )
        _add_log(parser)
        if of_agents:
            _add_agent(parser, several=name == "list")
            parser.add_argument("--cwd", metavar="DIR", help="the folder whose sessions are meant")
        _add_store(parser)
        return parser

    listing = verb("list", "list them, the newest first (default)")
    search = verb("search", "list those in which all of some words are", of_agents=False)
    search.add_argument("words", metavar="WORD", nargs="+", help="a word, or its beginning")
    for parser in (sessions, listing, search):
        parser.add_argument("--json", action="store_true", help="for programs")
        parser.add_argument(
            "--limit", type=_count, metavar="N", help=f"as many at the most ({LISTED})"
        )
    for parser in (sessions, listing):
        parser.add_argument("--all", action="store_true", help="those of all folders")
    _add_agent(sessions, several=True)
    _add_store(sessions)
    sessions.add_argument("--cwd", metavar="DIR", help="the folder whose sessions are meant")
    sessions.set_defaults(verb="list", all=False, json=False, limit=LISTED)
    show = verb("show", "show what was said in one")
    export = verb("export", "write one as Markdown, or as JSON with all there is")
    export.add_argument("--format", choices=("markdown", "json"), default="markdown")
    delete = verb("delete", "delete one for ever")
    for parser in (show, export, delete):
        parser.add_argument("session", metavar="ID", help="its id, or the beginning of it")
    verb("repair", "save what can be read of a damaged store", of_agents=False)
    verb("vacuum", "make the store as small as what is in it", of_agents=False)


def _fill_nodes(nodes: argparse.ArgumentParser) -> None:
    verbs = nodes.add_subparsers(dest="verb", metavar="VERB", title="what to do with them")
    verbs.add_parser(
        "list",
        help="list those that are alive (default)",
        description="Lists those that are alive.",
        argument_default=argparse.SUPPRESS,
    )
    drain = verbs.add_parser(
        "drain",
        help="let one take no more sessions, and leave when what it has begun is over",
        description="Lets a server take no more sessions, and leave when all it has is over.",
        argument_default=argparse.SUPPRESS,
    )
    drain.add_argument("name", metavar="NAME", help="what its --node says")
    for parser in (nodes, drain):
        parser.add_argument("--store", metavar="URL", help="the store: postgresql://…")
    _add_json(nodes)
    nodes.set_defaults(verb="list")


def _fill_trace(trace: argparse.ArgumentParser) -> None:
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
    add("--follow", "-f", action="store_true", default=False, help="go on with what is written")
    add("--odd", action="store_true", default=False, help="only what is not as it should be")
    add("--session", metavar="ID", default="", help="only this session: the beginning of its id")
    add("--grep", metavar="TEXT", default="", help="only what has this text in it")
    add("--whole", action="store_true", default=False, help="with the lines as they were")
    add(
        "--late",
        type=_number_of_seconds,
        metavar="S",
        default=10.0,
        help="from how many seconds on an answer is late (10)",
    )


def _number_of_seconds(text: str) -> float:
    seconds = _seconds(text)
    if not isinstance(seconds, float):
        raise argparse.ArgumentTypeError("a number of seconds is required")
    return seconds


def _speed(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")
    return value


def _seconds(text: str) -> float | str:
    """A positive number of seconds, or `none`."""
    if text == "none":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of seconds nor `none`")
    return value


def _count(text: str) -> int:
    """A whole number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return int(text)
