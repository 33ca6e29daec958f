"""The meaning of plain sentences. It has a handful of sentence shapes instead of a model."""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct


class HelpRequest(Struct, frozen=True):
    """List the abilities of the demo agent."""


class ListRequest(Struct, frozen=True):
    """List a folder."""

    path: str = "."


class ReadRequest(Struct, frozen=True):
    """Show a file, or some of its lines."""

    path: str
    first: int = 1
    last: int | None = None


class SearchRequest(Struct, frozen=True):
    """Search for a text below a path."""

    text: str
    path: str = "."


class ReplaceRequest(Struct, frozen=True):
    """Replace a text in a file."""

    path: str
    old: str
    new: str


class CreateRequest(Struct, frozen=True):
    """Create a file."""

    path: str
    text: str


class RunRequest(Struct, frozen=True):
    """Run a command line."""

    command: str


class UnclearRequest(Struct, frozen=True):
    """Any other sentence. `words` are the parts of it that may occur in files."""

    words: tuple[str, ...]


Job: TypeAlias = (
    HelpRequest
    | ListRequest
    | ReadRequest
    | SearchRequest
    | ReplaceRequest
    | CreateRequest
    | RunRequest
    | UnclearRequest
)

_POLITE = re.compile(
    r"^(?:(?:please|now|then|(?:can|could|would|will) you|i want you to|let's|let us)[,\s]+)+",
    re.IGNORECASE,
)


def _shape(pattern: str) -> re.Pattern[str]:
    """Compile a sentence, with `_` for any space, and named groups for its parts.

    A group that matches anything must end with a non-space before the next space, so spaces are
    read once: each shape takes time in proportion to the sentence.
    """
    return re.compile(pattern.replace("_", r"(?<=\S)\s++"), re.IGNORECASE | re.DOTALL)


_HELP = _shape(
    r"help|hi|hello|hey|what_(?:can|do)_you_(?:do|know|understand)|who_are_you|what_are_you"
    r"|how_(?:\S+_){0,8}work"
)
_RUN = _shape(r"(?:run|execute)_(?:the_command_)?(?P<command>.+)|[$!]\s*(?P<shell>.+)")
_REPLACE = _shape(
    r"(?:edit_(?P<edited>\S+?):?_|in_(?P<within>\S+?),?_)?(?:replace|change)_(?P<rest>.+)"
)
_BY = _shape(r"_(?:by|with|to|->|→)_(?=\S)")
_CREATE = _shape(
    r"(?:create|write|make)_(?:(?:a_|the_)?(?:new_)?file_)?(?P<path>\S+?)"
    r"(?::|_(?:with|containing|saying))_(?P<text>.+)"
)
_SEARCH = _shape(
    r"(?:search|grep|find|look)(?:_for)?_(?P<text>.+?)(?:_in_(?P<path>\S+))?"
    r"|where_(?:is|are|do|does)_(?P<where>.+?)(?:_(?:defined|used|mentioned))?"
)
_LIST = _shape(
    r"(?:list|ls|dir)(?:_(?:the_|all_)?(?:files|folders?|entries))?(?:_(?:in|of)(?:_the_folder)?)?"
    r"(?:_(?P<path>\S+))?"
    r"|(?:what|which)_files_(?:are_(?:there|here)|do_you_see|are_in_(?P<folder>\S+))"
)
_READ = _shape(
    r"(?:read|show|cat|open|print|view)_(?:me_)?(?:the_file_)?(?P<path>\S+?)"
    r"(?:(?::|_lines?_)(?P<first>\d+)(?:(?:-|_to_)(?P<last>\d+))?)?"
)


def unquote(text: str) -> str:
    """Return a text without the quotes or backticks around the whole of it."""
    for opening, closing in ('""', "''", "``", "“”", "«»"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing:
            return text[1:-1]
    return text


def understand(text: str) -> Job:
    """Return the work that a sentence requests."""
    sentence = _POLITE.sub("", text.strip())
    plain = re.sub(r"(?<=\w)[?!.]+$", "", sentence)
    for shape, subject, request in (
        (_HELP, plain, _help),
        (_RUN, sentence, _run),
        (_REPLACE, sentence, _replacement),
        (_CREATE, sentence, _create),
        (_LIST, plain, _list),
        (_SEARCH, plain, _search),
        (_READ, plain, _read),
    ):
        if (found := shape.fullmatch(subject)) and (job := request(found)):
            return job
    return UnclearRequest(_names(sentence))


def _help(found: re.Match[str]) -> Job:
    return HelpRequest()


def _run(found: re.Match[str]) -> Job:
    return RunRequest(unquote((found["command"] or found["shell"]).strip()))


def _create(found: re.Match[str]) -> Job:
    return CreateRequest(unquote(found["path"]), unquote(found["text"]))


def _list(found: re.Match[str]) -> Job:
    """Return the request to list a folder; `here` and similar words mean the working directory."""
    path = unquote(found["path"] or found["folder"] or ".")
    return ListRequest("." if path in ("here", "this", "folder", "there") else path)


def _search(found: re.Match[str]) -> Job:
    return SearchRequest(unquote(found["text"] or found["where"]), unquote(found["path"] or "."))


def _read(found: re.Match[str]) -> Job:
    """Return the request to read a file; one number means one line."""
    first = int(found["first"] or 1)
    last = int(found["last"]) if found["last"] else first if found["first"] else None
    return ReadRequest(unquote(found["path"]), first, last)


_CAMEL = re.compile(r"(?<!\w)[A-Z]?[a-z]++[A-Z]\w*+")


def _replacement(found: re.Match[str]) -> ReplaceRequest | None:
    """Return the request to replace a text, or None if the file or the new text is missing.

    The sentence has several forms: the file may come first (`edit FILE replace …`) or last (`… in
    FILE`).
    """
    path, rest = found["edited"] or found["within"], found["rest"]
    if path is None:
        words = rest.rsplit(None, 2)
        if len(words) < 3 or words[1].lower() != "in":
            return None
        rest, _, path = words
    by = _BY.search(rest)
    if by is None:
        return None
    return ReplaceRequest(*map(unquote, (path, rest[: by.start()], rest[by.end() :])))


def _names(sentence: str) -> tuple[str, ...]:
    """Return quoted parts, names with a dot, underscore or slash, and CamelCase: text that files
    may contain."""
    quoted = [a or b for a, b in re.findall(r'`([^`]+)`|"([^"]+)"', sentence)]
    names = [
        name
        for word in re.findall(r"[\w./-]++", sentence)
        for name in ([word] if re.search(r"\w[._/]\w", word) else _CAMEL.findall(word))
    ]
    return tuple(dict.fromkeys(word.strip(".") for word in (*quoted, *names)))[:3]
