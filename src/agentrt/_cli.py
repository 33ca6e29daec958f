"""The command line: what can be said to it, and which part of the terminal does it.

Everything but the parser is imported when it is needed: `--version` and `--help` cost next to
nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from . import __version__

if TYPE_CHECKING:
    from ._config import Config

USAGE = """\
agentrt [options]              a conversation
       agentrt [options] -p TEXT      one prompt
       agentrt serve [options]        the same for browsers
       agentrt agents|doctor [options]"""

DESCRIPTION = """\
Talk to a coding agent: in a conversation, or with one prompt whose answer goes to standard output.

  agentrt                       a conversation in this folder
  agentrt -p "list the files"   one prompt
  git diff | agentrt -p "explain this"
"""

EXAMPLES = """\
commands:
  agentrt serve     serves sessions to browsers, and prints a link to the page
  agentrt agents    the agents that are known, which are installed, how to get the rest
  agentrt doctor    starts the installed agents and says what works
  (agentrt COMMAND --help says more)

examples, on the built-in demo agent:
  agentrt --agent demo
  agentrt --agent demo -p "read README.md:1-10"
  agentrt --agent demo -p "create a.txt with hello" --permissions allow-all
  agentrt --agent demo -p "run date" --allow "Bash(date)"
  agentrt --agent demo -p "list the files" --output-format json
  agentrt --agent demo -p /slow --timeout 2

permission rules (--allow, --deny, repeatable; what is denied is denied):
  Read  mcp__app__*  "Bash(git status:*)"  "Bash(npm test)"  "Edit(src/**)"

exit status of -p:
  0  the turn was completed       4  no such agent or session
  1  the agent or the turn failed 5  it ended because a permission was denied
  2  wrong usage                  130, 143  interrupted (SIGINT, SIGTERM)
  3  a time limit was reached     141  nobody reads the output any more
"""

AGENTS = """\
Lists the agents that agentrt knows: those that are installed with their program and version, and
how to get the others. Agents of your own go into the configuration file.
"""

DOCTOR = """\
Starts each installed agent in an empty folder, shakes hands with it, and says what works: version,
what it can do, its modes and models, or why it does not start. No prompt is sent, nothing is spent.
The exit status is 1 if one of them does not work.
"""

DOCTOR_EXAMPLES = """\
examples:
  agentrt doctor
  agentrt doctor --agent demo --agent claude
  agentrt doctor --command "python -m agentrt.demo" --json
"""


SERVE = """\
Serves sessions to browsers: prints a link to the page, which the first browser that opens it is let
in by; and then another link. Ctrl-C or SIGTERM ends it: every page is told, every agent is ended.
"""

SERVE_EXAMPLES = """\
examples:
  agentrt serve
  agentrt serve --agent demo --port 8000
  agentrt serve --host 0.0.0.0 --port 8000 --allow-host agents.example --token "$TOKEN"

A program without a browser connects to /ws with `Authorization: Bearer TOKEN`. To keep the token
from those who list processes, say it as AGENTRT_SERVE_TOKEN.
"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, **options: Any) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **options
        )

    def error(self, message: str) -> NoReturn:
        if message.startswith("argument COMMAND: invalid choice"):
            message += "; a prompt is written -p TEXT"
        self.exit(2, f"agentrt: {message}\nagentrt: `{self.prog} --help` says what there is\n")


def _seconds(text: str) -> float | str:
    """A positive number of seconds, or `none`."""
    if text == "none":
        return text
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds (nor `none`)")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="agentrt", usage=USAGE, description=DESCRIPTION, epilog=EXAMPLES)
    parser.add_argument("--version", action="version", version=f"agentrt {__version__}")
    _add_agent(parser)
    add = parser.add_argument_group("one prompt").add_argument
    add("-p", "--prompt", metavar="TEXT", help="the prompt; standard input is added to it")
    add(
        "--output-format",
        choices=("text", "json", "stream-json"),
        help="the answer while it comes (default), one object at the end, or one event a line",
    )
    _add_session(parser)
    parser.set_defaults(cwd=".")
    commands = parser.add_subparsers(
        prog="agentrt", dest="subcommand", metavar="COMMAND", help=argparse.SUPPRESS
    )
    agents = commands.add_parser("agents", description=AGENTS)
    agents.add_argument("--json", action="store_true", help="for programs")
    doctor = commands.add_parser(
        "doctor", description=DOCTOR, epilog=DOCTOR_EXAMPLES, argument_default=argparse.SUPPRESS
    )
    add = doctor.add_argument
    add("--agent", metavar="NAME", action="append", dest="agents", help="only this one; repeatable")
    add("--command", metavar="'CMD ARGS'", help="any other agent: how to start it")
    add("--protocol", choices=("acp", "claude"), help="what --command speaks (acp)")
    add("--json", action="store_true", default=False, help="for programs")
    serve = commands.add_parser(
        "serve", description=SERVE, epilog=SERVE_EXAMPLES, argument_default=argparse.SUPPRESS
    )
    _add_agent(serve)
    add = serve.add_argument_group("the server").add_argument
    add("--host", metavar="ADDRESS", help="the address to listen on (127.0.0.1)")
    add("--port", type=int, metavar="N", help="the port (0: any free one)")
    add("--token", help="what programs show, and links stand for (random)")
    add("--viewer-token", metavar="TOKEN", help="another one, which lets its bearers only look on")
    add("--allow-host", metavar="NAME[:PORT]", action="append", help="a name that it is reached by")
    add("--allow-origin", metavar="URL", action="append", help="an origin whose pages may connect")
    _add_session(serve)
    return parser


