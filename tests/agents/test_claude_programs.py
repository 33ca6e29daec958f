"""Whole programs around `query`, as somebody writes them who has never seen agentrt's inside.

The first ones are those of a report about Claude Code's own SDKs (claude-agent-sdk-typescript#348):
there `handlerInvocations` was 0, and the model was told "Stream closed". Each runs in an
interpreter of its own, without any limit changed, and has to end by itself.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import psutil
import pytest
import trio

from .lab import Lab
from .modelserver.scripts import Arguments, Call, Pause, Script, Shell, Step, Text, prompt_for
from .recipes import CLAUDES
from .story import GATE, GONE

pytestmark = [pytest.mark.real_agent, pytest.mark.parametrize("agent", CLAUDES)]

PATIENCE = 120.0

COMMON = """
import sys
import trio
import agentrt

handler_invocations = 0
stream_closed_errors = 0
agent = agentrt.agents.claude([sys.argv[1]])
asks = sys.argv[2:]

@agentrt.tool
async def record_result(summary: str) -> str:
    \"\"\"Persist the final outcome of a job.\"\"\"
    global handler_invocations
    await trio.sleep(0.1)
    handler_invocations += 1
    return f"recorded: {summary}"

def look(event):
    global stream_closed_errors
    if isinstance(event, agentrt.ItemUpdated):
        stream_closed_errors += "closed" in str(event.patch)

def report(query):
    print(f"handlerInvocations={handler_invocations} streamClosedErrors={stream_closed_errors}")
    print(*(result.outcome for result in query.results))
"""

ONE_PROMPT = """
async def prompts():
    yield asks[0]

async def main():
    async with agentrt.query(
        prompts(), agent=agent, tools=[record_result], permissions=agentrt.allow_all
    ) as query:
        async for event in query:
            look(event)
    report(query)

trio.run(main)
"""

SLOW_PROMPTS = """
hooked = []

@agentrt.tool
async def note(text: str) -> dict:
    \"\"\"Keep a note.\"\"\"
    return {"kept": text}

@agentrt.hook("PreToolUse", matcher="mcp__.*")
async def before(input):
    await trio.sleep(0.05)
    hooked.append(input["tool_name"].rpartition("__")[2])

async def ask_somebody(request):
    await trio.sleep(0.05)
    return agentrt.Allow()

async def prompts():
    for ask in asks:
        await trio.sleep(0.3)
        yield [agentrt.events.Text(ask)]
    await trio.sleep(0.3)

async def main():
    async with agentrt.query(
        prompts(), agent=agent, tools=[record_result, note], hooks=[before],
        permissions=ask_somebody,
    ) as query:
        async for event in query:
            look(event)
            await trio.sleep(0.002)
    report(query)
    print(*hooked)

trio.run(main)
"""

UNREAD = """
async def main():
    with trio.fail_after(90):
        async with agentrt.query(
            asks, agent=agent, tools=(record_result,), permissions=agentrt.rules(
                allow=["mcp__agentrt__record_result", "Bash", "Agent"]
            ),
        ) as query:
            texts = [e.text async for e in query if isinstance(e, agentrt.TextDelta)]
    report(query)
    print("".join(texts))

trio.run(main)
"""


async def output_of(lab: Lab, program: str, prompts: Sequence[str]) -> list[str]:
    """What a program prints, one item a line. It ends by itself, and nothing of it is left."""
    with trio.fail_after(PATIENCE):
        done = await trio.run_process(
            [sys.executable, "-W", "error", "-c", COMMON + program, *lab.argv, *prompts],
            cwd=lab.work,
            env={**lab.env, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    assert done.stderr == b""
    _, alive = psutil.wait_procs(lab.processes(), timeout=GONE)
    assert not alive, alive
    return done.stdout.decode().splitlines()


def in_background(*work: list[Step]) -> Step:
    """A call that starts an agent with a script of its own."""
    arguments: Arguments = {
        "description": "look",
        "subagent_type": "general-purpose",
        "prompt": prompt_for(list(work)),
        "run_in_background": True,
    }
    return Call("Agent", arguments)


def record(summary: str) -> Step:
    return Call("record_result", {"summary": summary})


@pytest.mark.parametrize("case", ["case-a", "case-b", "case-c"])
async def test_the_programs_of_the_report(lab: Lab, case: str) -> None:
    """The job is recorded in the prompt's own turn, after it, and although it seemed to be over."""
    assert await output_of(lab, ONE_PROMPT, [f"Please [[{case}]]"]) == [
        "handlerInvocations=1 streamClosedErrors=0",
        "completed",
    ]


