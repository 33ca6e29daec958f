"""A program of the reverse-engineered protocol; a scenario of `fakecli.py`."""

from __future__ import annotations

import queue
import signal
import threading

from fakewire import Cli, Json


def legacy(cli: Cli) -> None:
    """The reverse-engineered protocol: snapshots, approve and deny, SIGINT ends the turn only."""
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
        words: Json = {"type": "text", "text": "I will run a command."}
        use = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
        snapshot(words)
        snapshot(words, use)
        decision = incoming()
        if decision is None:
            failed = {"subtype": "error_during_execution", "is_error": True}
            cli.write({"type": "result", **failed, "session_id": cli.session})
            continue
        denied = decision["type"] == "deny"
        cli.used("c1", "no" if denied else "README.md", error=denied)
        snapshot({"type": "text", "text": f"It was: {decision['type']}"})
        cli.write({"type": "result", "subtype": "success", "is_error": False, "result": "done"})