def _add_agent(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the agent").add_argument
    add("--agent", metavar="NAME", help="a name of `agentrt agents`")
    add("--command", metavar="'CMD ARGS'", help="any other agent: how to start it")
    add("--protocol", choices=("acp", "claude"), help="what --command speaks (acp)")


def _add_session(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("the session").add_argument
    add("--cwd", metavar="DIR", help="the folder that the agent works in")
    add("--resume", metavar="ID", help="go on with an earlier session, by the agent's own id")
    add("--model", metavar="ID", help="the agent's model, by its own name for it")
    add("--mode", metavar="ID", help="the agent's mode, by its own name for it")
    add = parser.add_argument_group("permissions").add_argument
    add(
        "--permissions",
        choices=("ask", "deny", "allow-all"),
        help="what happens to a request that no rule covers"
        " (ask where somebody can be asked, else deny)",
    )
    add("--allow", metavar="RULE", action="append", help="allow what the rule covers")
    add("--deny", metavar="RULE", action="append", help="deny what the rule touches")
    add = parser.add_argument_group("limits, in seconds or `none`").add_argument
    add("--timeout", type=_seconds, metavar="S", help="the longest a turn may take (1800)")
    add("--idle-timeout", type=_seconds, metavar="S", help="the longest silence in it (none)")
    add(
        "--cancel-grace",
        type=_seconds,
        metavar="S",
        help="how long a cancelled agent may take to end its turn (10)",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    _fill_standard_streams()
    try:
        try:
            status = _run(_parser().parse_args(arguments))
        except SystemExit as done:  # argparse: `--help`, or wrong usage
            status = done.code if isinstance(done.code, int) else 1
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        from ._terminal.output import forget_stdout

        forget_stdout()
        return 141
    return status


def _fill_standard_streams() -> None:
    """Give a closed standard stream's number to the null device, before another file gets it."""
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


def _run(options: argparse.Namespace) -> int:
    from ._errors import AgentrtError
    from ._terminal.setup import exit_code
    from ._terminal.text import plain

    try:
        work = _work(options)
    except AgentrtError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        return exit_code(error)
    import trio

    return trio.run(work)


def _work(options: argparse.Namespace) -> Callable[[], Awaitable[int]]:
    """What is to be done, once everything that was said has been understood. Raises
    `AgentrtError`."""
    from functools import partial

    from ._config import load_config
    from ._terminal.setup import Setup, UsageError, choose_agent
    from ._terminal.signals import until_signalled

    if options.command is not None and options.agent is not None:
        raise UsageError("--agent and --command exclude each other")
    if options.protocol is not None and options.command is None:
        raise UsageError("--protocol says what --command speaks, and there is no --command")
    if not os.path.isdir(options.cwd):
        raise UsageError(f"--cwd: there is no folder {options.cwd!r}")
    config = load_config(options.cwd, flags=_flags(options))
    for warning in config.warnings:
        print(f"agentrt: warning: {warning}", file=sys.stderr)

    if options.subcommand == "agents":
        from ._terminal.agents import list_agents

        return partial(until_signalled, partial(list_agents, config, as_json=options.json))
    if options.subcommand == "doctor":
        return partial(until_signalled, _doctor(options, config))

    agent, note = choose_agent(config, options.agent, options.command, options.protocol)
    setup = Setup(
        agent=agent,
        note=note,
        config=config,
        cwd=options.cwd,
        resume=options.resume,
        model=options.model,
        mode=options.mode,
    )
    setup.policy("deny")  # raises what is wrong with the rules
    if options.subcommand == "serve":
        from ._terminal.serve import make_security, serve_pages

        start = options.agent is not None or options.command is not None
        serve = partial(serve_pages, setup, make_security(setup), start=start)
        return partial(until_signalled, serve)
    if options.prompt is not None or not os.isatty(0):
        from ._terminal.oneshot import one_shot

        return partial(one_shot, setup, options.prompt, options.output_format or "text")
    if options.output_format is not None:
        raise UsageError("--output-format is for one prompt: say -p TEXT")
    from ._terminal.repl import converse

    return partial(converse, setup)


def _doctor(options: argparse.Namespace, config: Config) -> Callable[[], Awaitable[int]]:
    from functools import partial

    from ._agents import resolve_agent
    from ._terminal.doctor import examine, installed
    from ._terminal.setup import UsageError, choose_agent

    names = getattr(options, "agents", [options.agent] if options.agent else [])
    if options.command is not None:
        if names:
            raise UsageError("--agent and --command exclude each other")
        agents = [choose_agent(config, None, options.command, options.protocol)[0]]
    else:
        agents = [resolve_agent(name, config) for name in dict.fromkeys(names)]
    return partial(examine, agents or installed(config), config, as_json=options.json)


def _flags(options: argparse.Namespace) -> dict[str, Any]:
    """What was said on the command line, in the shape of a configuration file."""
    limits = {
        "hard": options.timeout,
        "idle": options.idle_timeout,
        "cancel_grace": options.cancel_grace,
    }
    permissions = {"mode": options.permissions, "allow": options.allow, "deny": options.deny}
    serve = {
        name: getattr(options, name, None)
        for name in ("host", "port", "token", "viewer_token", "allow_host", "allow_origin")
    }
    return {
        "serve": {name: value for name, value in serve.items() if value is not None},
        "limits": {name: value for name, value in limits.items() if value is not None},
        "permissions": {name: value for name, value in permissions.items() if value is not None},
    }
