"""A program that speaks Claude Code's stream-json and does one thing oddly.

    python fakecli.py SCENARIO [flags of Claude Code, ignored]

Standard library only. Each scenario is a function: one below or in `fakerest.py` is called once the
handshake is over, one of `fakestart.py` in its place. What it reads is appended to the file that
`FAKECLI_LOG` names, so that a test can see what really arrived; with `FAKECLI_STUBBORN` it ignores
whatever is to end it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback

import fakerest
import fakestart
from fakewire import Cli, Interrupted, Json

# --- scenarios: the end of a turn


def plain(cli: Cli) -> None:
    """A good CLI: streams its answer, twice told, and rests."""
    while True:
        prompt = cli.prompt()
        words = f"You said: {prompt['message']['content']}"
        message = cli.begin_text()
        for word in words.split(" "):
            cli.write(cli.delta(f"{word} "))
        whole = {**message, "content": [{"type": "text", "text": f"{words} "}]}
        cli.write({"type": "assistant", "message": whole, "parent_tool_use_id": None})
        cli.write(cli.event("content_block_stop", index=0))
        cli.done(prompt)


def result_before_idle(cli: Cli) -> None:
    """Half a second lies between the result and the rest."""
    while True:
        prompt = cli.prompt()
        cli.say("answer")
        cli.result(prompt)
        time.sleep(0.5)
        cli.state("idle")


def idle_before_result(cli: Cli) -> None:
    while True:
        prompt = cli.prompt()
        cli.say("answer")
        cli.state("idle")
        cli.result(prompt)


def never_idle(cli: Cli) -> None:
    """A result, and no word of rest."""
    while True:
        prompt = cli.prompt()
        cli.say("answer")
        cli.result(prompt)


def case_c(cli: Cli) -> None:
    """A background agent settles before its turn's result; a tool is called after it."""
    prompt = cli.prompt()
    cli.use("c1", "Task", description="dig", run_in_background=True)
    task = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}
    cli.system("background_tasks_changed", tasks=[task])
    cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
    cli.used("c1", "Async agent launched")
    cli.say("Agent started.")
    cli.system("task_updated", task_id="a1", patch={"status": "completed"})
    cli.system("task_notification", task_id="a1", status="completed", summary="found it")
    cli.system("background_tasks_changed", tasks=[])
    cli.result(prompt)
    time.sleep(0.2)
    cli.init()
    cli.greet_mcp()
    cli.use("c2", "mcp__agentrt__record", summary="found it")
    reply = cli.answer(cli.call_mcp(2, "tools/call", name="record", arguments={"summary": "it"}))
    cli.used("c2", json.dumps(reply["mcp_response"]["result"]["content"]))
    cli.say("Agent finished.")
    cli.done(origin={"kind": "task-notification"})
    plain(cli)


def background_agent(cli: Cli) -> None:
    """A background agent lives on after its turn's result; the state stays `running`."""
    prompt = cli.prompt()
    cli.use("c1", "Task", description="dig", run_in_background=True)
    task = {"task_id": "a1", "task_type": "local_agent", "description": "dig"}
    cli.system("task_started", **task, tool_use_id="c1", is_backgrounded=True)
    cli.used("c1", "Async agent launched")
    cli.say("Agent started.")
    cli.result(prompt)
    cli.assistant({"type": "text", "text": "digging"}, parent="c1")
    time.sleep(0.3)
    cli.system("task_notification", task_id="a1", status="completed", summary="found it")
    cli.notified("Agent finished.")
    plain(cli)


# --- scenarios: several prompts


def fold_in(cli: Cli) -> None:
    """A prompt that comes while a tool runs is taken into its turn: one result for both."""
    prompt = cli.prompt()
    cli.use("c1", command="make")
    other = cli.wait(lambda m: m["type"] == "user")
    assert other is not None
    cli.fate(other["uuid"], "started")
    cli.used("c1", "made")
    cli.say("both answered")
    cli.fate(other["uuid"], "completed")
    cli.done(prompt, other)
    plain(cli)


def merged_queue(cli: Cli) -> None:
    """Prompts that come while text streams are merged into the following turn."""
    prompt = cli.prompt()
    cli.say("busy")
    others = [cli.next(), cli.next()]
    cli.result(prompt)
    cli.init()
    cli.say("both answered")
    cli.done(*[other for other in others if other is not None])
    plain(cli)


def duplicate_uuid(cli: Cli) -> None:
    """A second prompt of the same name is skipped: only the rest is told."""
    seen: set[str] = set()
    while True:
        message = cli.next()
        if message is None or message["type"] != "user":
            continue
        if message["uuid"] in seen:
            cli.state("idle")
            continue
        seen.add(message["uuid"])
        cli.state("running")
        cli.init()
        cli.say("answer")
        cli.done(message)


def unsolicited_idle(cli: Cli) -> None:
    """Claude works by itself while nobody asks."""
    prompt = cli.prompt()
    cli.say("answer")
    cli.done(prompt)
    time.sleep(0.1)
    cli.state("running")
    cli.notified("By the way.")
    plain(cli)


