"""The agent of `programs.claude` as a process of its own, which speaks Claude Code's stream-json.

Standard library only, beside the wire of the scripted CLI.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "claude"))

from fakewire import Cli, Interrupted, Json


def stream(cli: Cli, text: str) -> None:
    cli.begin_text()
    cli.write(cli.delta(text[:3]))
    cli.write(cli.delta(text[3:]))
    cli.write(cli.event("content_block_stop", index=0))
    cli.write(cli.event("message_stop"))


def work(cli: Cli) -> None:
    cli.use("c1", command="ls")
    tool = {"tool_name": "Bash", "tool_use_id": "c1"}
    hook = {"hook_event_name": "PreToolUse", **tool, "tool_input": {}}
    cli.answer(cli.ask("hook_callback", callback_id="hook1", input=hook, tool_use_id="c1"))
    reply = cli.answer(cli.ask_tool("c1", "ls"))
    cli.state("running")
    allowed = bool(reply) and reply.get("behavior") == "allow"
    cli.used("c1", "ok" if allowed else "denied")
    if allowed:
        cli.greet_mcp()
        told = cli.answer(cli.call_mcp(1, "tools/call", name="record", arguments={"n": 1}))
        result = told["mcp_response"].get("result", {"content": [{"text": "not recorded"}]})
        stream(cli, f"the answer {result['content'][0]['text']}")


def take(cli: Cli, prompt: Json) -> None:
    match prompt["message"]["content"]:
        case "work":
            work(cli)
        case "stream":
            stream(cli, "on and on")
            while True:
                cli.next()
        case "die":
            stream(cli, "so long")
            os._exit(3)
        case text:
            stream(cli, text)


def main() -> None:
    cli = Cli()
    cli.reading.start()
    first = cli.inbox.get()
    if first is None:
        cli.bye(0)
    cli.success(first["request_id"], {"commands": [], "models": []})
    try:
        while True:
            prompt = cli.prompt()
            try:
                take(cli, prompt)
                cli.done(prompt)
            except Interrupted:
                cli.aborted(prompt)
    except Exception:
        traceback.print_exc()
        cli.bye(70)


if __name__ == "__main__":
    main()
