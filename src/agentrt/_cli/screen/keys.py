"""The keys with an effect of their own, in addition to the usual editing keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from prompt_toolkit.filters import Condition, has_completions, has_focus, is_searching
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys

from ...config import ConfigError, KeyAction
from .interface import Interface

DEFAULT_KEYS: Final[Mapping[KeyAction, str]] = {
    "newline": "alt-enter",
    "mode": "shift-tab",
    "expand": "ctrl-o",
    "transcript": "ctrl-t",
    "take_back": "alt-up",
    "editor": "ctrl-g",
    "paste_image": "ctrl-v",
    "suspend": "ctrl-z",
}

_FIXED: Final = frozenset({("c-c",), ("c-d",), ("c-m",), ("enter",), ("escape",)})
"""The keys that send, stop and leave, which cannot be given to other actions."""


def described_keys(chosen: Mapping[KeyAction, str]) -> list[tuple[str, str]]:
    """Return the keys and their effects, for `/help`."""
    key = {action: _titled(chosen.get(action, name)) for action, name in DEFAULT_KEYS.items()}
    return [
        ("Enter", "send; in the menu, choose"),
        (f"{key['newline']}, Ctrl-J", "insert a line break (as does \\ and Enter)"),
        ("Tab", "complete a @file or a /command"),
        ("Up, Down, Ctrl-R", "earlier prompts; search them"),
        ("Esc, Ctrl-C", "stop the agent; Ctrl-C again ends its process"),
        ("Esc Esc", "edit an earlier prompt, while nothing runs"),
        ("Ctrl-D", "leave, after the running turn; again: now. In a question: reject"),
        (key["mode"], "switch to the agent's next mode"),
        (key["expand"], "show the last shortened text in full; again: the one before it"),
        (key["transcript"], "show the whole conversation in a pager, with nothing shortened"),
        (key["take_back"], "take the last queued prompt back to edit it"),
        (f"{key['editor']}, Ctrl-X Ctrl-E", "edit the prompt in $EDITOR"),
        (key["paste_image"], "paste the image in the clipboard"),
        (key["suspend"], "suspend agentrt"),
        ("@file, !command", "attach a file; run a shell command"),
    ]


def _titled(name: str) -> str:
    """Return the name of a key as people write it, such as `Ctrl-O`."""
    return " ".join("-".join(part.capitalize() for part in key.split("-")) for key in name.split())


def parsed(action: KeyAction, name: str) -> tuple[str, ...]:
    """Return prompt_toolkit's names for keys such as `ctrl-o`, `alt-up` or `ctrl-x ctrl-e`.

    Raises `ConfigError`.
    """
    where = f"terminal.keys.{action}"
    keys: list[str] = []
    for key in name.casefold().split():
        if key.startswith("alt-"):
            keys.append("escape")
            key = key.removeprefix("alt-")
        keys.append(key.replace("ctrl-", "c-").replace("shift-", "s-"))
    try:
        valid = bool(keys) and bool(KeyBindings().add(*keys))
    except ValueError:
        valid = False
    if not valid or (len(keys) == 1 and len(keys[0]) == 1):
        raise ConfigError(f"{where}: {name!r} is not a key; write `ctrl-o`, `alt-up` or `f2`")
    if tuple(keys) in _FIXED:
        raise ConfigError(f"{where}: {name!r} sends, stops or leaves; choose another key")
    return tuple(keys)


def bindings(
    interface: Interface, post: Callable[..., None], chosen: Mapping[KeyAction, str]
) -> KeyBindings:
    """Return the key bindings of the prompt and of the question.

    `post` calls a function on the Trio side. `chosen`: the keys of the configuration. Raises
    `ConfigError` if one of them is invalid.
    """
    keys = KeyBindings()
    key = {
        action: parsed(action, chosen.get(action, name)) for action, name in DEFAULT_KEYS.items()
    }
    draft, answer, listener = interface.draft, interface.answer, interface.listener
    writing, answering = has_focus(draft), has_focus(answer)
    busy = Condition(lambda: interface.live.busy)

    @keys.add("enter", filter=writing & ~is_searching)
    def _enter(event: KeyPressEvent) -> None:
        """Send the draft. With a chosen file, or a backslash at the end of the line, continue it
        instead.
        """
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

    @keys.add(*key["newline"], filter=writing)
    @keys.add("c-j", filter=writing)
    def _newline(event: KeyPressEvent) -> None:
        draft.newline(copy_margin=False)

    @keys.add("tab", filter=writing & ~is_searching)
    def _complete(event: KeyPressEvent) -> None:
        """Choose the next completion, or open the menu."""
        if draft.complete_state is not None:
            draft.complete_next()
        else:
            interface.complete()

    @keys.add("enter", filter=answering)
    @keys.add("c-j", filter=answering)
    def _answer(event: KeyPressEvent) -> None:
        """Send the text as the answer to the question."""
        text = answer.text
        answer.reset()
        post(listener.answered, text)

    @keys.add("c-c", filter=~is_searching)
    def _interrupt(event: KeyPressEvent) -> None:
        """Interrupt. While the agent is idle, the key first empties the draft, which goes to the
        history.
        """
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

    @keys.add(*key["mode"], filter=~has_completions)
    def _mode(event: KeyPressEvent) -> None:
        post(listener.mode_key)

    @keys.add("escape", "escape", filter=writing & ~busy & Condition(lambda: not draft.text))
    def _edit_earlier(event: KeyPressEvent) -> None:
        post(listener.edit_earlier_key)

    @keys.add(Keys.Any, filter=answering)
    def _answer_text(event: KeyPressEvent) -> None:
        """Insert a character, and answer with it if it is a single key and no other follows."""
        answer.insert_text(event.data)
        interface.await_single_key(partial(post, listener.answered))

    @keys.add(*key["transcript"])
    def _transcript(event: KeyPressEvent) -> None:
        post(listener.transcript_key)

    @keys.add(*key["paste_image"], filter=writing)
    def _paste_image(event: KeyPressEvent) -> None:
        post(listener.paste_image_key)

    @keys.add(*key["expand"])
    def _expand(event: KeyPressEvent) -> None:
        post(listener.expand_key)

    @keys.add(*key["take_back"], filter=writing)
    def _take_back(event: KeyPressEvent) -> None:
        post(listener.take_back_key)

    @keys.add("c-x", "c-e", filter=writing)
    @keys.add(*key["editor"], filter=writing & ~is_searching)
    def _editor(event: KeyPressEvent) -> None:
        post(listener.edit_key, draft.text)

    @keys.add(*key["suspend"])
    def _suspend(event: KeyPressEvent) -> None:
        post(listener.suspend_key)

    return keys
