"""The command line: parse the arguments, run the subcommand, and report errors.

Everything except the parser is imported on demand, to keep `--version` and `--help` fast.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..config import Config, LogLevel
    from ..errors import AgentrtError
    from .options import Work


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    try:
        _fill_standard_streams()
        try:
            options = _parsed(sys.argv[1:] if arguments is None else arguments)
            status = 2 if options is None else _run(options)
        except SystemExit as done:  # raised by argparse after `--help` or `--version`
            status = done.code if isinstance(done.code, int) else 1
        sys.stdout.flush()
    except BrokenPipeError:
        from .output import forget_stdout

        forget_stdout()
        return 141
    return status


def _fill_standard_streams() -> None:
    """Open the null device for each closed standard stream, so that no other file gets its
    number.
    """
    for fd, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, os.fdopen(fd, "w" if fd else "r", closefd=False))


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
        from ..events import ErrorInfo

        line = failure(format, ErrorInfo("usage", message), agent=None)
        sys.stdout.write(escaped(line.decode()))


def _run(options: argparse.Namespace) -> int:
    """Prepare and run the subcommand; returns the exit status.

    Trio is imported only when there is something to run, so that help and usage errors are fast.
    """
    from ..errors import AgentrtError
    from .exit_status import exit_code
    from .text import plain

    try:
        work = _prepare(options)
    except AgentrtError as error:
        print(f"agentrt: {plain(str(error))}", file=sys.stderr)
        if options.subcommand in (None, "attach") and options.output_format is not None:
            _print_failure(options, error)
        return exit_code(error)
    import trio

    return trio.run(work)


def _print_failure(options: argparse.Namespace, error: AgentrtError) -> None:
    """Also report on standard output, in the requested format, why nothing was started."""
    from .commands.formats import error_of, failure
    from .text import escaped

    line = failure(options.output_format, error_of(error), agent=options.agent)
    sys.stdout.write(escaped(line.decode()))


def _prepare(options: argparse.Namespace) -> Work:
    """Check the options, read the configuration, and return the work of the subcommand.

    Raises `AgentrtError`.
    """
    from functools import partial
    from importlib import import_module

    from ..config import load_config
    from .auditing import audit_log, audited
    from .options import check_options, expand_record, flags, warn_of_exposed_secrets
    from .printing import print_warning
    from .signals import until_signalled
    from .subcommands import SUBCOMMANDS

    if options.subcommand == "record":
        expand_record(options)
    subcommand = SUBCOMMANDS[options.subcommand]
    check_options(options, subcommand)
    config = load_config(options.cwd, flags=flags(options))
    warn_of_exposed_secrets(options, config)
    for warning in () if subcommand.shows_warnings else config.warnings:
        print_warning(warning)
    _start_logging(config, subcommand.log_level)
    module = import_module(f".commands.{subcommand.module}", __package__)
    prepare: Callable[[argparse.Namespace, Config], Work] = module.prepare
    work = prepare(options, config)
    recorded = subcommand.changes.get(getattr(options, "verb", ""))
    if recorded is not None and (log := audit_log(config)) is not None:
        work = audited(work, log, options, recorded)
    return partial(until_signalled, work)


def _start_logging(config: Config, default: LogLevel | None) -> None:
    """Log to standard error at the configured level, or at `default`; without one, log nothing."""
    import logging

    logging.getLogger("agentrt").addHandler(logging.NullHandler())  # no output unless requested
    level = config.log.level or default
    if level is not None:
        from .logs import start_logging

        start_logging(level, config.log.format)
