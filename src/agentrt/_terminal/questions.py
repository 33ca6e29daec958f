"""The agent's questions as lines of text, and the answers that count: choices, visits, forms.

What an option does is said in our words, the agent's name for it only beside them. An answer that
lets something happen counts once all that it is about has been shown (`asking.py` sees to that).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol

import msgspec

from .._errors import LocalProtocolError
from .._model.content import Diff, JsonObject, ToolContent, ToolText, plain_text
from .._model.events import Item, PermissionOpened
from .._permissions.policies import Deny, choose_option
from .diffs import show_diff
from .forms import Field, Unfit, fields_of
from .held import HeldSession
from .text import as_json, one_line, plain, whole_line

_KINDS: Final = {
    "allow_once": ("y", "allow once", "yes"),
    "allow_always": ("a", "allow always", "always"),
    "reject_once": ("n", "reject", "no"),
    "reject_always": ("x", "reject always", "never"),
}
"""For each kind of option its letter, what it does, and its word."""

_WORDS: Final = frozenset(
    {"y", "yes", "ok", "okay", "sure", "allow", "a", "always", "d"}
    | {"n", "no", "reject", "deny", "x", "never", "r"}
)
"""What nobody types who does not mean an answer."""


class Question(Protocol):
    """One question of the agent."""

    title: str
    """Who asks what; what is the agent's own stands behind a bar."""

    @property
    def prompt(self) -> str:
        """What stands before the cursor."""
        ...

    def offered(self, width: int) -> list[str]:
        """The answers that there are, if there are a few, each in a row of the terminal."""
        ...

    def subject(self) -> list[str]:
        """What the answer is about: all that must have been seen before one counts."""
        ...

    def details(self) -> list[str] | None:
        """The same with everything else that is known, if there may be such a thing."""
        ...

    def expects(self, line: str) -> bool:
        """Whether this line could be meant as an answer."""
        ...

    def declines(self, line: str) -> bool:
        """Whether this answer lets nothing happen: it counts at once."""
        ...

    def take(self, line: str) -> str | None:
        """None: that was the answer. Else what to say before it is asked on."""
        ...


def make_question(
    session: HeldSession, request: PermissionOpened, item: Item | None
) -> Question | None:
    """The question of a request; None if a line cannot answer it. `item`: what it is about."""
    if request.url is not None:
        return Visit(session, request, request.url)
    if request.form is not None:
        fields = fields_of(request.form)
        return Form(session, request, fields) if fields else None
    return Choice(session, request, item) if request.options else None


def reject(session: HeldSession, request: PermissionOpened) -> None:
    """Say no, in the way that the request offers; nothing happens if it is over."""
    option = choose_option(request.options, Deny())
    try:
        if option is not None:
            session.answer(request.request, option.id)
        else:
            session.dismiss(request.request)
    except LocalProtocolError:
        pass


def could_be_an_answer(text: str) -> bool:
    """Whether a text, perhaps unfinished, was meant for a question and for nothing else."""
    word = text.strip().casefold()
    return word.isdecimal() or any(each.startswith(word) for each in _WORDS)


class Choice:
    """A permission request: one of its options, by its letter, its place or a plain yes or no."""

    def __init__(self, session: HeldSession, request: PermissionOpened, item: Item | None) -> None:
        self._session = session
        self._request = request
        self._item = item
        self._rejects = choose_option(request.options, Deny())
        self._why = False
        """The reason for a rejection is to be typed."""
        self._keys: list[str] = []
        self._answers: dict[str, str] = {}
        """What may be typed, and which option it is."""
        self.title = f"The agent asks: │ {one_line(request.title)}"
        kinds = [option.kind for option in request.options]
        for number, option in enumerate(request.options, 1):
            key, _, word = _KINDS.get(option.kind, ("", "", ""))
            if not key or key in self._answers:
                key = str(number)
            self._keys.append(key)
            self._answers |= {key: option.id, str(number): option.id}
            if word and kinds.count(option.kind) == 1:
                self._answers[word] = option.id

    def offered(self, width: int) -> list[str]:
        if self._why:
            return []
        rows = []
        for key, option in zip(self._keys, self._request.options, strict=True):
            words = _words(option.kind)
            name = one_line(option.name, max(12, min(_NAME, width - len(words) - 14)))
            called = "" if name.casefold() == words else f"   │ “{name}”"
            rows.append(f"  {key}  {words}{called}")
        return [*rows, "  r  reject, and say why"] if self._rejects is not None else rows

    @property
    def prompt(self) -> str:
        return "what should it know? " if self._why else f"{'/'.join(self._keys)}? "

    def subject(self) -> list[str]:
        return [] if self._why else self._about(brief=True)

    def details(self) -> list[str]:
        return self._about(brief=False)

    def _about(self, *, brief: bool) -> list[str]:
        lines = _details(self._request, self._item, brief=brief)
        title = plain(self._request.title)
        if one_line(title) != title:
            lines = [*title.splitlines(), *lines]
        for key, option in zip(self._keys, self._request.options, strict=True):
            if len(option.name) > _NAME // 2:
                lines.append(f"{key}, {_words(option.kind)}: {whole_line(option.name)}")
        return lines

    def expects(self, line: str) -> bool:
        word = line.strip().casefold()
        return self._why or word in _WORDS or word in self._answers or word.isdecimal()

    def declines(self, line: str) -> bool:
        word = line.strip().casefold()
        chosen = self._answers.get(word)
        kinds = {option.id: option.kind for option in self._request.options}
        return self._why or word == "r" or kinds.get(chosen or "", "").startswith("reject")

    def take(self, line: str) -> str | None:
        if self._why and self._rejects is not None:
            self._session.answer(self._request.request, self._rejects.id, note=line.strip())
            return None
        word = line.strip().casefold()
        if word == "r" and self._rejects is not None:
            self._why = True
            return ""
        option = self._answers.get(word)
        if option is None:
            return f"Not an answer, so nothing is allowed yet. Type {self.prompt[:-2]} and Enter."
        self._session.answer(self._request.request, option)
        return None


