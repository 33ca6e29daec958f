"""The agent's questions as lines of text, and the valid answers: choices, visits, forms.

The effect of an option is described by agentrt; the agent's own name for it only follows. An answer
that allows something counts once its whole subject has been shown (`cards.py` ensures that).
"""

from __future__ import annotations

from typing import Final, Protocol

from ...display import TITLE_CHARS, RequestPart, form_parts, request_parts, reveal
from ...errors import LocalProtocolError
from ...events import Item, JsonObject, PermissionOpened, PermissionOption
from ...permissions import Deny, choose_option
from ..session_view import SessionView
from ..text import revealed_line
from .forms import FormField, InvalidValue, fields_of
from .view import show_diff

_KINDS: Final = {
    "allow_once": ("y", "allow once", "yes"),
    "allow_always": ("a", "allow always", "always"),
    "reject_once": ("n", "reject", "no"),
    "reject_always": ("x", "reject always", "never"),
}
"""The letter, the effect and the word of each kind of option."""

_WORDS: Final = frozenset(
    {"y", "yes", "ok", "okay", "sure", "allow", "a", "always", "d"}
    | {"n", "no", "reject", "deny", "x", "never", "r"}
)
"""Words that are only typed as an answer."""


class OpenQuestion(Protocol):
    """One question of the agent."""

    title: str
    """The kind of question; the agent's own text follows a bar."""

    @property
    def prompt(self) -> str:
        """The text before the cursor."""
        ...

    def offered(self, width: int) -> list[str]:
        """Return the possible answers, each in a row of the terminal; empty if they are not
        enumerable.
        """
        ...

    def subject(self, width: int) -> list[str]:
        """Return the lines that must be seen before an answer counts.

        `width`: the columns of the terminal.
        """
        ...

    def renew(self, item: Item | None) -> None:
        """Use a newer state of the tool call that the question is about."""
        ...

    def expects(self, line: str) -> bool:
        """Return True if this line could be meant as an answer."""
        ...

    def declines(self, line: str) -> bool:
        """Return True if this answer allows nothing, so that it counts immediately."""
        ...

    def take(self, line: str) -> str | None:
        """Handle a line. Returns None if it was the answer, else the text to show before asking
        again.
        """
        ...


def make_question(
    session: SessionView, request: PermissionOpened, item: Item | None
) -> OpenQuestion | None:
    """Create the question of a request; returns None if it cannot be answered in a line.

    `item`: the tool call that it is about.
    """
    if request.url is not None:
        return VisitQuestion(session, request)
    if request.form is not None:
        fields = fields_of(request.form)
        return FormQuestion(session, request, fields) if fields else None
    return PermissionQuestion(session, request, item) if request.options else None


def reject(session: SessionView, request: PermissionOpened) -> None:
    """Reject a request in the way that it offers; does nothing if it is not open any more."""
    option = choose_option(request.options, Deny())
    try:
        if option is not None:
            session.answer(request.request, option.id)
        else:
            session.dismiss(request.request)
    except LocalProtocolError:
        pass


def could_be_an_answer(text: str) -> bool:
    """Return True if a text, perhaps unfinished, can only be meant as the answer to a question."""
    word = text.strip().casefold()
    return word.isdecimal() or any(each.startswith(word) for each in _WORDS)


class PermissionQuestion:
    """A permission request, answered by the letter or number of an option, or by yes or no."""

    def __init__(self, session: SessionView, request: PermissionOpened, item: Item | None) -> None:
        self._session = session
        self._request = request
        self._item = item
        self._rejects = choose_option(request.options, Deny())
        self._why = False
        """True while the reason for a rejection is being typed."""
        self._keys: list[str] = []
        self._answers: dict[str, str] = {}
        """The valid answers, each with the id of its option."""
        heading = "Allow this?" if request.item is not None else "The agent asks:"
        self.title = f"{heading} │ {revealed_line(request.title, TITLE_CHARS)}"
        plain_kinds = [option.kind for option in request.options if not option.effect]
        for number, option in enumerate(request.options, 1):
            key, _, word = _KINDS.get(option.kind, ("", "", ""))
            if not key or key in self._answers or option.effect:
                key = str(number)  # an option with a wider effect has no letter
            self._keys.append(key)
            self._answers |= {key: option.id, str(number): option.id}
            if word and not option.effect and plain_kinds.count(option.kind) == 1:
                self._answers[word] = option.id

    def offered(self, width: int) -> list[str]:
        """Return a row for each option: its key, its effect, and the agent's name for it
        in quotes.
        """
        if self._why:
            return []
        rows = []
        for key, option in zip(self._keys, self._request.options, strict=True):
            words = _words(option.kind)
            name = _short_name(option, width)
            called = "" if name.casefold() == words else f"   │ “{name}”"
            rows.append(f"  {key}  {words}{called}")
        return [*rows, "  r  reject, with a reason"] if self._rejects is not None else rows

    @property
    def prompt(self) -> str:
        """The keys of the options, or a request for the reason of a rejection."""
        return "reason: " if self._why else f"{'/'.join(self._keys)}? "

    def subject(self, width: int) -> list[str]:
        """Return everything that an answer allows, and the options' names that were shortened
        above.

        While the reason is typed there is nothing to see first: a rejection allows nothing.
        """
        if self._why:
            return []
        lines = [line for part in request_parts(self._request, self._item) for line in _lines(part)]
        for key, option in zip(self._keys, self._request.options, strict=True):
            if _short_name(option, width) != reveal(option.name):
                part = RequestPart(f"answer {key}, {_words(option.kind)}", option.name)
                lines += _lines(part)
        return lines

    def renew(self, item: Item | None) -> None:
        self._item = item

    def expects(self, line: str) -> bool:
        """Return True for a key, a number or a word of an answer, and for any line while a reason
        is typed.
        """
        word = line.strip().casefold()
        return self._why or word in _WORDS or word in self._answers or word.isdecimal()

    def declines(self, line: str) -> bool:
        """Return True for an answer that rejects, or that asks for the reason of a rejection."""
        word = line.strip().casefold()
        chosen = self._answers.get(word)
        kinds = {option.id: option.kind for option in self._request.options}
        return self._why or word == "r" or kinds.get(chosen or "", "").startswith("reject")

    def take(self, line: str) -> str | None:
        """Answer with an option. `r` asks for a reason first, which is the next line."""
        if self._why and self._rejects is not None:
            self._session.answer(self._request.request, self._rejects.id, note=line.strip())
            return None
        word = line.strip().casefold()
        if word == "r" and self._rejects is not None:
            self._why = True
            return ""
        option = self._answers.get(word)
        if option is None:
            return f"Please answer {_listed(self._keys)}."
        self._session.answer(self._request.request, option)
        return None


