"""Writes `golden/*.ndjson`. Run it in `tests/` after a change that is meant to be seen::

    python -m model.make_golden

Each line is a frame of `agentrt.v1`. A `snapshot` is what must be shown at its `seq`; an `event` is
what comes next. The first line is the snapshot that a viewer starts from, and behind each event
stands the snapshot that must come out of it. A field that is absent has its default: no text, an
empty list, null, false; the status of an item is then `running`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from agentrt.lowlevel import SessionState

from .stories import STORIES
from .talk import Talk

FOLDER = Path(__file__).parent / "golden"


def trace(name: str) -> Iterator[bytes]:
    """The lines of a story."""
    talk = Talk(ready=False)
    state = SessionState(talk.conversation.agent)
    talk.set_agent(pid=42, alive=True)
    talk.live("open")
    talk.step()
    talk = STORIES[name](talk) or talk
    yield _frame("snapshot", state, 0)
    for seq, event in enumerate(talk.log.since(0), 1):
        state.apply(event)
        yield msgspec.json.encode(
            {"type": "event", "session": "s1", "epoch": "e1", "seq": seq, "event": event}
        )
        yield _frame("snapshot", state, seq)


def _frame(type: str, state: SessionState, seq: int) -> bytes:
    fields = msgspec.structs.asdict(state.snapshot("s1", "e1", seq))
    return msgspec.json.encode({"type": type, **fields})


def main() -> None:
    for name in STORIES:
        lines = b"".join(line + b"\n" for line in trace(name))
        (FOLDER / f"{name}.ndjson").write_bytes(lines)


if __name__ == "__main__":
    main()
