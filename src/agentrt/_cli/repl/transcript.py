"""A view line by line, for a person without the full screen interface.

Output never changes after it was written, so it reads the same in a terminal, in a file and with a
screen reader. The answer streams; a tool call gets a line when it starts, and another one if its
end is noteworthy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...events import Image, PlanEntry, Task, TurnEnded, TurnStarted
from ..output import Output
from ..text import one_line, plain
from .view import ENDS, SUB_AGENT_CHARS, THOUGHT_CHARS, CallView, task_text, text_of_line

LONG_CALL_S: Final = 2.0
"""Seconds after which the end of a tool call gets its own line."""
OUTPUT_LINES: Final = 5
"""Lines of a tool's output that are shown."""


class LineTranscript:
    """A `Display` that writes lines to an `Output`, and shows questions there.

    `answer`: also write the text of the answer, if it is not written separately. `progress`: also
    write lines that only matter to a reader who follows the work. `all_of_it`: how to see the parts
    that are not shown.
    """

    def __init__(
        self, out: Output, *, answer: bool = True, progress: bool = True, all_of_it: str
    ) -> None:
        self.out = out
        self._answer = answer
        self._progress = progress
        self._all_of_it = all_of_it
        self._plan = ""
        self._text: str | None = None  # the item of the answer that was written last
        self._tail = ""  # its last characters
        self._blank = True

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows of the terminal."""
        return self.out.size

    def line(self, text: str, *, dim: bool = False) -> None:
        """Write a line that is not part of the answer."""
        if self._text is not None:
            self._text = None
            self._gap()
        self.out.line(text, dim=dim)
        self._blank = False

    def ask(self, prompt: str, offered: Sequence[str] = (), *, again: bool = False) -> None:
        """Write the prompt of a question, to be answered in the same line.

        `again`: the possible answers have already been shown.
        """
        if not again:
            for line in offered:
                self.line(line)
        if self._text is not None:
            self._text = None
            self._gap()
        if not self.out.at_line_start:
            self.out.write("\n")
        self.out.write(self.out.bold(prompt))
        self._blank = False

    def entered(self) -> None:
        """Record that the terminal has echoed an Enter."""
        self.out.at_line_start = True

    def over(self) -> None:
        """Do nothing at the end of a question."""

    def _gap(self) -> None:
        """Write an empty line, unless there is one."""
        if not self.out.at_line_start:
            self.out.write("\n")
        if not self._blank:
            self.out.write("\n")
            self._blank = True

    def _hint(self, text: str) -> None:
        """Write a line for a reader who follows the work, if there is one."""
        if self._progress:
            self.line(text, dim=True)

    # --- display of a view

    def prompted(self, event: TurnStarted, text: str) -> None:
        """Do nothing: the user who typed it sees it."""

    def answer_text(self, item: str, text: str) -> None:
        """Write a piece of the answer, after an empty line if something else precedes it."""
        if self._answer:
            if self._text != item:
                self._gap()
                self._text = item
                self._tail = ""
            self.out.say(text)
            self._tail = (self._tail + text)[-2:]
            self._blank = self._tail == "\n\n"

    def answer_complete(self, item: str) -> None:
        """Do nothing: the next output is separated when it arrives."""

    def thought(self, text: str, seconds: float) -> None:
        self._hint(f"· {one_line(text, THOUGHT_CHARS)}")

    def image(self, image: Image) -> None:
        self._hint(f"[image: {one_line(image.mime_type, 40)}]")

    def call_began(self, call: CallView) -> None:
        self._hint(f"{_indent(call)}→ {call.title}")

    def call_ended(self, call: CallView) -> None:
        """Write the end of a call if it is noteworthy: a failure, a change of files, or a long
        duration.

        A call that was never announced gets its line now. The end of a command's output follows,
        with the number of lines that are not shown.
        """
        indent, changed, status = _indent(call), call.changed(), call.item.status
        if status != "completed":
            self._hint(f"{indent}✗ {call.title}: {ENDS.get(status, status)}")
        elif not call.begun:
            self._hint(f"{indent}→ {call.title}" + (f" ({changed})" if changed else ""))
        elif call.took >= LONG_CALL_S or changed:
            notes = [changed] * bool(changed) + [f"{call.took:.0f} s"] * (call.took >= LONG_CALL_S)
            self._hint(f"{indent}✓ {call.title} ({', '.join(notes)})")
        if status == "failed" or (call.tool.kind == "execute" and status == "completed"):
            left_out, lines = call.output()
            if hidden := left_out + len(lines[:-OUTPUT_LINES]):
                self._hint(f"{indent}  │ … {hidden:,} more lines; {self._all_of_it}")
            for line in lines[-OUTPUT_LINES:]:
                self._hint(f"{indent}  │ {one_line(text_of_line(line))}")

    def planned(self, plan: list[PlanEntry]) -> None:
        """Write the progress of the plan and the present entry, if that differs from the
        last line.
        """
        done = sum(entry.status == "completed" for entry in plan)
        now = next((entry for entry in plan if entry.status == "in_progress"), None)
        if plan and (now is not None or done == len(plan)):
            text = one_line(now.content) if now is not None else "done"
            line = f"plan {done}/{len(plan)}: {text}"
            if line != self._plan:
                self._plan = line
                self._hint(line)

    def sub_agent_message(self, text: str, call: CallView | None) -> None:
        self._hint(f"  {one_line(text, SUB_AGENT_CHARS)}")

    def task_changed(self, task: Task, *, over: bool) -> None:
        self._hint(f"background: {plain(task.status)}: {task_text(task)}")

    def remark(self, level: str, text: str) -> None:
        """Write a notice; warnings and errors also without `progress`."""
        if level == "info":
            self._hint(text)
        else:
            self.line(f"{level}: {text}")

    def answered(self, kind: str, origin: str) -> None:
        """Do nothing: the answer was typed after the question."""

    def ended(self, event: TurnEnded, words: str, stderr: str) -> None:
        """Do nothing: the caller of the turn reports its end."""


def _indent(call: CallView) -> str:
    return "  " * call.depth
