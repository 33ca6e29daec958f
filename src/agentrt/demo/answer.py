"""The answer to a prompt: its title, its attachments, its command or its sentence."""

from __future__ import annotations

from . import commands, jobs, words
from .files import FileRefused, size
from .turn import DemoTurn, StopReason
from .wire import JsonObject

MAX_TITLE_CHARS = 60


async def answer(turn: DemoTurn) -> StopReason:
    """Do the work that the prompt requests. Raises `DemoRpcError` if the answer is an error."""
    session = turn.session
    for block in turn.prompt:
        session.record({"sessionUpdate": "user_message_chunk", "content": block})
    session.save()  # from here on the prompt is stored, even if this process dies
    if session.info.title is None and turn.text:
        session.set_title(turn.text.splitlines()[0][:MAX_TITLE_CHARS])
    attached = [_describe(block) for block in turn.prompt if block["type"] != "text"]
    try:
        if attached:
            await turn.say("You attached " + ", ".join(attached) + ".\n\n")
        if turn.text.startswith("/"):
            return await commands.run(turn, turn.text)
        if turn.text or not attached:
            await jobs.do(turn, words.understand(turn.text))
    except FileRefused as refused:
        await turn.say(str(refused))
    return "end_turn"


def _describe(block: JsonObject) -> str:
    match block:
        case {"type": "image" | "audio", "data": str(data), "mimeType": str(mime)}:
            return (
                f"{'an image' if block['type'] == 'image' else 'a sound'} ({mime}, {_size(data)})"
            )
        case {"type": "resource_link", "uri": str(uri)}:
            return f"a link to `{uri}`"
        case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
            return f"`{uri}` ({size(len(text.encode()))})"
        case {"type": "resource", "resource": {"uri": str(uri), "blob": str(blob)}}:
            return f"`{uri}` ({_size(blob)})"
    return f"something I do not know ({block['type']})"


def _size(base64: str) -> str:
    return size(len(base64) * 3 // 4)
