"""The bottom of the terminal: ongoing work, the prompt, and completions.

All code in this module runs in the terminal's thread, except creating an `Interface`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from msgspec import Struct
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.filters import Condition, has_focus
from prompt_toolkit.formatted_text import AnyFormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.output import Output
from prompt_toolkit.widgets import SearchToolbar

from ..repl.questions import could_be_an_answer
from ..state import private_file
from .style import Fragments, Look, colour_depth, style_of, styled

HISTORY_BYTES: Final = 512 * 1024
"""Bytes of a history file that are kept when it has grown to twice that size."""


def open_history(cwd: str) -> History:
    """Open the history of a directory, in a file that only the user can read.

    If it cannot be stored, the history is kept in memory.
    """
    try:
        path = private_file("history", cwd)
        _shorten(path)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _shorten(path: Path) -> None:
    """Keep the newest entries of a history file that has grown too large.

    The new content is written to another file and renamed, so that a crash leaves one of the two.
    """
    if path.stat().st_size <= 2 * HISTORY_BYTES:
        return
    data = path.read_bytes()[-HISTORY_BYTES:]
    new = path.with_suffix(".new")
    new.touch(0o600)
    new.write_bytes(data[data.find(b"\n# ") :])  # from the start of an entry
    new.replace(path)


PROMPT: Final = "❯ "
MORE: Final = "  "
PROMPT_ROWS: Final = 12
"""Lines of a prompt that are visible."""
COMPLETION_ROWS: Final = 8
"""Completions that are visible."""
QUESTION_READING_TIME_S: Final = 0.5
"""Seconds after which a person can have read a question."""
KEY_ALONE_S: Final = 0.4
"""Seconds without another key after which a single key is an answer."""
TYPING_PAUSE_S: Final = 1.0
"""Seconds without a key after which the user is no longer considered to be typing."""


class Live(Struct, frozen=True):
    """The content around the prompt."""

    above: Fragments = []
    status: Fragments = []
    busy: bool = False


class KeyListener(Protocol):
    """The Trio side, which implements the keys."""

    def entered(self, text: str) -> None:
        """Handle a prompt or a command."""
        ...

    def answered(self, text: str | None) -> None:
        """Handle an answer to the question; None for Ctrl-D."""
        ...

    def interrupt_key(self, cleared: bool) -> None:
        """Handle Ctrl-C. `cleared`: the agent was idle, and the key has emptied the prompt."""
        ...

    def escape_key(self) -> None: ...

    def end_key(self) -> None: ...

    def mode_key(self) -> None: ...

    def expand_key(self) -> None: ...

    def transcript_key(self) -> None: ...

    def edit_earlier_key(self) -> None: ...

    def paste_image_key(self) -> None: ...

    def take_back_key(self) -> None: ...

    def edit_key(self, draft: str) -> None: ...

    def suspend_key(self) -> None: ...


class Interface:
    """The prompt and the content around it."""

    def __init__(self, listener: KeyListener, history: History, completer: Completer) -> None:
        self.listener = listener
        self.live = Live()
        self._completer = completer
        self.draft = Buffer(
            multiline=True,
            history=history,
            completer=completer,
            complete_while_typing=True,
        )
        self.answer = Buffer(multiline=False)
        self.question: str | None = None
        self.offered: Fragments = []
        """The possible answers to the question."""
        self._single_keys: frozenset[str] = frozenset()
        """The answers that take effect without Enter."""
        self._key_timer: asyncio.TimerHandle | None = None
        self.answering = False
        self._asked_at = 0.0
        self._typed_at = 0.0
        self._search = SearchToolbar(ignore_case=True)
        self.draft.on_text_changed += self._touched
        self._draft_control = BufferControl(
            self.draft, search_buffer_control=self._search.control, preview_search=True
        )
        self._answer_control = BufferControl(self.answer)

    def make_application(
        self,
        keys: KeyBindings,
        input: Input,
        output: Output,
        *,
        colour: bool,
        looks: Mapping[str, Look],
    ) -> Application[None]:
        """Create the application, for which the key bindings already exist.

        The two timeouts are in seconds: for telling Escape from the first byte of a key's sequence,
        and for a second key.
        """
        app: Application[None] = Application(
            layout=Layout(self._container(), focused_element=self._draft_control),
            key_bindings=keys,
            style=style_of(looks),
            color_depth=colour_depth(colour=colour),
            erase_when_done=True,
            input=input,
            output=output,
            terminal_size_polling_interval=None,
        )
        app.ttimeoutlen = 0.1
        app.timeoutlen = 0.4
        return app

    def _container(self) -> HSplit:
        """Build the rows below the transcript, from the top.

        They are the running work, the options and the line of a question, the draft, the search,
        the completions and the status. Rows without content take no space.
        """
        asking = Condition(lambda: self.question is not None)
        return HSplit(
            [
                ConditionalContainer(
                    _lines(lambda: self.live.above), Condition(lambda: bool(self.live.above))
                ),
                ConditionalContainer(
                    _lines(self._offered_lines),
                    asking & Condition(lambda: bool(self.offered)),
                ),
                ConditionalContainer(
                    Window(
                        self._answer_control,
                        height=1,
                        dont_extend_height=True,
                        get_line_prefix=lambda line, wrap: styled(self._question_prefix()),
                    ),
                    asking,
                ),
                ConditionalContainer(
                    Window(
                        self._draft_control,
                        height=Dimension(min=1, max=PROMPT_ROWS),
                        dont_extend_height=True,
                        wrap_lines=True,
                        get_line_prefix=self._prefix,
                        style=lambda: "class:dim" if self.answering else "",
                    ),
                    Condition(lambda: bool(self.draft.text) or not self.answering),
                ),
                self._search,
                ConditionalContainer(
                    _lines(self._completions), Condition(lambda: bool(self._completions()))
                ),
                _lines(lambda: self.live.status),
            ]
        )

    # --- input

    def _prefix(self, line: int, wrapped: int) -> AnyFormattedText:
        """Return the mark before a row of the draft, which is dim while a question has the keys."""
        first = line == 0 and wrapped == 0
        look = "dim" if self.answering else "you"
        return styled([(look, PROMPT if first else MORE)])

    def _touched(self, buffer: Buffer) -> None:
        """Note the time of a key, so that a question does not take keys meant for the draft."""
        self._typed_at = asyncio.get_running_loop().time()

    def set_draft(self, text: str) -> None:
        """Replace the draft, with the cursor at its end."""
        self.draft.text = text
        self.draft.cursor_position = len(text)

    def add_to_draft(self, text: str, apart: str = "") -> None:
        """Keep text that was typed at the wrong moment; `apart` separates it from the existing
        text.
        """
        self.draft.cursor_position = len(self.draft.text)
        self.draft.insert_text((apart if self.draft.text else "") + text)

    def offer(self, text: str) -> None:
        """Start a command whose argument the user chooses from a menu."""
        self.set_draft(text)
        self._show_menu(self._found())

    def forget_draft(self) -> None:
        """Empty the prompt; its text goes to the history."""
        self.draft.append_to_history()
        self.draft.reset()

    # --- the question

    def ask(
        self, prompt: str, offered: Fragments, *, again: bool, single_keys: frozenset[str]
    ) -> None:
        """Put a question in front of the draft.

        It takes keys once it can have been read and the user is not typing. One of `single_keys`
        is an answer without Enter, if no other key is pressed shortly before or after it. `again`:
        it was asked before, and its answer may have been started.
        """
        self._forget_key()
        self._single_keys = single_keys
        open_already = self.question is not None
        self.question = prompt
        self.offered = offered
        if not again:
            self.answer.reset()
        if not open_already:
            self._asked_at = asyncio.get_running_loop().time()
            self._await_quiet()
        self._redraw()

    def await_single_key(self, take: Callable[[str], None]) -> None:
        """Pass the answer to `take` if it is a single key, unless another one follows soon."""
        self._forget_key()
        if self.answer.text in self._single_keys:
            loop = asyncio.get_running_loop()
            self._key_timer = loop.call_later(KEY_ALONE_S, self._answer_by_key, take)

    def _answer_by_key(self, take: Callable[[str], None]) -> None:
        """Take the single key as the answer, if it is still the only one."""
        text = self.answer.text
        if self.answering and text in self._single_keys:
            self.answer.reset()
            take(text)

    def _forget_key(self) -> None:
        """Stop waiting for the pause after a single key."""
        if self._key_timer is not None:
            self._key_timer.cancel()
            self._key_timer = None

    def stop_asking(self) -> None:
        """End the question. Text that was typed for another purpose is kept with the draft."""
        left = "" if could_be_an_answer(self.answer.text) else self.answer.text
        self.question, self.answering = None, False
        self.answer.reset()
        get_app().layout.focus(self._draft_control)
        if left:
            self.add_to_draft(left)
        self._redraw()

    def _await_quiet(self) -> None:
        """Give the keys to the question once it can have been read and the user is not typing.

        Until then keys belong to the draft, so that text typed at the moment of the question does
        not answer it.
        """
        if self.question is None or self.answering:
            return
        loop = asyncio.get_running_loop()
        ready = self._asked_at + QUESTION_READING_TIME_S
        if self.draft.text:
            ready = max(ready, self._typed_at + TYPING_PAUSE_S)
        if loop.time() < ready:
            loop.call_at(ready, self._await_quiet)
            return
        self.answering = True
        get_app().layout.focus(self._answer_control)
        self._redraw()

    def _offered_lines(self) -> Fragments:
        """Return the possible answers, without the newline after the last one."""
        shown = list(self.offered)
        if shown:
            shown[-1] = (shown[-1][0], shown[-1][1].rstrip("\n"))
        return shown

    def _question_prefix(self) -> Fragments:
        """Return the prompt of the question, or a notice while it does not take keys yet."""
        if not self.answering:
            return [("ask", "  a question: please read it …")]
        return [("ask", self.question or "")]

    def _redraw(self) -> None:
        get_app().invalidate()

    # --- completion

    def complete(self) -> None:
        """Complete now, without waiting for the completions while typing."""
        found = self._found()
        if len(found) == 1:
            self.draft.apply_completion(found[0])
        else:
            self._show_menu(found)

    def _found(self) -> list[Completion]:
        """Return the completions for the draft."""
        return list(self._completer.get_completions(self.draft.document, CompleteEvent()))

    def _show_menu(self, found: list[Completion]) -> None:
        """Open the completion menu with the first entry chosen."""
        if found:
            self.draft._set_completions(found)
            self.draft.go_to_completion(0)

    def _completions(self) -> Fragments:
        """Return the rows of the completion menu, with the chosen one in the middle if possible."""
        state = self.draft.complete_state
        if state is None or not has_focus(self.draft)():
            return []
        chosen = state.complete_index
        first = max(
            0, min((chosen or 0) - COMPLETION_ROWS // 2, len(state.completions) - COMPLETION_ROWS)
        )
        shown = state.completions[first : first + COMPLETION_ROWS]
        width = max(len(each.display_text) for each in shown) if shown else 0
        columns = get_app().output.get_size().columns
        rows: Fragments = []
        for place, each in enumerate(shown, first):
            look = "chosen" if place == chosen else ""
            room = max(0, columns - width - 6)
            rows.append((look, f"  {each.display_text.ljust(width)}"))
            rows.append((look or "dim", f"  {each.display_meta_text[:room]}\n"))
        if left := len(state.completions) - len(shown):
            rows.append(("dim", f"  … {left} more\n"))
        if rows:
            rows[-1] = (rows[-1][0], rows[-1][1].rstrip("\n"))
        return rows


def _lines(fragments: Callable[[], Fragments]) -> Window:
    """Return a window that only shows lines."""
    return Window(
        FormattedTextControl(lambda: styled(fragments()), show_cursor=False),
        dont_extend_height=True,
        wrap_lines=True,
    )
