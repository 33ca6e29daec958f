"""A crowd in front of one session: what two hundred viewers cost the agent that they watch.

    python benchmarks/crowd.py [--rounds 5] [--viewers 200] [--quick] [--only "as fast as it can"]

The server, the agent and the crowd are processes of their own. Of 200 viewers 20 never read and 20
are cut off at a random frame; the others must have the whole text in the end. Each round runs the
same turn without viewers and with them, on the same machine within seconds, so the ratio of the two
is what the viewers cost. The exit code is 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import random
import selectors
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import lab

TOKEN = "the-token-of-the-crowd"
SLOWER = 1.10
"""How much longer the agent's turn may take with the crowd."""
HELD = 160.0
"""MB that the server may grow by for the crowd, connections included."""

TURNS = {
    "2,000 updates a second": "BENCH trickle {n} 500",
    "as fast as it can": "BENCH flood {n} 200",
}
SIZES = {"2,000 updates a second": 6_000, "as fast as it can": 300_000}
QUICK = {"2,000 updates a second": 2_000, "as fast as it can": 100_000}


# --- the server, which does what it is told line by line


def serve(agent: str) -> None:
    import trio

    import agentrt
    from agentrt._core.config import Config

    async def main() -> None:
        config = Config(agents={"fake": agentrt.Agent(name="fake", command=(agent,))})
        security = agentrt.web.Security(token=TOKEN)
        async with (
            agentrt.open_runtime(config=config) as runtime,
            trio.open_nursery() as nursery,
        ):
            site = await nursery.start(partial(agentrt.web.serve, runtime, security=security))
            session = await runtime.create("fake", cwd="/")
            say(port=site.port, session=session.id)
            lines = trio.wrap_file(sys.stdin)
            while prompt := (await lines.readline()).strip():
                before, cpu, start = memory(), time.process_time(), time.monotonic()
                await session.run(prompt)
                wall, cpu = time.monotonic() - start, time.process_time() - cpu
                snapshot = session.snapshot()
                chars = sum(len(item.text or "") for item in snapshot.items)
                say(wall=wall, cpu=cpu, chars=chars, seq=snapshot.seq, before=before)
                await lines.readline()  # until the crowd has seen it all
                say(held=peak() - before, dropped=site.statistics().dropped)
            nursery.cancel_scope.cancel()

    trio.run(main)


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def memory(field: str = "VmRSS") -> float:
    """MB of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) / 1024
    raise LookupError(field)


def peak() -> float:
    return memory("VmHWM")


# --- the crowd, which must cost little: it takes bytes, and looks into them when all is over


@dataclass
class Peer:
    sock: socket.socket
    leaves_after: int | None
    """Frames until it is cut off."""
    data: bytearray = field(default_factory=bytearray)
    at: int = 0  # where the next frame begins
    done: bool = False
    """True if the end of the turn was seen: as the last event of a frame, or in a snapshot."""
    chars: dict[str, int] = field(default_factory=dict)
    """The length of each item's text, of which an end may have been sent."""
    seq: int = 0
    frames: int = 0
    snapshots: int = 0

    def take(self, data: bytes) -> None:
        self.data += data
        for start, end in self.whole():
            self.frames += 1
            for part in ((start, min(end, start + 4096)), (max(start, end - 4096), end)):
                self.done = self.done or self.data.find(b'"outcome":"completed"', *part) >= 0

    def whole(self) -> Iterator[tuple[int, int]]:
        """The payloads of text frames that have arrived whole since the last time."""
        data = self.data
        while len(data) >= self.at + 10:
            size, start = data[self.at + 1], self.at + 2
            if size == 126:
                size, start = int.from_bytes(data[self.at + 2 : self.at + 4], "big"), self.at + 4
            elif size == 127:
                size, start = int.from_bytes(data[self.at + 2 : self.at + 10], "big"), self.at + 10
            if len(data) < start + size:
                return
            opcode, self.at = data[self.at] & 15, start + size
            if opcode == 1:
                yield start, self.at

    def read(self) -> int:
        """Apply everything, strictly; how many characters are known in the end."""
        self.at = 0
        for start, end in self.whole():
            frame = json.loads(self.data[start:end])
            for message in frame if isinstance(frame, list) else [frame]:
                self.apply(message)
        return sum(self.chars.values())

    def apply(self, message: dict[str, Any]) -> None:
        if message["type"] == "snapshot":
            assert message["seq"] >= self.seq
            self.seq = message["seq"]
            self.chars = {item["id"]: chars_of(item) for item in message["items"]}
            self.snapshots += 1
        elif message["type"] == "event":
            assert message.get("since", message["seq"] - 1) == self.seq, "a gap or a double"
            self.seq = message["seq"]
            event = message["event"]
            if event["kind"] == "item.opened":
                self.chars[event["item"]["id"]] = chars_of(event["item"])
            elif event["kind"] == "item.delta":
                self.chars[event["item"]] += len(event["text"])
            elif event["kind"] == "item.updated" and "text" in event["patch"]:
                self.chars[event["item"]] = chars_of(event["patch"])


def chars_of(item: dict[str, Any]) -> int:
    """The length of an item's text, of which perhaps only the end was sent."""
    return item.get("_cut", {}).get("text", {}).get("start", 0) + len(item.get("text", ""))