def unsolicited_before(cli: Cli) -> None:
    """Claude works by itself between a prompt and its turn."""
    message = cli.next()
    assert message is not None
    cli.state("running")
    cli.fate(message["uuid"], "queued")
    cli.init()
    cli.say("By the way.")
    cli.result(origin={"kind": "task-notification"})
    cli.fate(message["uuid"], "started")
    cli.init()
    cli.say("The answer.")
    cli.done(message)
    plain(cli)


# --- scenarios: control


def permission(cli: Cli) -> None:
    """Asks before each tool; an interrupt takes the request back."""
    while True:
        prompt = cli.prompt()
        cli.use("c1", command="rm -rf build")
        id = cli.ask_tool("c1", "rm -rf build")
        try:
            answer = cli.answer(id)
        except Interrupted:
            cli.write({"type": "control_cancel_request", "request_id": id})
            cli.used("c1", "rejected", error=True, kind="user-rejected")
            cli.aborted(prompt, while_="tools")
            continue
        cli.state("running")
        if answer["behavior"] == "allow":
            cli.used("c1", f"ran {answer['updatedInput']['command']}")
            cli.say("Done.")
        else:
            cli.used("c1", answer["message"], error=True, kind="user-rejected")
            cli.say("Not done.")
        cli.done(prompt)


def withdrawn(cli: Cli) -> None:
    """Takes its request back although nobody interrupted."""
    prompt = cli.prompt()
    cli.use("c1", command="ls")
    id = cli.ask_tool("c1", "ls")
    time.sleep(0.2)
    cli.write({"type": "control_cancel_request", "request_id": id})
    cli.state("running")
    cli.used("c1", "README.md")
    late = cli.answer(id, timeout=0.5)
    cli.say("an answer came" if late else "no answer came")
    cli.done(prompt)
    plain(cli)


def tool(cli: Cli) -> None:
    """Calls an in-process tool in each turn."""
    cli.greet_mcp()
    number = 1
    while True:
        prompt = cli.prompt()
        number += 1
        cli.use("c1", "mcp__agentrt__record", summary="x")
        call = cli.call_mcp(number, "tools/call", name="record", arguments={"summary": "x"})
        try:
            reply = cli.answer(call)
        except Interrupted:
            gone = {"requestId": number, "reason": "AbortError: remote-cancel"}
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
            cli.ask("mcp_message", server_name="agentrt", message=note)
            cli.used("c1", "rejected", error=True, kind="user-rejected")
            cli.aborted(prompt, while_="tools")
            continue
        cli.used("c1", json.dumps(reply["mcp_response"]))
        cli.say("Called.")
        cli.done(prompt)


def sub_agent(cli: Cli) -> None:
    """Asks before a command, calls an in-process tool, and has a sub-agent read a file. At the end
    it says which trace it is in."""
    cli.greet_mcp()
    prompt = cli.prompt()
    cli.say("Let me see.")
    cli.use("c1", command="make")
    cli.answer(cli.ask_tool("c1", "make"))
    cli.state("running")
    cli.used("c1", "made")
    cli.use("c2", "mcp__agentrt__record", summary="x")
    named = {"claudecode/toolUseId": "c2"}
    call = {"name": "record", "arguments": {"summary": "x"}, "_meta": named}
    cli.used("c2", json.dumps(cli.answer(cli.call_mcp(2, "tools/call", **call))["mcp_response"]))
    cli.use("c3", "Agent", subagent_type="reader", prompt="read it")
    read = {"type": "tool_use", "id": "c4", "name": "Read", "input": {"file_path": "a.py"}}
    cli.assistant(read, parent="c3")
    cli.used("c4", "print()", parent="c3")
    cli.used("c3", "it prints")
    cli.say(os.environ.get("TRACEPARENT", "no trace"))
    tokens = {"input_tokens": 5, "cache_read_input_tokens": 7, "output_tokens": 3}
    cli.done(prompt, usage=tokens)
    plain(cli)


def hook(cli: Cli) -> None:
    """Asks the first hook that the host registered."""
    while True:
        prompt = cli.prompt()
        matchers = next(iter((HOOKS or {}).values()))
        fields = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}}
        id = cli.ask("hook_callback", callback_id=matchers[0]["hookCallbackIds"][0], input=fields)
        try:
            cli.say(json.dumps(cli.answer(id)))
            cli.done(prompt)
        except Interrupted:
            cli.write({"type": "control_cancel_request", "request_id": id})
            cli.aborted(prompt, while_="tools")


# --- scenarios: interrupts


def slow(cli: Cli) -> None:
    """Streams until it is interrupted."""
    while True:
        prompt = cli.prompt()
        message = cli.begin_text()
        said = ""
        try:
            while True:
                cli.write(cli.delta("word "))
                said += "word "
                cli.wait(lambda m: False, timeout=0.02)
        except Interrupted:
            whole = {**message, "content": [{"type": "text", "text": said}]}
            cli.write({"type": "assistant", "message": whole, "aborted": True})
            cli.write(cli.event("content_block_stop", index=0))
            cli.aborted(prompt)


