"""Records what a real codex says in a rich conversation, line by line.

    PYTHONPATH=tests python -m agents.record_codex FILE

The conversation has text, thoughts, a command, an edit, a goal, a sub-agent, a compaction, a
review and an error of the provider. The model is the scripted one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from .lab import model_server, prepare
from .modelserver.scripts import Call, Edit, Shell, Status, Text, Thinking, prompt_for
from .versions import agents_root

SECONDS: Final = 30.0
Json = dict[str, Any]


class Recorded:
    """A codex process whose messages are kept. Approvals are granted."""

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], cwd: Path) -> None:
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=pipe, stdout=pipe)
        self.messages: list[Json] = []
        self._new = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self._id = 0

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            if "id" in message and "method" in message:
                self.send({"id": message["id"], "result": {"decision": "accept"}})
            with self._new:
                self.messages.append(message)
                self._new.notify_all()

    def send(self, message: Json) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def request(self, method: str, **params: Any) -> Json:
        self._id += 1
        id = self._id
        self.send({"id": id, "method": method, "params": params})
        return self.wait(lambda message: message.get("id") == id and "method" not in message)

    def wait(self, wanted: Callable[[Json], bool], since: int = 0) -> Json:
        def found() -> Json | None:
            return next((each for each in self.messages[since:] if wanted(each)), None)

        with self._new:
            if not self._new.wait_for(lambda: found() is not None, SECONDS):
                raise SystemExit("codex did not say what was waited for")
            message = found()
        assert message is not None
        return message

    def turn(self, thread: str, method: str, **params: Any) -> None:
        since = len(self.messages)
        self.request(method, threadId=thread, **params)
        self.wait(
            lambda message: (
                message.get("method") == "turn/completed"
                and message["params"]["threadId"] == thread
            ),
            since,
        )

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(SECONDS)
        self._reader.join(SECONDS)


def record(folder: Path) -> list[Json]:
    """Return what codex says."""
    child = prompt_for([[Text("The child works."), Shell("echo child")], [Text("A report.")]])
    with model_server(folder) as model:
        lab = prepare("codex", model, agents_root(), folder)
        codex = Recorded(lab.argv, lab.env, lab.work)
        client = {"name": "agentrt", "version": "1", "title": "agentrt"}
        codex.request("initialize", clientInfo=client, capabilities={"experimentalApi": True})
        codex.send({"method": "initialized"})
        answer = codex.request("thread/start", cwd=str(lab.work))
        thread = answer["result"]["thread"]["id"]
        scripts = [
            [[Thinking("I think."), Text("Hello.")]],
            [[Shell("echo hello")], [Text("It ran.")]],
            [[Edit(str(lab.work / "a.txt"), "one\n")], [Text("It is written.")]],
            [[Call("create_goal", {"objective": "finish"})], [Text("A goal.")]],
            [[Call("update_goal", {"status": "complete"})], [Text("Done.")]],
            [[Call("spawn_agent", {"message": child})], [Text("It works.")]],
            [[Status(401)]],
        ]
        for script in scripts:
            text = {"type": "text", "text": prompt_for(script)}
            codex.turn(thread, "turn/start", input=[text])
        codex.turn(thread, "thread/compact/start")
        about = {"type": "custom", "instructions": prompt_for([[Text("Nothing found.")]])}
        codex.turn(thread, "review/start", target=about, delivery="inline")
        codex.close()
    return codex.messages


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        messages = record(Path(name))
        lines = "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in messages)
        Path(sys.argv[1]).write_text(lines.replace(name, "/sandbox"))


if __name__ == "__main__":
    main()