_NAME: Final = 60
"""Characters of an option's name that are shown beside its letter."""


def _words(kind: str) -> str:
    return _KINDS[kind][1] if kind in _KINDS else "another answer"


def _details(request: PermissionOpened, item: Item | None, *, brief: bool) -> list[str]:
    """What the agent would do, as far as it said; safe, and not shortened. `brief`: without the
    arguments that a change repeats which is shown, and without what only programs read."""
    lines: list[str] = []
    tool = item.tool if item is not None else None
    content = _content(request.detail) or (tool.content if tool is not None else [])
    shown: list[str] = []
    for part in content:
        if isinstance(part, Diff):
            shown += show_diff(part)
        elif isinstance(part, ToolText):
            shown += plain(plain_text([part.content])).splitlines()
    if tool is not None:
        if tool.name:
            lines.append(f"tool: {one_line(tool.name)}")
        lines += _arguments(_unrepeated(tool.input, shown) if brief else tool.input)
    lines += shown
    if isinstance(request.detail, dict):
        for name, value in request.detail.items():
            if name == "input":
                lines += _arguments(value)
            elif not brief or (isinstance(value, str | int | float) and value is not True):
                lines += _entry(str(name), value)
    return lines


_TEXTS: Final = frozenset(
    {"content", "file_text", "new", "new_str", "new_string", "new_text", "newString", "newText"}
    | {"old", "old_str", "old_string", "old_text", "oldString", "oldText", "text"}
)
"""Arguments that are the text before or behind a change, where an agent also shows the change."""


def _unrepeated(input: Any, shown: Sequence[str]) -> Any:
    """The arguments without the texts of which a change shows every line."""
    changed = {line[1:] for line in shown}
    if not isinstance(input, dict):
        return input
    return {
        name: value
        for name, value in input.items()
        if name not in _TEXTS
        or not isinstance(value, str)
        or not changed.issuperset(plain(value).splitlines())
    }


def _content(detail: Any) -> list[ToolContent]:
    """The content that came with the question, where the protocol has such a thing."""
    try:
        return msgspec.convert(detail, list[ToolContent])
    except msgspec.ValidationError:
        return []


def _arguments(input: Any) -> list[str]:
    if isinstance(input, dict):
        return [line for name, value in input.items() for line in _entry(str(name), value)]
    return plain(as_json(input)).splitlines() if input is not None else []


def _entry(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else as_json(value)
    first, *rest = plain(text).splitlines() or [""]
    return [f"{one_line(name)}: {first}", *(f"    {line}" for line in rest)]


class Visit:
    """A page that the person should visit."""

    prompt = "y/n? "

    def __init__(self, session: HeldSession, request: PermissionOpened, url: str) -> None:
        self._session = session
        self._request = request
        self._url = url
        self.title = f"The agent asks you to visit a page: │ {one_line(request.title)}"

    def offered(self, width: int) -> list[str]:
        return ["  y  I have been there", "  n  I will not"]

    def subject(self) -> list[str]:
        return [whole_line(self._url)]

    def details(self) -> None:
        return None

    def expects(self, line: str) -> bool:
        return could_be_an_answer(line)

    def declines(self, line: str) -> bool:
        return line.strip().casefold() in ("n", "no", "2")

    def take(self, line: str) -> str | None:
        if self.declines(line):
            reject(self._session, self._request)
        elif line.strip().casefold() in ("y", "yes", "1"):
            self._session.fill(self._request.request, {})
        else:
            return "Type y or n and Enter."
        return None


class Form:
    """A form, one field after the other; it is sent behind the last one."""

    def __init__(
        self, session: HeldSession, request: PermissionOpened, fields: list[Field]
    ) -> None:
        self._session = session
        self._request = request
        self._left = fields
        self._values: JsonObject = {}
        self.title = f"The agent asks: │ {one_line(request.title)}\n  (Ctrl-D answers nothing)"

    def offered(self, width: int) -> list[str]:
        return []

    @property
    def prompt(self) -> str:
        return f"│ {self._left[0].prompt}"

    def subject(self) -> list[str]:
        title = plain(self._request.title)
        whole = title.splitlines() if one_line(title) != title and not self._values else []
        return [*whole, *self._left[0].lines()]

    def details(self) -> None:
        return None

    def expects(self, line: str) -> bool:
        return True

    def declines(self, line: str) -> bool:
        return False

    def take(self, line: str) -> str | None:
        field = self._left[0]
        try:
            value = field.read(line)
        except Unfit as error:
            return str(error)
        if value is not None:
            self._values[field.name] = value
        self._left = self._left[1:]
        if self._left:
            return ""
        self._session.fill(self._request.request, self._values)
        return None
