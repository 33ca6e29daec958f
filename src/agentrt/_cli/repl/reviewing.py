"""`/diff`, `/search`, `/copy`, `/edit`, `/send`: reviewing a conversation and using its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from ...errors import AgentrtError
from ...events import Diff, Item, Snapshot, ToolCall, ToolText, plain_text
from ..clipboard import copy
from ..command_output import Run, laid_out
from ..exit_status import UsageError
from ..session_view import text_of
from ..text import one_line, plain, without_controls
from .changes import patched, worded
from .conversation import Repl
from .view import changes, tool_title

FOUND_LINES: Final = 20
"""Lines that a search shows, the newest ones."""
CONTEXT_CHARS: Final = 60
"""Characters around a match that a search shows."""

_FENCE: Final = re.compile(r" *(`{3,}|~{3,})")


def turns(command: str, argument: str) -> int:
    """Return the number of turns in an argument. Raises `UsageError`."""
    if argument and not (argument.isdecimal() and int(argument) > 0):
        raise UsageError(f"{command} takes a number of turns, 1 or more")
    return int(argument or 1)


# --- changes


async def diff(repl: Repl, argument: str) -> None:
    """Run `/diff [N]`: show the file changes of the session, or of its last N turns.

    With checkpoints, they are the changes of the files themselves, else those that the agent
    reported.
    """
    session = repl.session
    if session is None:
        return
    last = turns("/diff", argument) if argument else None
    try:
        known = await session.checkpoints.list()
    except AgentrtError:
        known = []
    own = [each for each in known if each.when == "before" and each.session == session.id]
    if own:
        patch = await session.checkpoints.diff_turns(last or len(own))
        lines = list(patched(plain(patch)))
    else:
        lines = list(_reported(await session.full_snapshot(), last))
    if lines:
        repl.show(lines)
    else:
        repl.say("No file has changed." if own else "The agent has reported no change of a file.")


def _reported(snapshot: Snapshot, last: int | None) -> Iterator[list[Run]]:
    """Yield the changes that the agent reported, by file, in the order of the first changes."""
    recent = {turn.id for turn in snapshot.turns[-last:]} if last is not None else None
    files: dict[str, list[Diff]] = {}
    for item in snapshot.items:
        if item.tool is None or item.status != "completed":
            continue
        for part in item.tool.content:
            if isinstance(part, Diff) and (recent is None or item.turn in recent):
                files.setdefault(part.path, []).append(part)
    for path, diffs in files.items():
        lines = [plain(line) for each in diffs for line in changes(each)]
        added, removed = (sum(line.startswith(mark) for line in lines) for mark in "+-")
        yield [("bold", one_line(path, 1000)), ("dim", f"  +{added} −{removed}")]
        yield from worded(lines)


# --- search


async def search(repl: Repl, argument: str) -> None:
    """Run `/search TEXT`: show the lines of the conversation that contain a text."""
    if not argument:
        raise UsageError("/search needs the text to find")
    if (session := repl.session) is None:
        return
    snapshot = await session.full_snapshot()
    wanted = re.compile(re.escape(argument), re.IGNORECASE)
    found = [
        _match(label, match)
        for item in snapshot.items
        for label, text in _texts(item)
        for line in text.split("\n")
        if (match := wanted.search(line)) is not None
    ]
    if not found:
        repl.say(f"Nothing found: {one_line(argument, 60)}")
        return
    if left := len(found[:-FOUND_LINES]):
        repl.say(f"{left:,} earlier matches are not shown")
    repl.show(found[-FOUND_LINES:])


def _texts(item: Item) -> Iterator[tuple[str, str]]:
    """Yield the texts of an item, each with a label."""
    text = item.text or plain_text(item.content)
    match item.type:
        case "user":
            yield "you", text_of(item.content) or text
        case "tool":
            tool = item.tool or ToolCall()
            title = tool_title(item)
            yield "call", title
            for part in tool.content:
                if isinstance(part, Diff):
                    yield title, part.new_text
                elif isinstance(part, ToolText):
                    yield title, laid_out(plain_text([part.content]))
            yield title, laid_out(item.text)
        case "thought":
            yield "thought", text
        case _:
            yield "agent", text


def _match(label: str, match: re.Match[str]) -> list[Run]:
    """Return a place where the text occurs, with some text around it."""
    line, start, end = match.string, match.start(), match.end()
    before = line[max(0, start - CONTEXT_CHARS) : start].lstrip()
    after = line[end : end + CONTEXT_CHARS].rstrip()
    return [
        ("dim", f"{one_line(label, 24)}: "),
        ("", ("… " if start > CONTEXT_CHARS else "") + plain(before)),
        ("ask", plain(match.group())),
        ("", plain(after) + (" …" if len(line) - end > CONTEXT_CHARS else "")),
    ]


# --- copying


async def copy_answer(repl: Repl, argument: str) -> None:
    """Run `/copy [N | code]`: copy the last answer, the Nth last one, or the last code block."""
    if (session := repl.session) is None:
        return
    snapshot = await session.full_snapshot()
    answers = _answers(snapshot.items)
    if argument == "code":
        blocks = [block for answer in answers for block in _code_blocks(answer)]
        if not blocks:
            raise UsageError("no answer contains a code block")
        text = blocks[-1]
    else:
        number = turns("/copy", argument)
        if number > len(answers):
            raise UsageError(f"there are {len(answers)} answers")
        text = answers[-number]
    text = without_controls(text)
    repl.say(f"{len(text):,} characters {await copy(text, repl.send_to_terminal)}")


def _answers(items: Iterable[Item]) -> list[str]:
    """Return the texts of the agent, those of each turn in one."""
    found: dict[str, list[str]] = {}
    for item in items:
        if item.type == "text" and item.parent is None:
            if text := (item.text or plain_text(item.content)).strip("\n"):
                found.setdefault(item.turn or item.id, []).append(text)
    return ["\n\n".join(texts) for texts in found.values()]


def _code_blocks(answer: str) -> Iterator[str]:
    """Yield the fenced code blocks of an answer, without the fences."""
    fence, lines = "", list[str]()
    for line in answer.split("\n"):
        mark = _FENCE.match(line)
        if not fence and mark is not None:
            fence, lines = mark[1], []
        elif fence and line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield "\n".join(lines)
            fence = ""
        elif fence:
            lines.append(line)


# --- earlier prompts, and the output of the user's own commands


def fork_ends(snapshot: Snapshot) -> list[tuple[str, str]]:
    """Return the shown turns, newest first: the id of an item of each, and its prompt."""
    found: dict[str, tuple[str, str]] = {}
    for item in snapshot.items:
        if item.type == "user" and item.parent is None:
            words = item.text or text_of(item.content)
            found.setdefault(item.turn or item.id, (item.id, words))
    return list(reversed(found.values()))


async def edit_prompt(repl: Repl, argument: str) -> None:
    """Run `/edit [N]`: change the Nth last prompt, in a copy of the conversation that ends before
    it.

    If the agent cannot fork there, only the text is taken into the prompt.
    """
    session = repl.session
    if session is None:
        return
    if repl.busy:
        raise UsageError("the agent is working; stop it first")
    prompts = fork_ends(session.snapshot())
    if not prompts:
        raise UsageError("there are no earlier prompts")
    if not argument and len(prompts) > 1:
        rows = [(str(n), one_line(text, 60)) for n, (_, text) in enumerate(prompts, 1)]
        repl.choose("/edit", rows)
        return
    number = int(argument) if argument.isdecimal() else 1 if not argument else 0
    if not 0 < number <= len(prompts):
        raise UsageError(
            f"/edit takes the number of a prompt, counted from the last: 1 to {len(prompts)}"
        )
    text = prompts[number - 1][1]
    try:
        if number == len(prompts):
            await repl.commands["new"].run(repl, "")
        else:
            repl.leave(next=await repl.source.fork(session, repl.setup, prompts[number][0]))
    except AgentrtError as error:
        repl.say(f"This conversation continues, because {one_line(str(error), 300)}.")
    repl.set_draft(text)


async def send_output(repl: Repl, argument: str) -> None:
    """Run `/send [TEXT]`: send the output of the last `!` command, after a text of the user."""
    output = repl.last_output
    if output is None:
        raise UsageError("/send sends the output of a command that was run here with !COMMAND")
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", output.text)), default=0))
    about = f"Output of `{output.command}` (exit status {output.status}):"
    text = f"{about}\n\n{fence}\n{output.text}\n{fence}"
    repl.submit(f"{argument}\n\n{text}" if argument else text)
