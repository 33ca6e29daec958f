"""Records the messages of a real Claude Code in rich sessions, line by line.

    PYTHONPATH=tests python -m agents.record_claude FOLDER [AGENT …]

The sessions have text, thoughts, commands in the foreground and the background, edits, plans,
tools of the host, questions, sub-agents, results of tools that the provider runs, citations, hooks,
failures, a compaction and a cancelled turn. The model is the scripted one. Each file has the
messages of one version, in both directions: `<` from the agent, `>` to it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import trio

import agentrt
from agentrt.tracing import read_trace

from .lab import Lab, model_server, prepare
from .modelserver.scripts import (
    Blocks,
    Call,
    Edit,
    Pause,
    Script,
    Shell,
    Status,
    StreamError,
    Text,
    Thinking,
    prompt_for,
)
from .recipes import CLAUDES
from .story import agent_of, until
from .versions import agents_root

Json = dict[str, Any]
PATIENCE_S: Final = 180.0

_CITED: Final[Json] = {
    "type": "web_search_result_location",
    "url": "https://a.example/page",
    "title": "A page",
    "encrypted_index": "c2VhbGVk",
    "cited_text": "It is so.",
}
_FOUND: Final[Json] = {
    "type": "web_search_result",
    "url": "https://a.example/page",
    "title": "A page",
    "encrypted_content": "c2VhbGVk",
    "page_age": "2 days ago",
}
SEARCH: Final = Blocks(
    [
        {
            "type": "server_tool_use",
            "id": "srvtoolu_1",
            "name": "web_search",
            "input": {"query": "it"},
        },
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [_FOUND]},
        {"type": "text", "text": "It is so.", "citations": [_CITED]},
        {
            "type": "server_tool_use",
            "id": "srvtoolu_2",
            "name": "web_search",
            "input": {"query": "no"},
        },
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_2",
            "content": {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
        },
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
    ]
)
_QUESTION: Final[Json] = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [
        {"label": "Red", "description": "warm"},
        {"label": "Blue", "description": "cold"},
    ],
}
_CHILD: Final[Json] = {"description": "looks", "subagent_type": "general-purpose"}


@agentrt.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def _agent(*turns: Any, background: bool = False) -> Call:
    more = {"run_in_background": True} if background else {}
    return Call("Agent", {**_CHILD, **more, "prompt": prompt_for([list(turn) for turn in turns])})


def scripts(work: Path) -> Iterator[Script]:
    """Yield the answers of the turns that need nothing but a prompt."""
    yield [[Thinking("I think."), Text("Hello.")]]
    yield [[Text("I run it."), Shell("echo out; echo err >&2; sleep 4")], [Text("It ran.")]]
    yield [[Shell("exit 3")], [Text("It failed.")]]
    yield [[Edit(str(work / "a.txt"), "one\n")], [Text("It is written.")]]
    edit = {"file_path": str(work / "a.txt"), "old_string": "one", "new_string": "two"}
    yield [
        [Call("Read", {"file_path": str(work / "a.txt")})],
        [Call("Edit", edit)],
        [Text("Edited.")],
    ]
    yield [[Call("TodoWrite", {"todos": [_todo("one"), _todo("two")]})], [Text("Planned.")]]
    task = {"subject": "one", "description": "the first", "activeForm": "doing one"}
    change = {"taskId": "1", "status": "in_progress"}
    yield [[Call("TaskCreate", task)], [Call("TaskUpdate", change)], [Text("A plan.")]]
    yield [[Call("add", {"a": 1, "b": 2})], [Text("Added.")]]
    yield [[Call("AskUserQuestion", {"questions": [_QUESTION]})], [Text("Thank you.")]]
    yield [[Call("Unknown", {"a": 1})], [Text("There is none.")]]
    yield [[SEARCH]]
    yield [
        [_agent([Text("I look."), Shell("echo child")], [Text("A report.")])],
        [Text("It looked.")],
    ]
    yield [[Status(529, times=1), Text("After a retry.")]]
    yield [[Status(401)]]
    yield [[Text("half"), StreamError()]]
    background = _agent([Pause(1.0), Text("A late report.")], background=True)
    yield [[background], [Text("It works.")], [Text("It is done.")]]
    yield [[Shell("sleep 1; echo late", background=True)], [Text("Started.")], [Text("Seen.")]]


def _todo(content: str) -> Json:
    return {"content": content, "status": "in_progress", "activeForm": f"doing {content}"}


@asynccontextmanager
async def _session(lab: Lab, trace: Path, **more: Any) -> AsyncIterator[agentrt.Session]:
    async with agentrt.open_session(
        agent_of(lab),
        cwd=lab.work,
        env=lab.env,
        trust="yes",
        tools=[add],
        trace=trace,
        **more,
    ) as session:
        yield session


async def record(lab: Lab, trace: Path) -> None:
    """Let an agent live through the sessions."""
    lab.env.update(
        {"CLAUDE_CODE_MAX_RETRIES": "1", "ANTHROPIC_SMALL_FAST_MODEL": "claude-haiku-4-5"}
    )
    async with _session(lab, trace, permissions=agentrt.allow_all) as session:
        for script in scripts(lab.work):
            with trio.move_on_after(PATIENCE_S):
                await session.run(prompt_for(script), check=False)
            with suppress(trio.TooSlowError):
                await until(partial(_is_over, session), 15)
        await trio.sleep(1.0)
        with trio.move_on_after(PATIENCE_S):
            await session.run("/compact", check=False)
        with trio.move_on_after(PATIENCE_S):
            await session.run("/cost", check=False)
    async with _session(lab, trace, permissions=agentrt.deny_all) as session:
        await session.run(
            prompt_for([[Shell("touch denied")], [Text("Not allowed.")]]), check=False
        )
        session.submit(prompt_for([[Text("word " * 400, chunk=5, pace=0.1)]]))
        await until(lambda: "word" in str(session.snapshot().items))
        session.cancel()
        await until(partial(_is_over, session))
        await session.run("Please [[text]]", check=False)


def _is_over(session: agentrt.Session) -> bool:
    now = session.snapshot()
    return now.state.phase == "idle" and all(task.status != "running" for task in now.tasks)


def lines(trace: Path, folder: Path) -> Iterator[Json]:
    """Yield the messages of a trace without what differs from run to run."""
    for row in read_trace(trace):
        if row.kind not in ("sent", "received"):
            continue
        text = row.text.replace(str(folder), "/sandbox")
        yield {"dir": ">" if row.kind == "sent" else "<", "msg": _short(json.loads(text))}


def _short(value: Any, name: str = "") -> Any:
    """Return a message with long lists and texts cut."""
    match value:
        case dict():
            return {key: _short(each, key) for key, each in value.items()}
        case list() if name not in ("content", "blocks"):
            return [_short(each) for each in value[:2]]
        case list():
            return [_short(each) for each in value]
        case str() if len(value) > 160:
            return value[:160]
        case _:
            return value


def main() -> None:
    target = Path(sys.argv[1])
    for agent in sys.argv[2:] or CLAUDES:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with model_server(folder) as model:
                lab = prepare(agent, model, agents_root(), folder)
                trio.run(record, lab, folder / "trace.ndjson")
            rows = [
                json.dumps(row, separators=(",", ":")) + "\n"
                for row in lines(folder / "trace.ndjson", folder)
            ]
            (target / f"{agent}.ndjson").write_text("".join(rows))


if __name__ == "__main__":
    main()
