"""What happens in a session, as text that scrolls by and as what is drawn above the prompt.

What is over is printed, once: a block of the answer, a thought as one line, a tool call as a card.
What is going on is drawn with each frame: the unfinished block, calls with a spinner, the plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from ..._model.content import plain_text
from ..._model.events import (
    TERMINAL,
    Event,
    ItemClosed,
    ItemDelta,
    ItemOpened,
    ItemUpdated,
    Modes,
    ModesChanged,
    Notice,
    PermissionClosed,
    PermissionOpened,
    PlanChanged,
    PlanEntry,
    Task,
    TaskChanged,
    TextDelta,
    ThoughtDelta,
    TurnEnded,
    TurnStarted,
)
from ..console import quoted, stderr_of
from ..text import one_line, plain, safe
from ..transcript import how_it_ended
from .cards import SPINNER, Card
from .markdown import Blocks, Renderer
from .style import Fragments, Painter

TAIL: Final = 8
"""Lines of the unfinished block that are drawn."""
CARDS: Final = 6
"""Running calls that are drawn."""
THOUGHT: Final = 120
"""Characters of a thought that are shown."""
PLAN: Final = 8
"""Entries of the plan that are drawn."""

_PLAN: Final = {"completed": ("good", "✓"), "in_progress": ("busy", "▸")}


class Page:
    """The text that scrolls by: collected here, written with the next frame."""

    def __init__(self, paint: Painter) -> None:
        self.paint = paint
        self._parts: list[str] = []
        self._size = 0
        self._kind = ""

    @property
    def size(self) -> int:
        """Characters that wait for the next frame."""
        return self._size

    def write(self, text: str, kind: str = "line", *, apart: bool = False) -> None:
        """Whole lines. Between two kinds of things, or if they are to stand apart, there is an
        empty one."""
        if not text:
            return
        if self._kind and (apart or kind != self._kind):
            text = "\n" + text
        self._kind = kind
        self._parts.append(text)
        self._size += len(text)

    def line(self, *fragments: tuple[str, str], kind: str = "line") -> None:
        self.write(self.paint(*fragments) + "\n", kind)

    def take(self) -> str:
        """What waits, for the next frame."""
        text = "".join(self._parts)
        self._parts.clear()
        self._size = 0
        return text


class Story:
    """Tells the events that it is given. `width` says how wide the terminal is now."""

    def __init__(self, page: Page, width: Callable[[], int]) -> None:
        self.page = page
        self.cards: dict[str, Card] = {}
        """Tool calls that are open."""
        self.folded: Card | None = None
        """The last call that has more than its card shows."""
        self.plan: list[PlanEntry] = []
        self.tasks: dict[str, Task] = {}
        self._width = width
        self._render = Renderer(colour=page.paint.colour)
        self._texts: dict[str, Blocks] = {}
        self._thoughts: dict[str, tuple[float, list[str]]] = {}
        self._options: dict[str, dict[str, str]] = {}
        self._mode: str | None = None
        self._seen: dict[type, Callable[..., None]] = {
            ItemOpened: self._opened,
            TextDelta: self._delta,
            ThoughtDelta: self._delta,
            ItemDelta: self._delta,
            ItemUpdated: self._updated,
            ItemClosed: self._closed,
            PlanChanged: self._planned,
            TaskChanged: self._task,
            ModesChanged: lambda event: self._modes(event.modes),
            TurnStarted: self._started,
            TurnEnded: self._ended,
            Notice: self._notice,
            PermissionOpened: self._asks,
            PermissionClosed: self._answered,
        }

    def take(self, event: Event) -> None:
        """Tell the next event."""
        seen = self._seen.get(type(event))
        if seen is not None:
            seen(event)

    # --- what is drawn

    def live(self, now: float) -> Fragments:
        """What is going on."""
        width, shown = self._width(), Fragments()
        for blocks in self._texts.values():
            lines = safe(blocks.tail).expandtabs(4).split("\n")
            shown += [("", f"{line[-4 * width :]}\n") for line in lines[-TAIL:] if lines != [""]]
        for since, parts in self._thoughts.values():
            words = one_line("".join(parts[-200:])[-400:], 10_000)[-max(10, width - 24) :]
            mark = SPINNER[int(now * 8) % len(SPINNER)]
            shown += [("busy", f"{mark} "), ("dim", f"thinking {now - since:.0f} s  ")]
            shown += [("italic", f"{words}\n")]
        running = [card for card in self.cards.values() if card.item.parent is None]
        for card in running[-CARDS:]:
            shown += card.live(now, width)
        if len(running) > CARDS:
            shown.append(("dim", f"  … {len(running) - CARDS} more\n"))
        if any(entry.status != "completed" for entry in self.plan):
            shown += self._plan_lines(width)
        for task in self.tasks.values():
            title = one_line(task.title or task.id, max(10, width - 20))
            shown += [("busy", "⚙ "), ("dim", f"in the background: {title}\n")]
        return shown

    def _plan_lines(self, width: int) -> Fragments:
        done = sum(entry.status == "completed" for entry in self.plan)
        first = max(0, min(done - 1, len(self.plan) - PLAN))
        shown: Fragments = [("bold", f"plan {done}/{len(self.plan)}\n")]
        for entry in self.plan[first : first + PLAN]:
            look, mark = _PLAN.get(entry.status, ("dim", "·"))
            words = "" if entry.status == "in_progress" else "dim"
            shown += [(look, f"  {mark} "), (words, f"{one_line(entry.content, width - 6)}\n")]
        return shown

    # --- items

    def _opened(self, event: ItemOpened) -> None:
        item = event.item
        if item.replay or item.type == "user":
            return
        if item.type == "text":
            if item.parent is None:
                self._texts[item.id] = Blocks()
                self._say(item.id, plain_text(item.content))
                if item.status in TERMINAL:
                    self._closed(ItemClosed(item.id, item.status))
        elif item.type == "thought":
            if item.parent is None and item.status not in TERMINAL:
                self._thoughts[item.id] = trio.current_time(), []
        elif item.type == "tool":
            card = self.cards[item.id] = Card(item, trio.current_time())
            parent = self.cards.get(item.parent) if item.parent is not None else None
            if parent is not None:
                parent.inside += 1
            if not card.open:
                self._closed(ItemClosed(item.id, item.status))

    def _delta(self, event: ItemDelta) -> None:
        if event.item in self._texts:
            self._say(event.item, event.text)
        elif event.item in self._thoughts:
            self._thoughts[event.item][1].append(event.text)
        elif event.item in self.cards:
            self.cards[event.item].add(event.text)

    def _say(self, item: str, text: str) -> None:
        self._print(self._texts[item].feed(text))

    def _print(self, blocks: list[tuple[str, bool]]) -> None:
        width = self._width()
        for block, apart in blocks:
            self.page.write(self._render(block, width), "text", apart=apart)

    def _updated(self, event: ItemUpdated) -> None:
        card = self.cards.get(event.item)
        if card is not None:
            card.update(event.patch)

    def _closed(self, event: ItemClosed) -> None:
        if (blocks := self._texts.pop(event.item, None)) is not None:
            self._print(blocks.end())
        elif (thought := self._thoughts.pop(event.item, None)) is not None:
            since, parts = thought
            took = trio.current_time() - since
            words = one_line("".join(parts), THOUGHT)
            said = f" for {took:.0f} s" if took >= 1 else ""
            self.page.line(("dim", f"✻ thought{said}: "), ("italic", words), kind="card")
        elif (card := self.cards.pop(event.item, None)) is not None:
            card.item.status = event.status
            indent = "  " if card.item.parent is not None else ""
            paint = self.page.paint
            self.page.write(card.printed(paint, trio.current_time(), indent=indent), "card")
            if card.has_more:
                self.folded = card

    # --- questions, which are shown by whoever asks them

    def _asks(self, event: PermissionOpened) -> None:
        self._options[event.request] = {option.id: option.kind for option in event.options}

    def _answered(self, event: PermissionClosed) -> None:
        kinds = self._options.pop(event.request, {})
        kind = kinds.get(event.option or "")
        if event.by == "user" and kind is not None:
            look = "good" if kind.startswith("allow") else "warn"
            self.page.line(("dim", "  → "), (look, kind.replace("_", " ")), kind="ask")

    # --- the rest

    def _started(self, event: TurnStarted) -> None:
        if event.prompt is not None:
            self.prompt(plain_text(event.prompt))
        elif event.origin == "agent":
            self.page.line(("dim", "· the agent goes on by itself"))

    def prompt(self, text: str) -> None:
        """What the person said."""
        first, *more = safe(text).rstrip("\n").split("\n")
        lines = [f"❯ {first}", *(f"  {line}" for line in more)]
        self.page.write(self.page.paint(("you", "\n".join(lines))) + "\n", "you", apart=True)

    def answer(self, text: str) -> None:
        """What the agent said, all of it."""
        blocks = Blocks()
        self._print(blocks.feed(text))
        self._print(blocks.end())

    def _ended(self, event: TurnEnded) -> None:
        self.plan = [entry for entry in self.plan if entry.status != "completed"] and self.plan
        words = how_it_ended(event)
        if words is not None:
            look = "warn" if event.outcome == "cancelled" else "bad"
            self.page.line((look, f"— {one_line(words, 1000)}"), kind="end")
            for line in quoted(stderr_of(event.error.data if event.error is not None else None)):
                self.page.line(("dim", line), kind="end")

    def _planned(self, event: PlanChanged) -> None:
        before, self.plan = self.plan, event.plan
        done = [entry.status == "completed" for entry in self.plan]
        if self.plan and all(done) and before != self.plan:
            text = self.page.paint(("good", "✓ "), ("", f"plan {len(done)}/{len(done)} done"))
            self.page.write(text + "\n", "card")

    def _task(self, event: TaskChanged) -> None:
        task = event.task
        known = self.tasks.pop(task.id, None)
        if task.status not in TERMINAL and task.status not in ("stopped", "killed"):
            self.tasks[task.id] = task
        elif known is not None:
            title = one_line(task.title or task.id)
            said = f"⚙ in the background: {title}: {plain(task.status)}"
            self.page.line(("dim", said), kind="card")

    def _modes(self, modes: Modes) -> None:
        if modes.mode is not None:
            if self._mode not in (None, modes.mode):
                self.page.line(("dim", f"mode: {one_line(modes.mode)}"))
            self._mode = modes.mode

    def _notice(self, event: Notice) -> None:
        if event.level != "info":
            look = "bad" if event.level == "error" else "warn"
            self.page.line((look, f"{event.level}: "), ("", one_line(event.message, 1000)))
        elif event.code == "agent_restarted":
            self.page.line(("dim", one_line(event.message)))
