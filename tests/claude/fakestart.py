"""What the scripted CLI does in the handshake's place; scenarios of `fakecli.py`."""

from __future__ import annotations

import json
import sys
import time

from fakelegacy import legacy as legacy
from fakelegacy import legacy_dies as legacy_dies
from fakelegacy import legacy_late as legacy_late
from fakelegacy import legacy_mute as legacy_mute
from fakewire import Cli, Json

REPLY: Json = {
    "commands": [{"name": "compact", "description": "summarise", "argumentHint": ""}],
    "models": [{"value": "default", "resolvedModel": "fake", "displayName": "Fake"}],
    "claude_code_version": "0.0.fake",
    "current_permission_mode": "default",
}


def no_login(cli: Cli) -> None:
    """Has no credentials, and says so to who looks for it."""
    first = cli.inbox.get()
    assert first is not None
    account = {"tokenSource": "none", "apiProvider": "firstParty"}
    cli.success(first["request_id"], {**REPLY, "account": account})
    cli.wait(lambda m: False)


def exit_before_reply(cli: Cli) -> None:
    print("error: unknown option '--await-initialize'", file=sys.stderr, flush=True)
    cli.bye(1)


def refuses_to_start(cli: Cli) -> None:
    """Says why in a result, and ends."""
    cli.inbox.get()
    cli.write(
        {
            "subtype": "error_during_execution",
            "is_error": True,
            "errors": ["No conversation found with session ID: gone"],
            "type": "result",
        }
    )
    cli.bye(1)


def mcp_before_reply(cli: Cli) -> None:
    """Wants its MCP servers before it answers the handshake."""
    first = cli.inbox.get()
    assert first is not None
    cli.greet_mcp()
    cli.success(first["request_id"], REPLY)
    prompt = cli.prompt()
    reply = cli.answer(cli.call_mcp(1, "tools/list"))
    cli.say(json.dumps([t["name"] for t in reply["mcp_response"]["result"]["tools"]]))
    cli.done(prompt)
    cli.wait(lambda m: False)


def never_starts(cli: Cli) -> None:
    """Has read the handshake, and says nothing to it."""
    cli.inbox.get()
    print("now", file=sys.stderr, flush=True)
    cli.inbox.get()
    cli.ended()


def slow_start(cli: Cli) -> None:
    """Takes a while for the handshake, as with many plugins and slow hooks."""
    first = cli.inbox.get()
    assert first is not None
    time.sleep(1)
    cli.success(first["request_id"], {})
    prompt = cli.prompt()
    cli.say("At last.")
    cli.done(prompt)
    cli.wait(lambda m: False)
