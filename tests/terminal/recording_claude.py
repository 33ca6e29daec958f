"""A Claude Code that answers with what it received at its start, and with a value if one was asked
for. Run by the tests of one-shot mode."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "claude"))
import fakestart
from fakewire import Cli


def main() -> None:
    cli = Cli()
    cli.reading.start()
    asked = cli.inbox.get()
    if asked is None:
        cli.bye(0)
    cli.success(asked["request_id"], fakestart.REPLY)
    told = {name: asked["request"].get(name) for name in ("systemPrompt", "appendSystemPrompt")}
    while True:
        prompt = cli.prompt()
        cli.say("Before the tool.")
        cli.say(json.dumps({**told, "argv": sys.argv[1:]}))
        schema = asked["request"].get("jsonSchema")
        value = {"value": 42, "schema": schema} if schema and "value" in schema else None
        cli.done(prompt, structured_output=value)


if __name__ == "__main__":
    main()
