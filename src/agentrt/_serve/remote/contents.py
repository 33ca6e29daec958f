"""Completing the previews of large contents that a server sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from ...events import Block, Cut, ResourceLink

T = TypeVar("T", bound=Struct)

Fetch: TypeAlias = Callable[[str, int], Awaitable[tuple[str, int | None]]]
"""Returns a piece of the content at a place, from an index, and the index of the next piece."""


async def completed(value: T, fetch: Fetch) -> T:
    """Return an object with its large contents. Raises the errors of `fetch`."""
    plain = msgspec.to_builtins(value)
    cuts = list(_cuts(plain))
    if not cuts:
        return value
    texts: dict[str, str] = {}
    for cut in cuts:
        parts: list[str] = []
        start: int | None = 0
        while start is not None and not 0 < cut.start <= start:
            piece, start = await fetch(cut.at, start)
            parts.append(piece)
        text = "".join(parts)
        texts[cut.at] = text[: cut.start] if cut.start else text
    return msgspec.convert(_filled(plain, texts), type(value))


def shows(preview: list[Block] | None, content: list[Block]) -> bool:
    """True if blocks from a server, which may be previews, have this content."""
    if preview == content:
        return True
    return (
        preview is not None
        and len(preview) <= len(content)
        and any(not isinstance(block, ResourceLink) and block.cut for block in preview)
        and all(map(_shows, preview, content))
    )


def _shows(preview: Block, block: Block) -> bool:
    return _begins(msgspec.to_builtins(preview), msgspec.to_builtins(block))


def _begins(preview: Any, whole: Any) -> bool:
    """True if a preview is one of the whole value: complete members are equal, cut texts its
    beginning.
    """
    if not isinstance(preview, dict) or not isinstance(whole, dict):
        return bool(preview == whole)
    cuts = preview.get("_cut", {})
    for name, value in preview.items():
        if name == "_cut":
            continue
        known = whole.get(name)
        if name not in cuts:
            if not _begins(value, known):
                return False
        elif isinstance(value, str) and isinstance(known, str):
            if len(known) != cuts[name]["chars"] or not known.startswith(value):
                return False
    return True


def _cuts(value: Any) -> Iterator[Cut]:
    """Yield the cuts in a value that have a place, so that their contents can be requested."""
    if isinstance(value, list | tuple):
        for each in value:
            yield from _cuts(each)
    elif isinstance(value, dict):
        own = msgspec.convert(value.get("_cut", {}), dict[str, Cut])
        yield from (cut for cut in own.values() if cut.at)
        for name, each in value.items():
            if name != "_cut" and name not in own:
                yield from _cuts(each)


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    """Put the requested texts into a value, in place of its previews.

    `texts`: the missing texts, by their place. A preview that keeps its end gets the beginning; a
    value that was sent as JSON text is decoded. Texts that were not fetched stay cut.
    """
    if isinstance(value, list | tuple):
        return [_filled(each, texts) for each in value]
    if not isinstance(value, dict):
        return value
    cuts = msgspec.convert(value.get("_cut", {}), dict[str, Cut])
    whole: dict[str, Any] = {}
    for name, each in value.items():
        cut = cuts.get(name)
        if name == "_cut":
            continue
        if cut is None:
            whole[name] = _filled(each, texts)
        elif (text := texts.get(cut.at)) is None:
            whole[name] = each
        elif cut.json:
            whole[name] = msgspec.json.decode(text)
        else:
            whole[name] = text + each if cut.start else text
    return whole
