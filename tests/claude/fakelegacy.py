"""A program of the reverse-engineered protocol; a scenario of `fakecli.py`."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
from pathlib import Path

from fakewire import Cli, Json


def legacy_mute(cli: Cli) -> None:
    """The same, and says nothing of a turn that was aborted: all that the page promises."""
    legacy(cli, says_aborted=False)


def legacy_late(cli: Cli) -> None:
    """The same, and its result of an aborted turn comes with the next prompt."""
    legacy(cli, says_aborted=False, late=True)


def legacy_dies(cli: Cli) -> None:
    """Takes each session's id once; ends in every turn that says so."""
    used = Path(os.environ["FAKELEGACY_USED"])
    known = used.read_text().split() if used.exists() else []
    if cli.session in known:
        print(f"Session ID {cli.session} is already in use.", file=sys.stderr, flush=True)
        cli.bye(1)
    used.write_text(" ".join([*known, cli.session]))
    while True:
        prompt = cli.inbox.get()
        if prompt is None:
            cli.bye(0)
        if prompt["message"]["content"] == "die":
            cli.bye(9)
        said = {"type": "text", "text": f"Said: {prompt['message']['content']}"}
        cli.write({"type": "assistant", "message": {"role": "assistant", "content": [said]}})
        cli.write({"type": "result", "subtype": "success", "is_error": False, "result": "done"})


def legacy(cli: Cli, says_aborted: bool = True, late: bool = False) -> None:
    """The reverse-engineered protocol: snapshots, approve and deny, SIGINT ends the turn only."""
    owes = False
    aborted = threading.Event()
    signal.signal(signal.SIGINT, lambda *_: aborted.set())
    cli.system("init", model="fake")

    def snapshot(*blocks: Json) -> None:
        cli.write({"type": "assistant", "message": {"role": "assistant", "content": list(blocks)}})

    def incoming() -> Json | None:
        """The next message, or None when the turn is aborted."""
        while not aborted.is_set():
            try:
                message = cli.inbox.get(timeout=0.02)
            except queue.Empty:
                continue
            if message is None:
                cli.bye(0)
            return message
        aborted.clear()
        return None

    while True:
        prompt = incoming()
        if prompt is None:
            continue
        assert prompt["type"] == "user", prompt
        failed = {"subtype": "error_during_execution", "is_error": True}
        if owes:
            cli.write({"type": "result", **failed})
            owes = False
        words: Json = {"type": "text", "text": "I will run a command."}
        use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
        snapshot(words)
        snapshot(words, use)
        decision = incoming()
        if decision is None:
            if says_aborted:
                cli.write({"type": "result", **failed, "session_id": cli.session})
            owes = late
            continue
        denied = decision["type"] == "deny"
        cli.used("c1", "no" if denied else "README.md", error=denied)
        snapshot({"type": "text", "text": f"It was: {decision['type']}"})
        cli.write({"type": "result", "subtype": "success", "is_error": False, "result": "done"})
