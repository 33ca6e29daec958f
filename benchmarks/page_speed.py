"""Measure the page in Chromium: typing while an agent streams, scrolling, and memory.

    python benchmarks/page_speed.py [--quick] [--slowdown 6] [--only typing,scrolling,memory]

The agent repeats the updates of real agents that `tests/acp/transcripts` has. The page runs on a
CPU that Chromium slows down, except for memory. The times of tasks, and of a key until the frame
that shows it, are CPU time of the page's main thread, from a trace of the browser. Chromium slows a
CPU down by time on the clock: other work on the machine makes what it slows down longer, so run
this on an idle one.

The exit code is 1 if a target was missed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

RATE = 2_000
"""Updates per second while somebody types."""

HOUR = 3600 * 50
"""Updates of an hour in which an agent writes 50 tokens per second."""

ITEMS = 20_000

TYPE = """() => {
    // The time of a key: from the event to the task after the frame that shows it.
    const channel = new MessageChannel();
    const waiting = [];
    channel.port1.onmessage = () => {
        const end = performance.now();
        for (const start of waiting.splice(0)) performance.measure("key", { start, end });
    };
    document.getElementById("prompt").addEventListener("input", ({ timeStamp }) => {
        requestAnimationFrame(() => (waiting.push(timeStamp), channel.port2.postMessage(0)));
    });
}"""

SCROLL = """async ([steps, from, to]) => {
    // Scrolls through the conversation as a wheel does; returns the milliseconds between frames.
    const box = document.querySelector(".transcript");
    const frame = () => new Promise(requestAnimationFrame);
    box.dispatchEvent(new WheelEvent("wheel", { deltaY: -1 }));
    box.scrollTop = box.scrollHeight * from;
    for (let count = 0; count < 10; count++) await frame();
    const frames = [];
    let last = await frame();
    for (let step = 0; step < steps; step++) {
        box.scrollTop += ((to - from) < 0 ? -1 : 1) * 240;
        const now = await frame();
        frames.push(now - last);
        last = now;
    }
    return frames;
}"""

HEAP = "Runtime.getHeapUsage"


class Row(NamedTuple):
    """A line of the table; a target of None is not asked for."""

    name: str
    value: float
    target: float | None
    unit: str

    def missed(self) -> bool:
        return self.target is not None and self.value > self.target

    def __str__(self) -> str:
        target = "" if self.target is None else f"{self.target:g}"
        mark = "  missed" if self.missed() else ""
        return f"{self.name:<58}{self.value:>9.1f}{target:>8} {self.unit}{mark}"


# --- the agent


def recorded() -> list[list[dict[str, Any]]]:
    """The updates of each recorded conversation."""
    found = []
    for file in sorted((ROOT / "tests/acp/transcripts").glob("*.ndjson")):
        updates = []
        for line in file.read_text().splitlines():
            entry = json.loads(line)
            message = entry.get("msg") or {}
            if entry.get("dir") == "<" and message.get("method") == "session/update":
                updates.append(message["params"]["update"])
        if updates:
            found.append(updates)
    return found


def agent() -> None:
    """Answer prompts `stream COUNT RATE` (0: as fast as it is read) and `items COUNT`."""

    def send(message: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def update(told: dict[str, Any]) -> None:
        send({"method": "session/update", "params": {"sessionId": "s1", "update": told}})

    def stream(count: int, rate: int) -> None:
        recordings = recorded()
        begun = time.monotonic()
        sent = 0
        for round in itertools.count():
            for number, updates in enumerate(recordings):
                for told in updates:
                    call = told.get("toolCallId")
                    update(
                        told if call is None else told | {"toolCallId": f"{round}.{number}.{call}"}
                    )
                    sent += 1
                    if sent == count:
                        return
                    if sent % 20 == 0:
                        sys.stdout.flush()
                        if rate:
                            time.sleep(max(0.0, begun + sent / rate - time.monotonic()))

    def items(count: int) -> None:
        for number in range(count // 2):
            text = f"Answer **{number}** with `code`.\n\n- one\n- two\n"
            update(
                {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
            )
            call: dict[str, Any] = {"toolCallId": f"c{number}", "title": f"call {number}"}
            call |= {"kind": "execute", "status": "completed"}
            output = {"type": "content", "content": {"type": "text", "text": "an output\n" * 3}}
            update({"sessionUpdate": "tool_call", **call, "content": [output]})

    for line in sys.stdin:
        message = json.loads(line)
        result: dict[str, Any] = {}
        match message.get("method"):
            case "initialize":
                result = {"protocolVersion": 1, "agentCapabilities": {}}
            case "session/new":
                result = {"sessionId": "s1"}
            case "session/prompt":
                verb, *numbers = message["params"]["prompt"][0]["text"].split()
                {"stream": stream, "items": items}[verb](*map(int, numbers))
                result = {"stopReason": "end_turn"}
        if "id" in message:
            send({"id": message["id"], "result": result})
            sys.stdout.flush()


# --- the page


class Seen:
    """What a trace of the browser has, in milliseconds of CPU time."""

    tasks_ms: list[float]
    keys_ms: list[float]


class Window:
    """The page of a server with the agent above, in a browser of its own."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self._cdp = page.context.new_cdp_session(page)

    def turn(self, prompt: str) -> None:
        """Send a prompt and wait for the end of its turn, which may take minutes."""
        from browser.kit import ask, phase

        ask(self.page, prompt)
        phase(self.page, "Working")
        phase(self.page, "Idle")

    def slow_down(self, factor: float) -> None:
        self._cdp.send("Emulation.setCPUThrottlingRate", {"rate": factor})

    def heap_mb(self) -> float:
        """The memory of the page's own objects, without garbage."""
        for _ in range(3):
            self._cdp.send("HeapProfiler.collectGarbage")
            self.page.wait_for_timeout(200)
        return float(self._cdp.send(HEAP)["usedSize"]) / 1e6

    @contextlib.contextmanager
    def traced(self) -> Iterator[Seen]:
        """Collect what the page's main thread does in the block."""
        from browser.tasks import keys_ms, tasks_ms

        seen = Seen()
        browser = self.page.context.browser
        categories = ["toplevel", "devtools.timeline", "blink.user_timing"]
        browser.start_tracing(page=self.page, categories=categories)
        yield seen
        trace = json.loads(browser.stop_tracing())
        seen.tasks_ms = tasks_ms(trace)
        seen.keys_ms = keys_ms(trace)


