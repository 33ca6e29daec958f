"""The history of one conversation, as shown by another one that continues it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .driver import Effect, Said, Showed, SpeechEnded, Spoke, ToolCalled
from .events import Item


def repeated(items: Iterable[Item]) -> Iterator[Effect]:
    """Turn items into the effects of an agent that repeats them."""
    for item in items:
        match item.type:
            case "user":
                yield Said(content=item.content, message=item.message, replay=True)
            case "tool" if (tool := item.tool) is not None:
                yield ToolCalled(
                    id=tool.call or item.id,
                    opens=True,
                    name=tool.name,
                    title=tool.title,
                    kind=tool.kind,
                    owner=tool.owner,
                    status=item.status,
                    input=tool.input,
                    output=tool.output,
                    content=tool.content,
                    locations=tool.locations,
                    replay=True,
                )
            case "text" | "thought":
                thought = item.type == "thought"
                yield Spoke(item.text, thought, item.message, replay=True)
                for block in item.content:
                    yield Showed(block=block, thought=thought, message=item.message, replay=True)
                yield SpeechEnded()
            case _:
                pass
