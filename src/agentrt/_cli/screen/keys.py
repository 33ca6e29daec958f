"""The keys with an effect of their own, in addition to the usual editing keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prompt_toolkit.filters import Condition, has_completions, has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from .interface import Interface

KEYS: Final = (
    ("Enter", "send; in the menu, choose"),
    ("Alt-Enter, Ctrl-J", "insert a line break (as does \\ and Enter)"),
    ("Tab", "complete a @file or a /command"),
    ("Up, Down, Ctrl-R", "earlier prompts; search them"),
    ("Esc, Ctrl-C", "stop the agent; Ctrl-C again ends its process"),
    ("Ctrl-D", "leave, after the running turn; again: now. In a question: reject"),
    ("Shift-Tab", "switch to the agent's next mode"),
    ("Ctrl-O", "show all of the last shortened text"),
    ("Alt-Up", "take the last queued prompt back to edit it"),
    ("Ctrl-G, Ctrl-X Ctrl-E", "edit the prompt in $EDITOR"),
    ("Ctrl-Z", "suspend agentrt"),
    ("@file, !command", "attach a file; run a shell command of your own"),
)
"""The keys, for `/help`."""


def bindings(interface: Interface, post: Callable[..., None]) -> KeyBindings:
    """Return the key bindings of the prompt and of the question.

    `post` calls a function on the Trio side.
    """
    keys = KeyBindings()
    draft, answer, listener = interface.draft, interface.answer, interface.listener
    writing, answering = has_focus(draft), has_focus(answer)
    busy = Condition(lambda: interface.live.busy)

    @keys.add("enter", filter=writing & ~is_searching)
    def _enter(event: KeyPressEvent) -> None:
        state = draft.complete_state
        chosen = state is not None and state.current_completion is not None
        draft.complete_state = None
        if chosen and not draft.text.startswith("/"):
            draft.insert_text(" ")  # a file: the prompt continues after it
        elif draft.document.current_line_before_cursor.endswith("\\"):
            draft.delete_before_cursor()
            draft.newline(copy_margin=False)
        else:
            text = draft.text
            draft.append_to_history()
            draft.reset()
            post(listener.entered, text)

    @keys.add("escape", "enter", filter=writing)
    @keys.add("c-j", filter=writing)
    def _newline(event: KeyPressEvent) -> None:
        draft.newline(copy_margin=False)

    @keys.add("tab", filter=writing & ~is_searching)
    def _complete(event: KeyPressEvent) -> None:
        if draft.complete_state is not None:
            draft.complete_next()
        else:
            interface.complete()

    @keys.add("enter", filter=answering)
    @keys.add("c-j", filter=answering)
    def _answer(event: KeyPressEvent) -> None:
        text = answer.text
        answer.reset()
        post(listener.answered, text)

    @keys.add("c-c", filter=~is_searching)
    def _interrupt(event: KeyPressEvent) -> None:
        answer.reset()
        cleared = bool(draft.text) and not interface.live.busy
        if cleared:
            interface.forget_draft()
        post(listener.interrupt_key, cleared)

    @keys.add("escape", filter=busy & writing & ~has_completions & ~is_searching)
    def _escape(event: KeyPressEvent) -> None:
        post(listener.escape_key)

    @keys.add("escape", filter=has_completions)
    def _no_completion(event: KeyPressEvent) -> None:
        draft.cancel_completion()

    @keys.add("c-d", filter=writing & Condition(lambda: not draft.text))
    def _end(event: KeyPressEvent) -> None:
        post(listener.end_key)

    @keys.add("c-d", filter=answering & Condition(lambda: not answer.text))
    def _no_answer(event: KeyPressEvent) -> None:
        post(listener.answered, None)

    @keys.add("s-tab", filter=~has_completions)
    def _mode(event: KeyPressEvent) -> None:
        post(listener.mode_key)

    @keys.add("c-o")
    def _expand(event: KeyPressEvent) -> None:
        post(listener.expand_key)

    @keys.add("escape", "up", filter=writing)
    def _take_back(event: KeyPressEvent) -> None:
        post(listener.take_back_key)

    @keys.add("c-x", "c-e", filter=writing)
    @keys.add("c-g", filter=writing & ~is_searching)
    def _editor(event: KeyPressEvent) -> None:
        post(listener.edit_key, draft.text)

    @keys.add("c-z")
    def _suspend(event: KeyPressEvent) -> None:
        post(listener.suspend_key)

    return keys