@contextlib.contextmanager
def window() -> Iterator[Window]:
    from playwright.sync_api import sync_playwright

    from browser.kit import CHROMIUM, phase, serving

    command = shlex.join([sys.executable, __file__, "--agent"])
    with (
        tempfile.TemporaryDirectory() as root,
        serving(Path(root), "--command", command) as server,
        sync_playwright() as playwright,
    ):
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        page = browser.new_page(viewport={"width": 1200, "height": 760})
        page.set_default_timeout(600_000)
        page.goto(server.link())
        phase(page, "Idle")
        yield Window(page)
        browser.close()


def typing(slowdown: float, seconds: int) -> list[Row]:
    from browser.kit import ask, phase

    with window() as seen:
        page = seen.page
        page.evaluate(TYPE)
        seen.slow_down(slowdown)
        ask(page, f"stream {RATE * (seconds + 4)} {RATE}")
        phase(page, "Working")
        page.wait_for_timeout(2_000)
        page.get_by_label("Message the agent").focus()
        with seen.traced() as traced:
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                page.keyboard.press(
                    "x"
                )  # without the look-ups of a locator, which the page's thread does
                page.wait_for_timeout(60)
        seen.slow_down(1)
        keys, tasks = sorted(traced.keys_ms), sorted(traced.tasks_ms)
        return [
            Row(f"typing: a key, half of {len(keys)}", statistics.median(keys), None, "ms"),
            Row("typing: a key, 95 %", keys[len(keys) * 95 // 100], 50, "ms"),
            Row("typing: a task, 99 %", tasks[len(tasks) * 99 // 100], None, "ms"),
            Row("typing: the longest task", tasks[-1], 100, "ms"),
        ]


def scrolling(slowdown: float, steps: int) -> list[Row]:
    from browser.kit import ask, phase

    with window() as seen:
        page = seen.page
        ask(page, f"items {ITEMS}")
        page.get_by_text(f"call {ITEMS // 2 - 1}", exact=True).wait_for()
        phase(page, "Idle")
        rows = []
        for name, factor in (("", 1.0), (f", CPU slowed {slowdown:g} times", slowdown)):
            seen.slow_down(factor)
            frames: list[float] = []
            with seen.traced() as traced:
                for from_, to in ((0.3, 1.0), (0.7, 0.0)):
                    frames += page.evaluate(SCROLL, [steps, from_, to])
            frames.sort()
            rows += [
                Row(f"scrolling: a frame, 95 %{name}", frames[len(frames) * 95 // 100], None, "ms"),
                Row(f"scrolling: the longest frame{name}", frames[-1], None, "ms"),
                Row(f"scrolling: the longest task{name}", max(traced.tasks_ms), 50, "ms"),
            ]
        return rows


def memory(updates: int) -> list[Row]:
    with window() as seen:
        seen.turn(f"stream {updates // 12} 4000")
        first = seen.heap_mb()
        seen.turn(f"stream {updates} 4000")
        last = seen.heap_mb()
        return [
            Row(f"memory after five minutes, {updates // 12:,} updates", first, None, "MB"),
            Row(f"memory after an hour more, {updates:,} updates", last, None, "MB"),
            Row("memory, relation of the two", last / first, 1.5, "×"),
        ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of everything")
    parser.add_argument("--slowdown", type=float, default=6.0)
    parser.add_argument("--only", default="typing,scrolling,memory")
    parser.add_argument("--agent", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.agent:
        agent()
        return 0
    share = 5 if given.quick else 1
    os.environ.setdefault("AGENTRT_TEST_RUN", "page")
    rows: list[Row] = []
    for name in given.only.split(","):
        if name == "typing":
            rows += typing(given.slowdown, 20 // share)
        elif name == "scrolling":
            rows += scrolling(given.slowdown, 400 // share)
        elif name == "memory":
            rows += memory(HOUR // share)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    print(f"{'':<58}{'':>9}{'target':>8}")
    print(*rows, sep="\n")
    return any(row.missed() for row in rows)


if __name__ == "__main__":
    sys.exit(main())
