"""The agent's questions as lines of text, and the answers that count: choices, visits, forms.

Each line that the agent had a part in stands behind a bar, so that none can look like a question
of ours; what an option does is told in our words, its name only beside them.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

from .._errors import LocalProtocolError
from .._model.content import Diff, JsonObject, ToolContent, ToolText, plain_text
from .._model.events import Item, PermissionOpened
from .._runtime.permissions import Deny, choose_option
from .._runtime.session import Session
from .diffs import show_diff
from .forms import Field, Unfit, fields_of
from .text import as_json, one_line, plain

LINES: Final = 24
WIDTH: Final = 1000
"""Lines of details, and characters of each, that are shown unless all are asked for."""

_KINDS: Final = {
    "allow_once": ("y", "allow once"),
    "allow_always": ("a", "allow always"),
    "reject_once": ("n", "reject"),
    "reject_always": ("x", "reject always"),
}


class Question(Protocol):
    """One question of the agent."""

    @property
    def prompt(self) -> str:
        """What stands before the cursor."""
        ...

    @property
    def offered(self) -> list[str]:
        """The answers that there are, if there are a few."""
        ...

    def lines(self) -> list[str]:
        """What is asked, to be shown above them."""
        ...

    def expects(self, line: str) -> bool:
        """Whether this line could be meant as an answer."""
        ...

    def take(self, line: str) -> list[str] | None:
        """None: that was the answer. Else what to show before it is asked again."""
        ...


def make_question(
    session: Session, request: PermissionOpened, item: Item | None
) -> Question | None:
    """The question of a request; None if a line cannot answer it. `item`: what it is about."""
    if request.url is not None:
        return Visit(session, request, request.url)
    if request.form is not None:
        fields = fields_of(request.form)
        return Form(session, request, fields) if fields else None
    return Choice(session, request, item) if request.options else None


def reject(session: Session, request: PermissionOpened) -> None:
    """Say no, in the way that the request offers; nothing happens if it is over."""
    option = choose_option(request.options, Deny())
    try:
        if option is not None:
            session.answer(request.request, option.id)
        else:
            session.dismiss(request.request)
    except LocalProtocolError:
        pass


class Choice:
    """A permission request: one of its options, by a letter or a number."""

    def __init__(self, session: Session, request: PermissionOpened, item: Item | None) -> None:
        self._session = session
        self._request = request
        self._details = _details(request, item)
        self._first = _details(request, item, brief=True)
        self._rejects = choose_option(request.options, Deny())
        self._why = False
        """The reason for a rejection is to be typed."""
        self._options: dict[str, str] = {}
        self._offered: list[str] = []
        for number, option in enumerate(request.options, 1):
            key, words = _KINDS.get(option.kind, ("", "another answer"))
            if not key or key in self._options:
                key = str(number)
            self._options[key] = option.id
            name = one_line(option.name, 300)
            called = "" if name.casefold() == words else f"   │ “{name}”"
            self._offered.append(f"  {key}  {words}{called}")
        if self._rejects is not None:
            self._offered.append("  r  reject, and say why")

    @property
    def offered(self) -> list[str]:
        return [] if self._why else self._offered

    @property
    def prompt(self) -> str:
        return "what should it know? " if self._why else f"{'/'.join(self._options)}? "

    def lines(self) -> list[str]:
        shown, more = _shortened(self._first)
        if not more and self._first != self._details:
            more = "what the change repeats"
        return [
            f"The agent asks: │ {one_line(self._request.title)}",
            *(f"  │ {line}" for line in shown),
            *([f"  … {more} not shown; d shows everything"] if more else []),
        ]

    def expects(self, line: str) -> bool:
        return self._why or line in self._options or line in ("d", "r")

    def take(self, line: str) -> list[str] | None:
        if self._why and self._rejects is not None:
            self._session.answer(self._request.request, self._rejects.id, note=line.strip())
            return None
        if line == "r" and self._rejects is not None:
            self._why = True
            return []
        if line == "d":
            return [f"  │ {each}" for each in self._details]
        option = self._options.get(line)
        if option is None:
            return [f"Not an answer, so nothing is allowed yet. Type {self.prompt[:-2]} and Enter."]
        self._session.answer(self._request.request, option)
        return None


def _details(request: PermissionOpened, item: Item | None, *, brief: bool = False) -> list[str]:
    """What the agent would do, as far as it told; safe, but not shortened. `brief`: without the
    arguments that are nothing but the text before or after a change that is shown."""
    lines: list[str] = []
    tool = item.tool if item is not None else None
    content = _content(request.detail) or (tool.content if tool is not None else [])
    if tool is not None:
        if tool.name:
            lines.append(f"tool: {one_line(tool.name)}")
        lines += _arguments(_unrepeated(tool.input, content) if brief else tool.input)
    for part in content:
        if isinstance(part, Diff):
            lines += show_diff(part)
        elif isinstance(part, ToolText):
            lines += plain(plain_text([part.content])).splitlines()
    if isinstance(request.detail, dict):
        for name, value in request.detail.items():
            if isinstance(value, str | int | float) and value is not True:
                lines += _entry(str(name), value)
    return lines


def _unrepeated(input: Any, content: list[ToolContent]) -> Any:
    """The arguments that a change does not show anyway."""
    texts = [
        text
        for part in content
        if isinstance(part, Diff)
        for text in (part.old_text, part.new_text)
    ]
    if not isinstance(input, dict) or not texts:
        return input
    return {name: value for name, value in input.items() if value not in texts}


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


def _shortened(lines: list[str]) -> tuple[list[str], str]:
    """What is shown of them at first, and in words what is not."""
    shown = [line if len(line) <= WIDTH else f"{line[:WIDTH]} …" for line in lines[:LINES]]
    if len(lines) > LINES:
        return shown, f"{len(lines) - LINES} more lines"
    return shown, "" if shown == lines else "the rest of long lines"


class Visit:
    """A page that the person should visit."""

    def __init__(self, session: Session, request: PermissionOpened, url: str) -> None:
        self._session = session
        self._request = request
        self._url = url
        self.prompt = "y/n? "
        self.offered = ["  y  I have been there", "  n  I will not"]

    def lines(self) -> list[str]:
        return [
            f"The agent asks you to visit a page: │ {one_line(self._request.title)}",
            f"  │ {one_line(self._url, 2000)}",
        ]

    def expects(self, line: str) -> bool:
        return line in ("y", "n")

    def take(self, line: str) -> list[str] | None:
        if line == "y":
            self._session.fill(self._request.request, {})
        elif line == "n":
            reject(self._session, self._request)
        else:
            return ["Type y or n and Enter."]
        return None


class Form:
    """A form, one field after the other; it is sent behind the last one."""

    def __init__(self, session: Session, request: PermissionOpened, fields: list[Field]) -> None:
        self._session = session
        self._request = request
        self._left = fields
        self._values: JsonObject = {}

    @property
    def offered(self) -> list[str]:
        return []

    @property
    def prompt(self) -> str:
        return f"│ {self._left[0].prompt}"

    def lines(self) -> list[str]:
        return [
            f"The agent asks: │ {one_line(self._request.title)}",
            "  (Ctrl-D answers nothing)",
            *self._field(),
        ]

    def _field(self) -> list[str]:
        return [f"  │ {line}" for line in self._left[0].lines()]

    def expects(self, line: str) -> bool:
        return True

    def take(self, line: str) -> list[str] | None:
        field = self._left[0]
        try:
            value = field.read(line)
        except Unfit as error:
            return [str(error)]
        if value is not None:
            self._values[field.name] = value
        self._left = self._left[1:]
        if self._left:
            return self._field()
        self._session.fill(self._request.request, self._values)
        return None