def silent(cli: Cli) -> None:
    """Says nothing until it is interrupted."""
    while True:
        prompt = cli.prompt()
        try:
            cli.wait(lambda m: False)
        except Interrupted:
            cli.aborted(prompt)


def unresponsive(cli: Cli) -> None:
    """Ignores interrupts."""
    cli.prompt()
    while True:
        try:
            cli.wait(lambda m: False)
        except Interrupted:
            continue


def retry_401(cli: Cli) -> None:
    """The API refuses for ever; only an interrupt ends it."""
    prompt = cli.prompt()
    attempt = 0
    try:
        while True:
            attempt += 1
            cli.system(
                "api_retry",
                attempt=attempt,
                max_retries=10,
                retry_delay_ms=50,
                error_status=401,
                error="authentication_failed",
            )
            cli.wait(lambda m: False, timeout=0.05)
    except Interrupted:
        cli.aborted(prompt)
    plain(cli)


# --- scenarios: broken output


def line_10mb(cli: Cli) -> None:
    prompt = cli.prompt()
    cli.say("x" * 10_000_000)
    cli.done(prompt)
    plain(cli)


def non_json(cli: Cli) -> None:
    prompt = cli.prompt()
    cli.raw(b"[SandboxDebug] hello\n{broken\n\xff\xfe\n\n")
    cli.say("still here")
    cli.done(prompt)
    plain(cli)


def type_last(cli: Cli) -> None:
    """Every line has its type at the end."""

    def reordered(message: Json) -> None:
        kind = message.pop("type")
        cli.raw(json.dumps({**message, "type": kind}).encode() + b"\n")

    cli.write = reordered  # type: ignore[method-assign]
    plain(cli)


def half_line_at_eof(cli: Cli) -> None:
    """Dies in the middle of a line."""
    cli.prompt()
    cli.say("so far")
    cli.raw(b'{"type":"assistant","message":{"content":[{"type":"te')
    cli.bye(3)


def last_line_without_newline(cli: Cli) -> None:
    """Its last result lacks the newline; then it ends."""
    prompt = cli.prompt()
    cli.say("bye")
    good = {"subtype": "success", "user_message_uuids": [prompt["uuid"]], "type": "result"}
    cli.raw(json.dumps(good).encode())
    cli.bye(0)


def flood(cli: Cli) -> None:
    """As fast as the pipe takes it."""
    prompt = cli.prompt()
    cli.begin_text()
    line = json.dumps(cli.delta("x" * 10)).encode() + b"\n"
    for _ in range(200):
        cli.raw(line * 100)
    cli.write(cli.event("content_block_stop", index=0))
    cli.done(prompt)
    plain(cli)


def heartbeat(cli: Cli) -> None:
    """A running tool says every now and then that it runs."""
    prompt = cli.prompt()
    cli.use("c1", command="make")
    for number in (1, 2):
        beat = {"tool_use_id": f"c1-heartbeat-{number}", "parent_tool_use_id": "c1"}
        cli.write({"type": "tool_progress", "tool_name": "Bash", "heartbeat": True, **beat})
    cli.used("c1", "made")
    cli.say("Made.")
    cli.done(prompt)
    plain(cli)


# --- scenarios: the process


def eof_mid_turn(cli: Cli) -> None:
    """Ends in the middle of a turn."""
    cli.prompt()
    cli.use("c1", command="make")
    print("segmentation fault", file=sys.stderr, flush=True)
    cli.bye(139)


def exit_1_after_error(cli: Cli) -> None:
    """Its last result was an error, and it ends with 1 as Claude then does."""
    prompt = cli.prompt()
    cli.done(
        prompt, is_error=True, terminal_reason="api_error", result="API Error", api_error_status=529
    )
    cli.bye(1)


def ignores_eof_and_sigterm(cli: Cli) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    prompt = cli.prompt()
    cli.say("answer")
    cli.done(prompt)
    while True:
        time.sleep(60)


def grandchild(cli: Cli) -> None:
    """A tool's process lives in a session of its own, and holds the pipe open."""
    prompt = cli.prompt()
    cli.use("c1", command="sleep 60")
    child = subprocess.Popen(["sleep", "60"], start_new_session=True)
    cli.say(str(child.pid))
    cli.wait(lambda m: False)
    cli.done(prompt)


def stdin_full(cli: Cli) -> None:
    """Never reads again after the handshake."""
    while True:
        time.sleep(60)


HOOKS: Json | None = None


def main() -> None:
    global HOOKS
    name = sys.argv[1]
    early = getattr(fakestart, name, None)
    scenario = early or globals().get(name) or getattr(fakerest, name)
    cli = Cli()
    cli.reading.start()
    if early is None:
        first = cli.inbox.get()
        if first is None:
            cli.bye(0)
        assert first["request"]["subtype"] == "initialize", first
        HOOKS = first["request"].get("hooks")
        cli.success(first["request_id"], fakestart.REPLY)
    try:
        scenario(cli)
    except Exception:
        traceback.print_exc()
        cli.bye(70)  # without the interpreter's farewell, which aborts while a thread reads


if __name__ == "__main__":
    main()
