"""Mistakes, planted one at a time: what the simulation must find.

Each is a change of one place of the source, as one could make it. A defect whose text is not in the
source any more is an error: then it has to be planted anew.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from .world import Driver


@dataclass(frozen=True)
class Change:
    """In the source of one function, `old` becomes `new`."""

    function: str
    """`module:Class.method`, below `agentrt`."""
    old: str
    new: str

    @contextmanager
    def made(self) -> Iterator[None]:
        module_name, _, path = self.function.partition(":")
        module = importlib.import_module(f"agentrt.{module_name}")
        owner: Any = module
        *owners, name = path.split(".")
        for each in owners:
            owner = getattr(owner, each)
        original = owner.__dict__[name]
        function = original.fget if isinstance(original, property) else original
        source = textwrap.dedent(inspect.getsource(function))
        if self.old not in source:
            raise LookupError(f"{self.function} does not contain {self.old!r} any more")
        scope: dict[str, Any] = {}
        code = compile(
            f"from __future__ import annotations\n{source.replace(self.old, self.new)}",
            f"<planted in {self.function}>",
            "exec",
        )
        exec(code, vars(module), scope)
        with patch.object(owner, name, scope[name]):
            yield


@dataclass(frozen=True)
class Defect:
    """A mistake, and where it can be seen."""

    name: str
    changes: tuple[Change, ...]
    drivers: tuple[Driver, ...] = ("acp", "claude")

    @contextmanager
    def planted(self) -> Iterator[None]:
        with ExitStack() as stack:
            for change in self.changes:
                stack.enter_context(change.made())
            yield


ACP: tuple[Driver, ...] = ("acp",)
CLAUDE: tuple[Driver, ...] = ("claude",)


def _one(
    name: str, function: str, old: str, new: str, drivers: tuple[Driver, ...] = ("acp", "claude")
) -> Defect:
    return Defect(name, (Change(function, old, new),), drivers)


DEFECTS = (
    _one(
        "a response is routed by slot: what answers nothing answers whoever waits",
        "_acp.channel:Channel.answered",
        "if then is None:",
        "if then is None and self._calls._waiting:\n"
        "        then = self._calls._waiting.pop(max(self._calls._waiting))\n"
        "    if then is None:",
        ACP,
    ),
    _one(
        "a missing tombstone: calls of earlier turns are forgotten",
        "_model.items:Items.tool_called",
        "call = self._calls.get(effect.id)",
        "call = self._calls.get(effect.id)\n"
        "    call = call if call and self._belongs(call, effect.replay) else None",
        ACP,
    ),
    _one(
        "a permission is left open on cancel",
        "_model.items:Items.close_all",
        "if not ask.request.background:",
        "if False:",
    ),
    _one(
        "a cancelled question is closed in the log, and the agent is not told",
        "_runtime.engine:Engine._release",
        "self.questions.drop(released.pop())",
        "released.pop()",
    ),
    Defect(
        "a cancel is sent after the turn has settled",
        (
            Change(
                "_acp.driver:AcpDriver.cancel",
                "if prompt is not None or self._stream.works_by_itself:",
                "if True:",
            ),
            Change(
                "_runtime.engine:Engine.cancel_current",
                "if self.turn is not None:",
                "if self.turn is None:\n        self.tell_cancel()\n    else:",
            ),
        ),
        ACP,
    ),
    _one(
        "a cancel is not sent",
        "_runtime.engine:Engine.cancel_turn",
        "self.tell_cancel()",
        "pass",
    ),
    _one(
        "the idle clock is not stopped while a question is open",
        "_runtime.conductor:Conductor._alarm",
        "if machine.state is TurnState.WAITING or turn.limits.idle is None:",
        "if turn.limits.idle is None:",
    ),
    _one(
        "the idle clock is not set anew when the agent takes its question back",
        "_runtime.engine:Engine.publish",
        "self.conductor.adjust()",
        "pass",
    ),
    _one(
        "the hard clock is reset by activity",
        "_runtime.conductor:Conductor._alarm",
        "turn._hard_at",
        "(turn._hard_at + active - turn._began)",
    ),
    _one(
        "an item is left open at the end",
        "_model.items:Items.close_all",
        "self._append(ItemClosed(call.item, tools))",
        "pass",
    ),
    _one(
        "a viewer is registered after an await: where the log is then",
        "_web.viewer:Viewer.follow",
        "self._places[feed] = seq if replay else None",
        "self._places[feed] = feed.log.seq if replay else None",
    ),
    _one(
        "a snapshot is told with the number that the log has reached since",
        "_web.feed:Feed.snapshot",
        "if self._snapshot is not None and self._snapshot[0] == self.log.seq:",
        "if self._snapshot is not None:",
    ),
    _one(
        "the queue goes on after a Stop",
        "_runtime.conductor:Conductor.pause",
        "self._paused = True",
        "self._paused = False",
    ),
    Defect(
        "the reader replies itself, and waits until that is written",
        (
            Change(
                "_runtime.link:Link.run",
                "nursery.start_soon(self._writer.run)",
                "nursery.start_soon(self._writer.run)\n"
                "                async def read_loop(transport, on_data, on_eof, **more):\n"
                "                    while (data := transport.read_nowait()) != b'':\n"
                "                        if data is None:\n"
                "                            await transport.wait_readable()\n"
                "                            continue\n"
                "                        on_data(data)\n"
                "                        while self._writer.statistics().bytes_waiting:\n"
                "                            await trio.sleep(0.01)\n"
                "                    on_eof()",
            ),
        ),
    ),
    _one(
        "a partial line: what did not fit into the pipe is forgotten",
        "_runtime.pipes:Writer._flush",
        "self._rest = memoryview(data)[taken:] if taken < len(data) else _NOTHING",
        "self._rest = _NOTHING\n        taken = len(data)",
    ),
    _one(
        "input ends by the ledger alone: while the agent goes on about ended work",
        "_claude.driver:ClaudeDriver.idle",
        "return self._started and self._turns.at_rest and not self._tasks.live",
        "return self._started and not self._tasks.live",
        CLAUDE,
    ),
    _one(
        "a policy that fails has allowed",
        "_runtime.questions:Questions._consult",
        'return Deny("the permission policy failed")',
        "return Allow()",
    ),
    _one(
        "a prompt is sent again after a crash",
        "_runtime.engine:Engine.gone",
        'self.finish_turn("agent_died", error=died)',
        "again = self.turn\n"
        '        self.finish_turn("agent_died", error=died)\n'
        "        if again is not None and again._content:\n"
        "            self.conductor.place(\n"
        "                Turn(self, again._content, again.limits, check=False)\n"
        "            )",
    ),
    _one(
        "handlers go on when their turn is cancelled",
        "_runtime.handlers:Handlers.cancel_turn",
        "scope.cancel()",
        "pass",
    ),
    _one(
        "an agent that has closed its output is waited for",
        "_runtime.link:Link._eof",
        'self._lost("the agent closed its output")',
        "pass",
    ),
    _one(
        "no quarantine: the next prompt goes to an agent that was given up on",
        "_runtime.conductor:Conductor._ring",
        "self.quarantine = True",
        "pass",
    ),
    _one(
        "what is said of a turn that was given up is heard",
        "_model.conversation:Conversation._admit",
        "if self.deaf:",
        "if False:",
        CLAUDE,
    ),
    _one(
        "a slow reader loses what leaves the ring",
        "_model.log:Log._cut",
        "cursor._keep(gone, self._first)",
        "pass",
    ),
    _one(
        "a command that is sent twice is carried out twice",
        "_web.hub:Client.seen",
        "if known is None:",
        "if known is None or known.frame is not None:",
    ),
    _one(
        "a closed item loses its text in the snapshot",
        "_model.state:SessionState._item_closed",
        "status=event.status, text=text",
        "status=event.status",
    ),
    _one(
        "an agent's cancelled word counts more than what agentrt decided",
        "_runtime.engine:Engine.finish_turn",
        "if turn._verdict is not None:",
        "if turn._verdict is not None and outcome != 'completed':",
    ),
    _one(
        "the caller's cancel closes nothing",
        "_runtime.turn:Turn.__aexit__",
        'self._engine.cancel_turn(self, "cancelled", by="caller")',
        "pass",
    ),
)
