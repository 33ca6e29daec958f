"""What the scripted CLI does in the background, and what it does late or not at all; scenarios of
`fakecli.py`.
"""

from __future__ import annotations

import json
import time

from fakewire import Cli, Interrupted, Json


def _shell(cli: Cli) -> None:
    """A turn that starts a shell in the background and rests."""
    prompt = cli.prompt()
    cli.use("c1", command="make", run_in_background=True)
    task = {"task_id": "b1", "task_type": "local_bash", "description": "make"}
    cli.system("background_tasks_changed", tasks=[task])
    cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
    cli.used("c1", "Command running in background with ID: b1.")
    cli.say("Shell started.")
    cli.done(prompt)


def _ended(cli: Cli, status: str = "completed") -> None:
    time.sleep(0.3)
    cli.system("task_updated", task_id="b1", patch={"status": status})
    cli.system("task_notification", task_id="b1", status=status)
    cli.system("background_tasks_changed", tasks=[])


def late_shell(cli: Cli) -> None:
    """A background shell ends while Claude rests; Claude goes on a while later."""
    _shell(cli)
    _ended(cli)
    time.sleep(0.1)
    cli.state("running")
    time.sleep(1.0)  # silence, but not rest
    cli.notified("Shell finished.")
    cli.wait(lambda m: False)


def shell_nobody_cares_for(cli: Cli) -> None:
    """A background shell ends while Claude rests, and Claude has nothing to say about it."""
    _shell(cli)
    _ended(cli)
    cli.wait(lambda m: False)


def endless_shell(cli: Cli) -> None:
    """A background shell that never ends."""
    _shell(cli)
    cli.wait(lambda m: False)


def asking_agent(cli: Cli) -> None:
    """A background agent asks for a permission, and calls a tool, while turns come and go."""
    cli.greet_mcp()
    prompt = cli.prompt()
    cli.use("c1", "Agent", description="dig", run_in_background=True)
    task = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}
    cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
    cli.used("c1", "Async agent launched")
    asks = {"tool_name": "Bash", "input": {"command": "dig"}, "tool_use_id": "s1"}
    cli.assistant({"type": "tool_use", "id": "s1", "name": "Bash", "input": {}}, parent="c1")
    asked = cli.ask("can_use_tool", agent_id="a1", **asks)
    call = {"type": "tool_use", "id": "s2", "name": "mcp__agentrt__record", "input": {}}
    cli.assistant(call, parent="c1")
    meta = {"claudecode/toolUseId": "s2"}
    called = cli.call_mcp(2, "tools/call", name="record", arguments={"summary": "x"}, _meta=meta)
    cli.say("Agent started.")
    cli.result(prompt)
    answers: dict[str, str] = {}

    def answers_it(message: Json) -> bool:
        if message["type"] == "control_response":
            response = message["response"]
            answers[response["request_id"]] = json.dumps(response.get("response"))
        return asked in answers and called in answers

    while not (asked in answers and called in answers):
        try:
            message = cli.wait(lambda m: m["type"] == "user" or answers_it(m))
        except Interrupted:
            continue
        if message is not None and message["type"] == "user":
            cli.fate(message["uuid"], "queued")
            cli.fate(message["uuid"], "started")
            cli.init()
            cli.say("Meanwhile.")
            cli.result(message)
    cli.system("task_notification", task_id="a1", status="completed", summary="found it")
    cli.notified(f"{answers[asked]} {answers[called]}")
    cli.wait(lambda m: False)


def unawaited_hook(cli: Cli) -> None:
    """Asks a hook in a turn, and ends the turn without its answer."""
    prompt = cli.prompt()
    asked = cli.ask("hook_callback", callback_id="hook1", input={"hook_event_name": "StopFailure"})
    cli.done(prompt)
    answer = cli.answer(asked)
    cli.state("running")
    cli.notified(json.dumps(answer))
    cli.wait(lambda m: False)


def older(cli: Cli) -> None:
    """Tells neither when it rests, nor the fate of prompts, nor which of them a result answers; an
    agent works in the background meanwhile, and a turn about it follows."""
    good: Json = {"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}
    aborted = {**good, "subtype": "error_during_execution", "is_error": True}
    cli.state = cli.fate = lambda *_: None  # type: ignore[method-assign]
    while True:
        prompt = cli.prompt()
        words = prompt["message"]["content"]
        if words == "stop":
            try:
                cli.wait(lambda m: False)
            except Interrupted:
                cli.write(aborted)
            continue
        task = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}
        if words == "dig":
            cli.use("c1", "Task", description="dig", run_in_background=True)
            cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
            cli.used("c1", "Async agent launched")
        cli.say(f"You said: {words}")
        cli.write(good)
        if words == "dig":
            time.sleep(0.3)
            cli.system("task_notification", task_id="a1", status="completed", summary="found it")
            cli.init()
            cli.say("Agent finished.")
            cli.write({**good, "origin": {"kind": "task-notification"}})


def says_nothing(cli: Cli) -> None:
    """Answers every prompt with nothing at all."""
    while True:
        cli.done(cli.prompt())


def late_reply(cli: Cli) -> None:
    """Answers a change of the model after its caller has given up, and then a prompt."""
    asked = cli.inbox.get()
    assert asked is not None
    assert asked["request"]["subtype"] == "set_model"
    time.sleep(0.5)
    cli.success(asked["request_id"], {"model": "late"})
    prompt = cli.prompt()
    cli.say("answer")
    cli.done(prompt)
    cli.wait(lambda m: False)


def mcp_given_up(cli: Cli) -> None:
    """Gives up on a tool's call by itself, and goes on with its turn."""
    cli.greet_mcp()
    prompt = cli.prompt()
    cli.use("c1", "mcp__agentrt__record", summary="x")
    call = cli.call_mcp(2, "tools/call", name="record", arguments={"summary": "x"})
    time.sleep(0.2)
    gone = {"requestId": 2, "reason": "SdkError: Request timed out"}
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
    cli.answer(cli.ask("mcp_message", server_name="agentrt", message=note))
    cli.used("c1", "timed out", error=True)
    late = cli.answer(call, timeout=0.5)
    cli.say("an answer came" if late else "no answer came")
    cli.done(prompt)
    cli.wait(lambda m: False)


def stalled(cli: Cli) -> None:
    """Stops in the middle of a line, and goes on with a flood."""
    prompt = cli.prompt()
    cli.begin_text()
    line = json.dumps(cli.delta("x" * 10)).encode() + b"\n"
    cli.raw(line[:50])
    time.sleep(0.5)
    cli.raw(line[50:] + line * 19_999)
    cli.write(cli.event("content_block_stop", index=0))
    cli.done(prompt)
    cli.wait(lambda m: False)
