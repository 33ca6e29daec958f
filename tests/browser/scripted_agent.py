"""An ACP agent that does what the prompt says: `python scripted_agent.py [FILE]`.

Prompts are answered one after the other. FILE holds texts that prompts may ask for, by name, as
JSON. Standard library only.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any

TEXTS: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text()) if sys.argv[1:] else {}

inbox: queue.Queue[dict[str, Any] | None] = queue.Queue()
cancelled = threading.Event()
answers: dict[int, queue.Queue[dict[str, Any]]] = {}
ids = iter(range(1000, 1_000_000))
calls = iter(range(1, 1_000_000))
lock = threading.Lock()


def send(message: dict[str, Any]) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def read() -> None:
    """Cancels and answers go past the prompts."""
    for line in sys.stdin:
        message: dict[str, Any] = json.loads(line)
        if message.get("method") == "session/cancel":
            cancelled.set()
            for waiting in answers.values():
                waiting.put({})
        elif message.get("method") == "_session/steering":
            words = "\n".join(b.get("text", "") for b in message["params"]["prompt"])
            say(f"Heard: {words} ")
            send({"id": message["id"], "result": {"outcome": "injected"}})
        elif "method" not in message and message.get("id") in answers:
            answers[message["id"]].put(message)
        else:
            inbox.put(message)
    inbox.put(None)


def update(sessionUpdate: str, **fields: Any) -> None:
    told = {"sessionUpdate": sessionUpdate, **fields}
    send({"method": "session/update", "params": {"sessionId": "s1", "update": told}})


def say(text: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": text})


def tool(title: str, **fields: Any) -> str:
    call = f"call-{next(calls)}"
    update("tool_call", toolCallId=call, title=title, status="in_progress", **fields)
    return call


def request(method: str, **params: Any) -> dict[str, Any]:
    id = next(ids)
    answers[id] = queue.Queue()
    send({"id": id, "method": method, "params": {"sessionId": "s1", **params}})
    answer = answers[id].get()
    del answers[id]
    return answer


def do(word: str, rest: str) -> None:
    match word:
        case "say":
            say(TEXTS.get(rest, rest))
        case "bits":  # the same in pieces that cut through everything
            text = str(TEXTS.get(rest, rest))
            for at in range(0, len(text), 3):
                say(text[at : at + 3])
        case "pieces":
            text = str(TEXTS.get(rest, rest))
            for at in range(0, len(text), 3_000):
                say(text[at : at + 3_000])
        case "flood":
            for number in range(int(rest)):
                say(f"word{number} " + ("\n\n" if number % 40 == 39 else ""))
        case "many":  # short answers with a call behind each
            for number in range(int(rest)):
                say(f"Answer **{number}** with `code` and words.")
                call = tool(f"call {number}", kind="edit")
                shown = {"type": "content", "content": {"type": "text", "text": "an output\n" * 3}}
                update("tool_call_update", toolCallId=call, status="completed", content=[shown])
        case "trickle":  # until it is told to stop
            for number in range(int(rest)):
                say(f"tick{number} ")
                if cancelled.wait(0.05):
                    return
        case "tool":
            tool(TEXTS.get(rest, rest), kind="execute", rawInput={"command": rest})
            cancelled.wait(60)
        case "begin":  # a call that goes on while others are made
            tool(rest, kind="execute", rawInput={"command": rest})
        case "delegate":  # to a sub-agent, which takes a step until it is stopped
            able = {"cancel": {}}
            title = TEXTS.get(rest, rest)
            update("subagent_update", sessionId="child", title=title, capabilities=able)
            step = {"toolCallId": "inner", "title": "look around", "status": "in_progress"}
            told = {"sessionId": "child", "update": {"sessionUpdate": "tool_call", **step}}
            send({"method": "session/update", "params": told})
            cancelled.wait(60)
            cancelled.clear()
            state = {"state": "idle", "stopReason": "cancelled"}
            update("subagent_update", sessionId="child", state=state)
        case "update":  # one that is written down
            update(**TEXTS[rest])
        case "show":
            call = tool(rest, kind="edit")
            update("tool_call_update", toolCallId=call, **{"status": "completed", **TEXTS[rest]})
        case "ask":
            about = TEXTS.get(rest, rest)
            told = {"toolCallId": f"call-{next(calls)}", "title": rest}
            if isinstance(about, str):
                told |= {"kind": "execute", "rawInput": {"command": about}}
            else:
                told |= about
            update("tool_call", **told)
            options = [
                {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
                {"optionId": "no", "name": "Reject", "kind": "reject_once"},
            ]
            if "later" in told:  # what it is about is said to be something else
                later = {"toolCallId": told["toolCallId"], "rawInput": told.pop("later")}
                threading.Timer(2, update, ["tool_call_update"], later).start()
            given = request("session/request_permission", toolCall=told, options=options)
            chosen = given.get("result", {}).get("outcome", {}).get("optionId")
            status = "completed" if chosen == "yes" else "failed"
            update("tool_call_update", toolCallId=told["toolCallId"], status=status)
            say(f"You chose {chosen}.")
        case "crash":
            sys.exit(7)
        case "wait":
            time.sleep(float(rest))
        case _:
            say(f"I do not know {word}.")


def prompt(text: str) -> str:
    """Do what each line says; returns the stop reason."""
    cancelled.clear()
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        do(word, rest)
        if cancelled.is_set():
            return "cancelled"
    return "end_turn"


def main() -> None:
    threading.Thread(target=read, daemon=True).start()
    while (message := inbox.get()) is not None:
        id, method = message.get("id"), message.get("method")
        if id is None:
            continue
        if method == "initialize":
            told: dict[str, Any] = {"protocolVersion": 1}
            told |= {"agentInfo": {"name": "scripted", "version": "1"}}
            can = {"loadSession": not TEXTS.get("forgets")}
            if TEXTS.get("steers"):
                told["_meta"] = {"steering": {"supported": True}}
            send({"id": id, "result": {**told, "agentCapabilities": can}})
        elif method in ("session/new", "session/load"):
            send({"id": id, "result": {"sessionId": "s1", **TEXTS.get("session", {})}})
        elif method == "session/prompt":
            text = "\n".join(b.get("text", "") for b in message["params"]["prompt"])
            send({"id": id, "result": {"stopReason": prompt(text.strip())}})
        else:
            send({"id": id, "error": {"code": -32601, "message": f"no {method}"}})


main()
