"""The history of one conversation, as shown by another one that continues it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .driver import BlockReceived, Effect, TextEnded, TextReceived, ToolCalled, UserContentReceived
from .events import Item


def history_effects(items: Iterable[Item]) -> Iterator[Effect]:
    """Turn items into the effects of an agent that repeats them."""
    for item in items:
        match item.type:
            case "user":
                yield UserContentReceived(content=item.content, message=item.message, replay=True)
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
                yield TextReceived(item.text, thought, item.message, replay=True)
                for block in item.content:
                    yield BlockReceived(
                        block=block, thought=thought, message=item.message, replay=True
                    )
                yield TextEnded()
            case _:
                pass
