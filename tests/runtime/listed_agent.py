"""A program that writes its arguments, its environment and each message to a file, and answers as
an agent does: `python listed_agent.py LOG [ARGUMENT …]`."""

import json
import os
import sys

ANSWERS = {
    "initialize": {
        "protocolVersion": 1,
        "agentCapabilities": {
            "loadSession": True,
            "sessionCapabilities": {"resume": {}, "fork": {}},
        },
        "userAgent": "codex/1.0",
        "codexHome": "/",
        "platformFamily": "unix",
        "platformOs": "linux",
    },
    "session/new": {"sessionId": "s"},
    "session/fork": {"sessionId": "t"},
    "account/read": {"account": None, "requiresOpenaiAuth": False},
    "model/list": {"data": []},
}


def main() -> None:
    with open(sys.argv[1], "a", encoding="utf-8") as log:
        print(json.dumps({"argv": sys.argv[2:], "env": dict(os.environ)}), file=log, flush=True)
        if "--input-format=stream-json" in sys.argv:
            return  # Claude Code's protocol is not spoken
        for line in sys.stdin:
            print(line.strip(), file=log, flush=True)
            message = json.loads(line)
            if "id" in message:
                answer = ANSWERS.get(message.get("method"), {})
                print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer}))
                sys.stdout.flush()


main()