def connect(port: int, session: str) -> socket.socket:
    coded = base64.urlsafe_b64encode(TOKEN.encode()).decode().rstrip("=")
    hello = {"type": "hello", "id": "h", "sessions": [{"session": session}]}
    words = json.dumps(hello).encode()
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(
        b"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %b\r\n"
        b"Sec-WebSocket-Protocol: agentrt.v1, agentrt.token.%b\r\n\r\n"
        % (port, base64.b64encode(os.urandom(16)), coded.encode())
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert b" 101 " in head, head
    assert len(words) < 126
    sock.sendall(bytes((0x81, 0x80 | len(words))) + bytes(4) + words)
    return sock


def watch(port: int, session: str, count: int, seed: int) -> None:
    dice = random.Random(seed)
    selector = selectors.DefaultSelector()
    healthy: list[Peer] = []
    deaf: list[socket.socket] = []
    for n in range(count):
        sock = connect(port, session)
        if n < count // 10:
            deaf.append(sock)
            continue
        cut = dice.randrange(2, 12) if n < count // 5 else None
        peer = Peer(sock, cut)
        if cut is None:
            healthy.append(peer)
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, peer)
    say(ready=count)
    left = len(healthy)
    while left:
        ready = selector.select(60)
        if not ready:
            say(error=f"{left} of {len(healthy)} viewers wait for ever")
            return
        for key, _ in ready:
            peer = key.data
            data = peer.sock.recv(1 << 20)
            if not data:
                say(error="a healthy viewer was sent away")
                return
            done = peer.done
            peer.take(data)
            if peer.leaves_after is not None and peer.frames >= peer.leaves_after:
                selector.unregister(peer.sock)
                peer.sock.close()
            elif peer.leaves_after is None and peer.done and not done:
                left -= 1
    sent = sum(len(peer.data) for peer in healthy) / 1e6
    when = time.monotonic()
    shown = sorted({peer.read() for peer in healthy})
    say(
        when=when,
        chars=shown,
        mb=sent,
        frames=statistics.mean(peer.frames for peer in healthy),
        snapshots=statistics.mean(peer.snapshots for peer in healthy),
    )


# --- a round


class Child:
    """Another process, by default of the same program, which says one JSON object a line."""

    def __init__(
        self,
        *arguments: object,
        program: Path = Path(sys.argv[0]),
        python: Path = Path(sys.executable),
    ) -> None:
        self._process = subprocess.Popen(
            [python, program, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a process of the benchmark has ended")
        said: dict[str, Any] = json.loads(line)
        if "error" in said:
            sys.exit(said["error"])
        return said

    def ask(self, words: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{words}\n")
        self._process.stdin.flush()
        return self.hear()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def turn(agent: Path, prompt: str, viewers: int, seed: int) -> dict[str, Any]:
    server = Child("serve", agent / "fake-acp")
    told = server.hear()
    crowd = Child("watch", told["port"], told["session"], viewers, seed) if viewers else None
    if crowd is not None:
        crowd.hear()
        time.sleep(0.5)  # until their snapshots are read
    out = server.ask(prompt)
    ended = time.monotonic()
    if crowd is not None:
        seen = crowd.hear()
        if seen["chars"] != [out["chars"]]:
            sys.exit(f"viewers show {seen['chars']} characters of {out['chars']}")
        out |= seen | {"lag": max(0.0, seen["when"] - ended)}
        crowd.end()
    out |= server.ask("all seen")
    server.end()
    return out


def compare(name: str, *, rounds: int, viewers: int, quick: bool, rows: str | None) -> bool:
    """Run one kind of turn, print what came out; whether that is good enough."""
    agent = lab.build_agent()
    size = (QUICK if quick else SIZES)[name]
    prompt = TURNS[name].format(n=size)
    pairs = [(turn(agent, prompt, 0, n), turn(agent, prompt, viewers, n)) for n in range(rounds)]
    alone, crowded = [a for a, _ in pairs], [b for _, b in pairs]

    def median(outs: list[dict[str, Any]], key: str) -> float:
        return statistics.median(out[key] for out in outs)

    def both(key: str, digits: int = 3) -> str:
        return f"{median(alone, key):.{digits}f} -> {median(crowded, key):.{digits}f}"

    times = [crowd["wall"] / none["wall"] for none, crowd in pairs]
    longer = statistics.median(times)
    held = median(crowded, "held")
    frames, snapshots = median(crowded, "frames"), median(crowded, "snapshots")
    print(
        f"\n{size:,} updates, {name}; {viewers} viewers; medians of {rounds} rounds\n"
        f"  the turn, s         {both('wall')}\n"
        f"  times as long       {longer:.3f}  (at most {SLOWER:g})\n"
        f"  the host's CPU, s   {both('cpu')}\n"
        f"  memory, MB more     {both('held', 0)}  (at most {HELD:g})\n"
        f"  complete after, s   {median(crowded, 'lag'):.2f}\n"
        f"  for each viewer     {frames:.0f} frames, {snapshots:.1f} of them snapshots\n"
        f"  for all together    {median(crowded, 'mb'):.0f} MB"
    )
    what = f"{size:,} updates, {name}, before {viewers} viewers"
    lab.keep(rows, "crowd", f"{what}: the turn, times as long", times, SLOWER)
    more = [out["held"] for out in crowded]
    lab.keep(rows, "crowd", f"{what}: memory, MB more", more, HELD)
    return longer <= SLOWER and held <= HELD


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", help=lab.ROWS)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=TURNS, help="one of the two kinds of turns")
    asked = vars(parser.parse_args())
    only = asked.pop("only")
    good = [compare(name, **asked) for name in TURNS if only in (None, name)]
    sys.exit(not all(good))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve", agent]:
            serve(agent)
        case ["watch", port, session, count, seed]:
            watch(int(port), session, int(count), int(seed))
        case _:
            main()