_NAME_CHARS: Final = 60
"""Characters of an option's name that are shown next to its letter."""


def _short_name(option: PermissionOption, width: int) -> str:
    """Return the name of an option, shortened to fit next to its letter in `width` columns."""
    return revealed_line(
        option.name, max(12, min(_NAME_CHARS, width - len(_words(option.kind)) - 14))
    )


def _listed(keys: list[str]) -> str:
    """Return the keys as a list in words, such as `y, a or n`."""
    return " or ".join(filter(None, (", ".join(keys[:-1]), keys[-1])))


def _words(kind: str) -> str:
    """Return the effect of a kind of option, in words; unknown kinds are `another answer`."""
    return _KINDS[kind][1] if kind in _KINDS else "another answer"


def _lines(part: RequestPart) -> list[str]:
    """Return a part of a request as lines.

    The agent's text follows one of our labels or is indented, so that none of it looks like a
    label.
    """
    match part.kind:
        case "diff":
            return show_diff(part.label, part.text, part.old)
        case "same":
            text = "as above"
        case "media":
            text = f"{part.text} (not shown in a terminal)"
        case _:
            text = part.text
    first, *rest = reveal(text).expandtabs(4).split("\n")
    return [f"{reveal(part.label)}: {first}".rstrip(" "), *(f"    {line}" for line in rest)]


class VisitQuestion:
    """A page that the user should visit."""

    prompt = "y/n? "

    def __init__(self, session: SessionView, request: PermissionOpened) -> None:
        self._session = session
        self._request = request
        self.title = (
            f"The agent asks you to visit a page: │ {revealed_line(request.title, TITLE_CHARS)}"
        )

    def offered(self, width: int) -> list[str]:
        """Return the two answers; agentrt does not open the page itself."""
        return ["  y  done", "  n  decline"]

    def subject(self, width: int) -> list[str]:
        """Return the parts of the request."""
        return [line for part in request_parts(self._request, None) for line in _lines(part)]

    def renew(self, item: Item | None) -> None: ...

    def expects(self, line: str) -> bool:
        """Return True if the line could be meant as an answer."""
        return could_be_an_answer(line)

    def declines(self, line: str) -> bool:
        """Return True for an answer that means no."""
        return line.strip().casefold() in ("n", "no", "2")

    def take(self, line: str) -> str | None:
        """Answer the question: an empty form means that the page was visited."""
        if self.declines(line):
            reject(self._session, self._request)
        elif line.strip().casefold() in ("y", "yes", "1"):
            self._session.submit_form(self._request.request, {})
        else:
            return "Please answer y or n."
        return None


class FormQuestion:
    """A form, one field after the other; it is sent after the last one."""

    def __init__(
        self, session: SessionView, request: PermissionOpened, fields: list[FormField]
    ) -> None:
        self._session = session
        self._request = request
        self._left = fields
        self._values: JsonObject = {}
        self._began = False
        title = revealed_line(request.title, TITLE_CHARS)
        self.title = f"The agent asks: │ {title}\n  (Ctrl-D skips)"

    def offered(self, width: int) -> list[str]:
        """Return nothing: the field itself shows its choices."""
        return []

    @property
    def prompt(self) -> str:
        """The prompt of the current field."""
        return f"│ {self._left[0].prompt}"

    def subject(self, width: int) -> list[str]:
        """Return the lines of the current field; before the first one, the whole request
        and form.
        """
        lines: list[str] = []
        if not self._began:
            parts = [*request_parts(self._request, None), *form_parts(self._request.form or {})]
            lines = [line for part in parts for line in _lines(part)]
        return [*lines, *self._left[0].lines()]

    def renew(self, item: Item | None) -> None: ...

    def expects(self, line: str) -> bool:
        """Return True: any text may be the value of a field."""
        return True

    def declines(self, line: str) -> bool:
        """Return False: values are only sent with the last field, and Ctrl-D skips the form."""
        return False

    def take(self, line: str) -> str | None:
        """Take the value of the current field, and send the form after the last one.

        Returns the reason if the value is invalid; an empty text asks for the next field.
        """
        field = self._left[0]
        try:
            value = field.read(line)
        except InvalidValue as error:
            return str(error)
        if value is not None:
            self._values[field.name] = value
        self._left = self._left[1:]
        self._began = True
        if self._left:
            return ""
        self._session.submit_form(self._request.request, self._values)
        return None
