"""The worst agent as one that speaks Claude's stream-json:

    python worst_claude.py FILE [flags of Claude Code]

The first process reads its handshake and one prompt, and nothing ever again. The next one, which
knows by FILE that it is not the first, does everything right.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

CLAUDE = Path(__file__).parents[1] / "claude"
sys.path.insert(0, str(CLAUDE))

from fakestart import REPLY  # noqa: E402 - found by the path above
from fakewire import Cli  # noqa: E402


def read_message(buffer: bytearray) -> dict[str, object]:
    while b"\n" not in buffer:
        buffer += os.read(0, 4096)
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    message: dict[str, object] = json.loads(line)
    return message


def main() -> None:
    ran = Path(sys.argv[1])
    if ran.exists():
        command = [sys.executable, str(CLAUDE / "fakecli.py"), "plain", *sys.argv[2:]]
        os.execv(sys.executable, command)
    ran.touch()
    cli, buffer = Cli(), bytearray()
    cli.success(str(read_message(buffer)["request_id"]), REPLY)
    prompt = read_message(buffer)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    script = "trap '' TERM; while :; do sleep 1; done"
    subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True)
    cli.state("running")
    cli.fate(str(prompt["uuid"]), "started")
    cli.init()
    for number in range(2000):  # whose answers fill its input, so that nothing else gets in
        cli.call_mcp(number, "ping")
    cli.begin_text()
    while True:
        cli.write(cli.delta("nothing but noise " * 100))


if __name__ == "__main__":
    main()