@pytest.mark.parametrize("agents", [1, 2])
async def test_a_tool_is_called_while_agents_work_in_the_background(lab: Lab, agents: int) -> None:
    """The prompt's own turn calls it; each agent's end is followed by a turn that says so."""
    slow = [in_background([Pause(1.5 + 1.5 * n), Text("Looked.")]) for n in range(agents)]
    script: Script = [slow, [record("meanwhile")], [Text("Recorded.")]]
    assert await output_of(lab, ONE_PROMPT, [prompt_for(script)]) == [
        "handlerInvocations=1 streamClosedErrors=0",
        "completed",
    ]


@pytest.mark.parametrize("agents", [1, 2])
async def test_each_continuation_of_a_background_agent_calls_a_tool(lab: Lab, agents: int) -> None:
    slow = [in_background([Pause(1.5 + 2.5 * n), Text("Looked.")]) for n in range(agents)]
    script: Script = [
        slow,
        [Text("Started.")],
        *([record("one more"), Text("Telling.")], [Text("Told.")]) * agents,
    ]
    assert await output_of(lab, ONE_PROMPT, [prompt_for(script)]) == [
        f"handlerInvocations={agents} streamClosedErrors=0",
        "completed",
    ]


@pytest.mark.parametrize("agents", [1, 2])
async def test_agents_that_end_before_the_result_are_spoken_of_behind_it(
    lab: Lab, agents: int
) -> None:
    script: Script = [
        [in_background([Text("Looked.")]) for _ in range(agents)],
        [Text("still talking " * 20, chunk=14, pace=0.1)],
        [record("at last")],
        [Text("Recorded.")],
    ]
    assert await output_of(lab, ONE_PROMPT, [prompt_for(script)]) == [
        "handlerInvocations=1 streamClosedErrors=0",
        "completed",
    ]


async def test_slow_prompts_several_tools_and_a_shell_that_ends_later(lab: Lab) -> None:
    first: Script = [
        [Text("One. "), Call("note", {"text": "a"}), record("b")],
        [Pause(0.5), Call("note", {"text": "c"})],
        [Text("Noted.")],
    ]
    second: Script = [
        [Shell("sleep 1; echo built", background=True)],
        [Text("Building.")],
        [Call("note", {"text": "built"}), record("built")],
        [Text("Recorded.")],
    ]
    assert await output_of(lab, SLOW_PROMPTS, [prompt_for(first), prompt_for(second)]) == [
        "handlerInvocations=2 streamClosedErrors=0",
        "completed completed",
        "note record_result note note record_result",
    ]


async def test_two_agents_that_end_at_different_times_and_a_prompt_between(lab: Lab) -> None:
    first: Script = [
        [
            in_background([Pause(0.2), Text("The quick one.")]),
            in_background([record("by the slow one")], [Pause(2.5), Text("The slow one.")]),
        ],
        [Text("Both began. "), Pause(0.5)],
        [record("of one")],
        [Text("One ended. ")],
        [record("of the other")],
        [Text("The other ended.")],
    ]
    printed = await output_of(lab, SLOW_PROMPTS, [prompt_for(first), "Please [[record]]"])
    assert printed[1] == "completed completed"
    assert printed[0].endswith("streamClosedErrors=0")
    assert int(printed[0].split()[0].rpartition("=")[2]) >= 2


async def test_a_list_of_prompts_with_a_failure_and_agents_within_agents(lab: Lab) -> None:
    inner = in_background([Shell(f"touch go; {GATE}; echo inner")], [Text("Inner.")])
    last: Script = [
        [in_background([inner], [Pause(0.3), Text("Outer.")])],
        [Text("Begun.")],
        [record("all of it")],
        [Text("Recorded.")],
    ]
    prompts = ["Please [[text]]", "Please [[error-400]]", prompt_for(last)]
    invocations, outcomes, text = await output_of(lab, UNREAD, prompts)
    assert invocations.endswith("streamClosedErrors=0")
    assert invocations != "handlerInvocations=0 streamClosedErrors=0"
    assert outcomes == "completed failed completed"
    assert text.startswith("Hello from the scripted model.Begun.")
    assert "Recorded." in text
