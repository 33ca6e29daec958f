"""What the model says: steps, turns made of steps, scripts made of turns.

The newest user message that contains a marker chooses the script: `[[name]]` for one of `SCRIPTS`,
or `[[json: ...]]` with the script itself (`prompt_for` writes it). Which turn of the script is due
is the number of assistant turns after that message, so the server keeps no state per conversation:
sessions, retries and the side requests that nearly every agent makes cannot confuse it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

Arguments: TypeAlias = dict[str, object]


class _Step(msgspec.Struct, frozen=True, tag_field="step", forbid_unknown_fields=True):
    pass


class Text(_Step, frozen=True, tag="text"):
    """Streamed answer text, *times* over, in pieces of *chunk* characters, *pace* seconds apart."""

    text: str
    chunk: int = 12
    pace: float = 0.0
    times: int = 1


class Thinking(_Step, frozen=True, tag="thinking"):
    """Streamed reasoning."""

    text: str


class Shell(_Step, frozen=True, tag="shell"):
    """A call of the agent's shell tool, whatever that agent names it."""

    command: str
    background: bool = False


class Edit(_Step, frozen=True, tag="edit"):
    """A call of the agent's tool that writes a whole file; *path* is absolute."""

    path: str
    content: str


class Call(_Step, frozen=True, tag="call"):
    """A call of any tool: *tool* is its exact name, or the end of one that is offered."""

    tool: str
    arguments: Arguments = {}


class Blocks(_Step, frozen=True, tag="blocks"):
    """Content blocks as the API has them, such as those of tools that the provider runs. Only for
    Anthropic."""

    blocks: list[Arguments]


class Pause(_Step, frozen=True, tag="pause"):
    """Silence for so many seconds; for ever (until the client leaves) without a number."""

    seconds: float | None = None


class Mute(_Step, frozen=True, tag="mute"):
    """Not even the beginning of an answer, for ever; first step of its turn."""


class Pings(_Step, frozen=True, tag="pings"):
    """Keep-alives only, *every* so many seconds."""

    count: int
    every: float = 1.0


class Cut(_Step, frozen=True, tag="cut"):
    """The connection is closed in the middle of the answer."""


class StreamError(_Step, frozen=True, tag="stream_error"):
    """An error event inside a stream that began well."""

    kind: str = "overloaded_error"


class Status(_Step, frozen=True, tag="status"):
    """An HTTP error instead of an answer, the first *times* times; first step of its turn."""

    code: int
    times: int = 1_000_000
    retry_after: int | None = None


Step: TypeAlias = (
    Text
    | Thinking
    | Shell
    | Edit
    | Call
    | Blocks
    | Mute
    | Pause
    | Pings
    | Cut
    | StreamError
    | Status
)
Turn: TypeAlias = list[Step]
Script: TypeAlias = list[Turn]

_SLEEP = "echo go; sleep 297"  # a lone `sleep` is refused by claude; nobody else sleeps 297 seconds
_AGENT = {"description": "scripted", "subagent_type": "general-purpose"}
_RECORD = Call("record_result", {"summary": "done"})

_WHY = """\
The total is **one too high**, because `total` starts at 1:

```python
def total(prices: list[int]) -> int:
    total = 1  # here
    for price in prices:
        total += price
    return total
```

| basket | should be | is |
|---|---|---|
| `[]` | 0 | 1 |
| `[2, 3]` | 5 | 6 |

To do:

1. start at zero
2. run the tests
"""

