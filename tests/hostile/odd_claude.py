"""Programs that speak Claude's stream-json, for shapes that need a process of their own:

python odd_claude.py SCENARIO [flags of Claude Code, ignored]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "claude"))

from fakecli import plain, slow
from fakestart import REPLY
from fakewire import Cli


def many_tools(cli: Cli) -> None:
    """Calls a tool again and again, while it streams, before it looks at any answer."""
    prompt = cli.prompt()
    cli.greet_mcp()
    cli.begin_text()
    calls = []
    for number in range(60):
        for _ in range(20):
            cli.write(cli.delta("word "))
        params = {"name": "record", "arguments": {"summary": str(number)}}
        calls.append(cli.call_mcp(100 + number, "tools/call", **params))
    answers = {}
    while len(answers) < len(calls):  # in whatever order
        message = cli.wait(lambda m: m["type"] == "control_response")
        assert message is not None
        answers[message["response"]["request_id"]] = message["response"]["response"]
    results = [answers[call]["mcp_response"]["result"] for call in calls]
    texts = [result["content"][0]["text"] for result in results]
    cli.say(json.dumps(texts))
    cli.done(prompt)
    plain(cli)


def long_line(cli: Cli) -> None:
    """An answer, and then the result itself, are longer than the host takes."""
    prompt = cli.prompt()
    cli.say("x" * 300_000)
    cli.say("short")
    cli.done(prompt)
    prompt = cli.prompt()
    cli.say("short")
    cli.result(prompt, result="x" * 300_000)
    cli.state("idle")
    plain(cli)


SCENARIOS = {"many_tools": many_tools, "long_line": long_line, "slow": slow}


def main() -> None:
    cli = Cli()
    cli.reading.start()
    first = cli.inbox.get()
    assert first is not None
    cli.success(first["request_id"], REPLY)
    SCENARIOS[sys.argv[1]](cli)


if __name__ == "__main__":
    main()
