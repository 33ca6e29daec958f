"""The terminal with a prompt at its bottom: a thread that edits and draws, and the Trio side.

prompt_toolkit runs on asyncio, so it has a thread with its own loop, which ends with the block that
opened it. The Trio side hands over frames: finished text for the scrollback, and the content to
draw above the prompt. A frame is one write, and the terminal stays in raw mode throughout, so no
key is ever echoed or turned into a signal.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import termios
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any, Final

import trio
from prompt_toolkit.application import Application, in_terminal
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.input.typeahead import store_typeahead
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.vt100 import Vt100_Output

from ..._base.nesting import bare_errors
from ...config import KeyAction
from ..console import LAST_OUTPUT_S
from ..output import encoding_of, terminal_size
from .interface import Interface, Live
from .keys import bindings
from .style import Look

_RESET: Final = b"\x1b[?2004l\x1b[?2026l\x1b[?25h\x1b[0m\r\n"
"""Ends bracketed paste and a buffered frame, shows the cursor, and resets colours."""


class Screen:
    """The Trio side of the terminal. Create one with `open_screen`."""

    def __init__(
        self,
        interface: Interface,
        saved: list[Any],
        *,
        colour: bool,
        looks: Mapping[str, Look],
        keys: Mapping[KeyAction, str],
    ) -> None:
        self.interface = interface
        self._saved = saved
        self.gone = trio.Event()
        """Set when the terminal cannot be used any more."""
        self._token = trio.lowlevel.current_trio_token()
        self._inbox: deque[Callable[[], None]] = deque()
        self._news = trio.Event()
        self._ready = trio.Event()
        self._painted = trio.Event()
        self._scope = trio.CancelScope(shield=True)
        self.is_lent = False
        """True while another program uses the terminal and gets its keys' signals."""
        self._lending = trio.Lock()
        self._closing = False
        self._back = asyncio.Event()
        self._away = False
        self._frame: tuple[str, Live] | None = None
        self._output = _TerminalOutput()
        self._columns = 0
        """The width of the terminal when it was last drawn."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._input = Vt100Input(sys.stdin)
        self._app: Application[None] = interface.make_application(
            bindings(interface, self._post, keys),
            self._input,
            self._output,
            colour=colour,
            looks=looks,
        )
        # The toolkit also draws on its own, and may see a new size before the signal arrives.
        self._app.before_render += lambda _: self._find_cursor()

    # --- Trio side

    @property
    def size(self) -> os.terminal_size:
        """The size of the terminal now; it is asked each time."""
        return self._output.size

    async def paint(self, text: str, live: Live) -> None:
        """Show a frame: complete lines of text, and the content above the prompt.

        It waits until the frame has been written; cancelling it does not take the frame back.
        """
        if self.gone.is_set():
            return
        self._painted = trio.Event()
        self.do(self._paint, text, live)
        await self._painted.wait()

    def do(self, function: Callable[..., object], *args: Any) -> None:
        """Call a function of the interface in its thread."""
        loop, context = self._loop, self._app.context
        if loop is not None and context is not None and not self.gone.is_set():
            try:
                loop.call_soon_threadsafe(context.copy().run, partial(function, *args))
            except RuntimeError:
                pass  # the loop has just been closed

    @asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """Let another program use the terminal in the block; one at a time."""
        async with self._lending:
            lent = trio.Event()
            self.do(self._lend, lent)
            try:
                await lent.wait()
                self.is_lent = True
                yield
            finally:
                self.is_lent = False
                self.do(self._take_back)

    async def serve(self) -> None:
        """Call the functions that the interface posts, one after the other. Runs until
        cancelled.
        """
        while True:
            while self._inbox:
                self._inbox.popleft()()
                await trio.lowlevel.checkpoint()
            self._news = trio.Event()
            await self._news.wait()

    async def watch_size(self) -> None:
        """Redraw when the window size changes. Runs until cancelled."""
        with trio.open_signal_receiver(signal.SIGWINCH) as signals:
            async for _ in signals:
                self.do(self._resized)

    def restore(self) -> None:
        """Restore the terminal settings."""
        restore(self._saved)

    async def _run(self) -> None:
        """Run the thread."""
        try:
            with self._scope:
                # It ends by itself soon after `_close`. Only a thread that is blocked in writing to
                # a terminal that accepts no data is abandoned, and ends with the process.
                await trio.to_thread.run_sync(
                    self._work, abandon_on_cancel=True, limiter=trio.CapacityLimiter(1)
                )
        finally:
            self._loop = None
            for event in (self._ready, self.gone, self._painted):
                event.set()

    def _close(self) -> None:
        """End the thread. One that does not end within `LAST_OUTPUT_S` is abandoned."""
        self._closing = True
        self.do(self._exit)
        self._scope.deadline = trio.current_time() + LAST_OUTPUT_S

    def _receive(self, function: Callable[[], None]) -> None:
        """Queue a function that the thread has posted, for `serve`."""
        self._inbox.append(function)
        self._news.set()

    # --- thread side

    def _post(self, function: Callable[..., None], *args: object) -> None:
        """Call a function on the Trio side."""
        self._token.run_sync_soon(self._receive, partial(function, *args))

    def _work(self) -> None:
        """Run the interface; the thread's main function."""
        try:
            asyncio.run(self._main())
        except (OSError, EOFError, termios.error):
            pass  # the terminal disappeared

    async def _main(self) -> None:
        """Run the application until `_exit`."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._failed)
        await self._app.run_async(
            pre_run=self._begin, set_exception_handler=False, handle_sigint=False
        )

    def _begin(self) -> None:
        """Take over lines that were typed earlier, then report that the screen is ready."""
        if self._closing:
            self._exit()
        # Lines that were typed before this program took over: the terminal turned Enter into a
        # newline.
        if select.select([0], [], [], 0)[0]:
            typed = os.read(0, 65536).decode(errors="replace").replace("\n", "\r")
            self._input.vt100_parser.feed(typed)
            store_typeahead(self._input, self._input.flush_keys())
        self._token.run_sync_soon(self._ready.set)

    def _exit(self) -> None:
        """End the application, and return the terminal from another program first."""
        self._back.set()
        future = self._app.future
        if future is not None and not future.done():
            self._app.exit()

    def _failed(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """End the application with an error of a callback of the loop."""
        error = context.get("exception")
        future = self._app.future
        if isinstance(error, Exception) and future is not None and not future.done():
            self._app.exit(exception=error)

    def _paint(self, text: str, live: Live) -> None:
        """Draw a frame, or keep it if another program uses the terminal now."""
        if self._away:
            before = self._frame[0] if self._frame is not None else ""
            self._frame = before + text, live
            return
        self.interface.live = live
        with self._output.in_one():
            self._find_cursor()
            if text:
                self._app.renderer.erase()
                self._output.write_raw(text.replace("\n", "\r\n"))
            self._app._redraw()
        self._token.run_sync_soon(self._painted.set)

    def send(self, sequence: str) -> None:
        """Write a control sequence that draws nothing."""
        if not self._away:
            self._output.write_raw(sequence)
            self._output.flush()

    def _resized(self) -> None:
        """Redraw for a new size, unless another program uses the terminal."""
        if not self._away:
            with self._output.in_one():
                self._find_cursor()
                self._app._on_resize()

    def _find_cursor(self) -> None:
        """Tell the renderer the distance between the cursor and the start of the rows to erase.

        A terminal that has become narrower may have broken each drawn row into several.
        """
        renderer, columns = self._app.renderer, self._output.size.columns
        drawn, cursor = renderer._last_screen, renderer._cursor_pos
        before, self._columns = self._columns, columns
        if drawn is None or before <= columns or not _rewraps(os.environ):
            return
        above = sum(max(1, -(-_used(drawn.data_buffer[row]) // columns)) for row in range(cursor.y))
        renderer._cursor_pos = Point(x=cursor.x % columns, y=above + cursor.x // columns)

    def _lend(self, lent: trio.Event) -> None:
        """Leave the terminal to another program until `_take_back`, and draw the kept frame
        afterwards.
        """
        self._back = asyncio.Event()
        self._away = True

        async def lend() -> None:
            """Suspend the application, with the terminal's settings as they were, until it is
            returned.
            """
            try:
                async with in_terminal():
                    self._token.run_sync_soon(lent.set)
                    await self._back.wait()
            finally:
                self._away = False
            if self._frame is not None:
                frame, self._frame = self._frame, None
                self._paint(*frame)

        self._app.create_background_task(lend())

    def _take_back(self) -> None:
        self._back.set()


_REWRAPPING: Final = frozenset(
    {"TMUX", "VTE_VERSION", "KITTY_WINDOW_ID", "KONSOLE_VERSION", "WEZTERM_PANE", "WT_SESSION"}
    | {"ALACRITTY_WINDOW_ID", "GHOSTTY_RESOURCES_DIR", "ITERM_SESSION_ID", "TERM_PROGRAM"}
)
"""Variables of terminals that wrap long rows again when their width changes."""


def _rewraps(env: Mapping[str, str]) -> bool:
    """True if the terminal wraps long rows again when its width changes."""
    return env.get("TERM", "").startswith("tmux") or not _REWRAPPING.isdisjoint(env)


def _used(row: Mapping[int, Char]) -> int:
    """Return the number of columns of a row that were written to."""
    return max((x + 1 for x, char in row.items() if char.char != " "), default=0)


class _TerminalOutput(Vt100_Output):
    """Standard output, written without the locks of `sys.stdout`."""

    def __init__(self) -> None:
        term = os.environ.get("TERM")
        super().__init__(sys.stdout, self._get_size, term=term, enable_cpr=False)
        self._held = False
        self._code = encoding_of(sys.stdout)

    @property
    def size(self) -> os.terminal_size:
        return os.terminal_size(terminal_size(1))

    def _get_size(self) -> Size:
        size = self.size
        return Size(rows=size.lines, columns=size.columns)

    @contextmanager
    def in_one(self) -> Iterator[None]:
        """Write the output of the block in one piece, for the terminal to show in one frame."""
        self._held = True
        self.write_raw("\x1b[?2026h")
        try:
            yield
        finally:
            self.write_raw("\x1b[?2026l")
            self._held = False
            self.flush()

    def erase_down(self) -> None:
        # From the second column on: if the erased area starts in the first column, tmux takes it
        # for a cleared screen and puts our prompt into its scrollback.
        self.write_raw("\x1b7\x1b[K\x1b[C\x1b[J\x1b8")

    def flush(self) -> None:
        """Write the collected output, unless a frame is not complete yet."""
        if self._held or not self._buffer:
            return
        data = memoryview("".join(self._buffer).encode(self._code, "replace"))
        self._buffer.clear()
        while data:
            data = data[os.write(1, data) :]


@asynccontextmanager
async def open_screen(
    interface: Interface, *, colour: bool, looks: Mapping[str, Look], keys: Mapping[KeyAction, str]
) -> AsyncIterator[Screen]:
    """Open the screen on this process's terminal, whose settings are restored at the end.

    `keys`: the keys of the configuration. Raises `ConfigError` if one of them is invalid.
    """
    with as_it_was() as saved:
        screen = Screen(interface, saved, colour=colour, looks=looks, keys=keys)
        async with bare_errors(), trio.open_nursery() as nursery:
            nursery.start_soon(screen._run)
            try:
                await screen._ready.wait()
                nursery.start_soon(screen.watch_size)
                yield screen
                nursery.cancel_scope.cancel(reason="done")
            finally:
                screen._close()


@contextmanager
def as_it_was() -> Iterator[list[Any]]:
    """Restore the terminal's settings at the end of the block."""
    saved = termios.tcgetattr(0)
    failed = True
    try:
        yield saved
        failed = False
    finally:
        restore(saved, failed=failed)


def restore(saved: list[Any], *, failed: bool = False) -> None:
    """Restore saved terminal settings, and reset the terminal's modes if they were changed.

    `failed`: an error ended the drawing, perhaps after it had set a mode.
    """
    try:
        if failed or termios.tcgetattr(0) != saved:
            termios.tcsetattr(0, termios.TCSANOW, saved)
            if select.select([], [1], [], 0)[1]:  # never block on a terminal that accepts nothing
                os.write(1, _RESET)
    except (OSError, termios.error):
        pass  # the terminal disappeared