SCRIPTS: dict[str, Script] = {
    "text": [[Text("Hello from the scripted model.")]],
    "again": [[Text("Another answer.")]],
    "thinking": [[Thinking("I should greet."), Text("Hello after thinking.")]],
    "shell": [
        [Text("I will run a command."), Shell("echo marker-42 > ran.txt; cat ran.txt")],
        [Text("The command is finished.")],
    ],
    "key": [
        [Shell("cat ~/.ssh/id_rsa > key.txt || echo nothing > key.txt")],
        [Text("The command is finished.")],
    ],
    "two-shells": [
        [Shell("echo one >> ran.txt; echo one"), Shell("echo two >> ran.txt; echo two")],
        [Text("Both commands are finished.")],
    ],
    "sleep": [[Text("I will sleep."), Shell(_SLEEP)], [Text("Slept.")]],
    "stubborn": [[Shell(f"trap '' TERM INT HUP; {_SLEEP}")], [Text("Slept.")]],
    "slow": [[Text("word " * 400, chunk=5, pace=0.1)]],
    "mute": [[Mute()]],
    "silent": [[Pause()]],
    "stalled": [[Text("Begin"), Pause()]],
    "cut": [[Text("half of an ans", chunk=4), Cut()]],
    "stream-error": [[Text("half"), StreamError()]],
    "big": [
        [Shell("head -c 3000000 /dev/zero | tr '\\0' x")],
        [Text("That was a lot.")],
    ],
    "record": [[Text("I will record it."), _RECORD], [Text("Recorded.")]],
    "record-twice": [[_RECORD], [_RECORD], [Text("Recorded twice.")]],
    **{f"error-{code}": [[Status(code)]] for code in (400, 401, 404, 429, 500, 529)},
    **{
        f"retry-{code}": [[Status(code, times=2, retry_after=1), Text(f"After {code}.")]]
        for code in (429, 500, 529)
    },
    # A working session, as the documentation shows one.
    "why": [
        [
            Thinking("The total starts at one. That is off by one for every basket."),
            Text(_WHY, chunk=9, pace=0.01),
        ]
    ],
    "repair": [
        [Call("Read", {"file_path": "basket.py"})],
        [
            Text("The start value has to be zero."),
            Call(
                "Edit",
                {
                    "file_path": "basket.py",
                    "old_string": "    total = 1\n",
                    "new_string": "    total = 0\n",
                },
            ),
        ],
        [Text("Repaired: `total` starts at **zero** now.")],
    ],
    "tests": [[Shell("echo collecting ...; sleep 297")], [Text("All tests pass.")]],
    # Background work, as Claude Code has it. The agent's own conversation starts with `prompt`.
    "agent": [
        [Call("Agent", {**_AGENT, "prompt": "[[agent-quick]]"})],
        [Text("The agent said so.")],
    ],
    "agent-quick": [[Text("I am the agent.")]],
    "agent-slow": [[Pause(2.0), Text("I am the slow agent.")]],
    "agent-endless": [[Shell(_SLEEP)], [Text("Slept.")]],
    # The last prompt's own turn calls a tool.
    "case-a": [[Text("Working."), Pause(1.0), _RECORD], [Text("Recorded.")]],
    # A background agent ends after the turn's result; the turn it causes calls a tool.
    "case-b": [
        [Call("Agent", {**_AGENT, "prompt": "[[agent-slow]]", "run_in_background": True})],
        [Text("Started.")],
        [_RECORD],
        [Text("Recorded.")],
    ],
    # A background agent ends before the turn's result; a turn follows the result all the same.
    "case-c": [
        [Call("Agent", {**_AGENT, "prompt": "[[agent-quick]]", "run_in_background": True})],
        [Text("still talking " * 20, chunk=14, pace=0.1)],
        [_RECORD],
        [Text("Recorded.")],
    ],
    "background-agent": [
        [Call("Agent", {**_AGENT, "prompt": "[[agent-endless]]", "run_in_background": True})],
        [Text("Started.")],
        [Text("The agent is done.")],
    ],
    "background-shell": [
        [Shell(_SLEEP, background=True)],
        [Text("Started.")],
        [Text("The shell is done.")],
    ],
    "ask": [
        [
            Call(
                "AskUserQuestion",
                {
                    "questions": [
                        {
                            "question": "Which colour?",
                            "header": "Colour",
                            "multiSelect": False,
                            "options": [
                                {"label": "Red", "description": "warm"},
                                {"label": "Blue", "description": "cold"},
                            ],
                        }
                    ]
                },
            )
        ],
        [Text("Thank you.")],
    ],
    # The programs of the guide for users of `claude-agent-sdk`.
    "make": [[Shell("make clean")], [Text("Cleaned.")]],
    "delete": [[Shell("rm -rf build")], [Text("I may not do that.")]],
    "plan": [
        [Call("ExitPlanMode", {"plan": "1. Look.\n2. Leap."})],
        [Text("On it.")],
    ],
}

SENTENCES: dict[str, str] = {
    "Greet the reader.": "[[text]]",
    "Say it in another way.": "[[again]]",
    "Record that the job is done.": "[[record]]",
    "Clean the build.": "[[make]]",
    "Delete the build folder.": "[[delete]]",
    "Write a long story.": "[[slow]]",
}
"""Prompts of programs in the documentation, which have no marker, with the marker that each has."""

_NAMED = re.compile(r"\[\[([\w-]+)\]\]")
_INLINE = "[[json:"
_json = json.JSONDecoder()
_decoder: msgspec.json.Decoder[Script] = msgspec.json.Decoder(Script)


def prompt_for(script: Script, *, say: str = "Please.") -> str:
    """A prompt whose answer is *script*."""
    return f"{say} [[json:{msgspec.json.encode(script).decode()}]]"


def marker_in(text: str) -> str | None:
    """The marker that *text* contains or stands for, if any; of several, the last."""
    found = list(_markers(text))
    if found:
        return found[-1]
    return next((marker for sentence, marker in SENTENCES.items() if sentence in text), None)


def _markers(text: str) -> Iterator[str]:
    """Every marker, but none from inside another one's script."""
    at = 0
    while (at := text.find("[[", at)) >= 0:
        end = _end_of_marker(text, at)
        if end is not None:
            yield text[at:end]
        at = end or at + 1


def _end_of_marker(text: str, at: int) -> int | None:
    if not text.startswith(_INLINE, at):
        match = _NAMED.match(text, at)
        return match.end() if match else None
    try:
        _, end = _json.raw_decode(text, at + len(_INLINE))
    except ValueError:
        return None
    return end + 2 if text.startswith("]]", end) else None


def turn_of(marker: str | None, number: int) -> Turn:
    """The steps of one turn; after a script's last turn the model only says that it is done."""
    if marker is None:
        return [Text("No script was asked for.")]
    if marker.startswith(_INLINE):
        script = _decoder.decode(marker.removeprefix(_INLINE).removesuffix("]]"))
    else:
        name = marker.strip("[]")
        script = SCRIPTS.get(name, [[Text(f"There is no script {name}.")]])
    return script[number] if number < len(script) else [Text("Done.")]
