"""Claude Code's protocol on its standard streams.

A specification does not exist: these checks test behaviour that hosts rely on, and none of them is
a "must".
"""

from __future__ import annotations

from typing import Any, Final

import trio

from ...events import JsonObject
from ...jsonrpc import encode_line
from .check import TOUCHED, CheckRegistry, differs, fails, inconclusive, shown
from .peer import MEASURE_TIMEOUT_S, ConformancePeer

check = CheckRegistry()

WHERE: Final = "https://code.claude.com/docs/en/agent-sdk/streaming-vs-single-mode"
LONG_LINE_CHARS: Final = 8 * 1024 * 1024


class ClaudePeer(ConformancePeer):
    """The host of one Claude Code process."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.results: list[JsonObject] = []
        """The ends of turns, in order."""
        self.asks: list[JsonObject] = []
        """Permission requests without an answer."""
        self.answers_asks = True
        self.words = 0
        """Number of messages and message pieces of the model so far."""
        self._answers: dict[str, JsonObject] = {}
        self._next = 0

    def take(self, message: Any) -> None:
        """Take one message of the agent: results and questions are kept for the checks.

        Questions are denied immediately if `answers_asks` is set; other requests of the agent are
        refused, as by a host that supports none.
        """
        if not isinstance(message, dict):
            return
        match message.get("type"):
            case "control_response":
                body = message.get("response")
                if isinstance(body, dict):
                    self._answers[str(body.get("request_id"))] = body
            case "control_request":
                request = message.get("request")
                subtype = request.get("subtype") if isinstance(request, dict) else None
                if subtype != "can_use_tool":
                    self._respond(message, error="this host supports no requests")
                elif self.answers_asks:
                    self.decide(message, allow=False)
                else:
                    self.asks.append(message)
            case "result":
                self.results.append(message)
            case "assistant" | "stream_event":
                self.words += 1
            case "system" if message.get("subtype") == "init":
                self.info = {"name": "Claude Code", "version": message.get("claude_code_version")}
            case _:
                pass

    # --- writing

    def call(self, subtype: str, **fields: Any) -> str:
        """Send a control request and return its id."""
        self._next += 1
        id = f"c{self._next}"
        request = {"subtype": subtype, **fields}
        self.send(encode_line({"type": "control_request", "request_id": id, "request": request}))
        return id

    async def answered(self, id: str, what: str) -> JsonObject:
        """Wait for the answer to a control request."""
        return await self.until(f"the answer to {what}", lambda: self._answers.get(id))

    async def ask(self, subtype: str, **fields: Any) -> JsonObject:
        """Send a control request and return its answer."""
        return await self.answered(self.call(subtype, **fields), subtype)

    def _respond(self, request: JsonObject, *, error: str | None = None, **more: Any) -> None:
        """Answer a control request of the agent."""
        body: JsonObject = {"request_id": request.get("request_id"), **more}
        body |= {"subtype": "success"} if error is None else {"subtype": "error", "error": error}
        self.send(encode_line({"type": "control_response", "response": body}))

    def decide(self, ask: JsonObject, *, allow: bool) -> None:
        """Answer a permission request."""
        said = (
            {"behavior": "allow", "updatedInput": ask["request"].get("input", {})}
            if allow
            else {"behavior": "deny", "message": "not allowed"}
        )
        self._respond(ask, response=said)

    def prompt(self, text: str) -> int:
        """Send a prompt. Returns the number of turns that had ended before."""
        content = [{"type": "text", "text": text}]
        message = {"role": "user", "content": content}
        line = {"type": "user", "session_id": "", "message": message, "parent_tool_use_id": None}
        self.send(encode_line(line))
        return len(self.results)

    # --- handshake, turns and permissions

    async def ready(self) -> None:
        with self.preparing():
            answer = await self.ask("initialize", hooks=None)
            if answer.get("subtype") != "success":
                raise fails(f"initialize was refused: {shown(answer.get('error'))}")

    async def end(self, before: int, what: str = "a prompt") -> str:
        """Wait for the end of a turn and describe it."""
        found = await self.until(
            f"the result of {what}",
            lambda: self.results[before] if len(self.results) > before else None,
        )
        return str(found.get("subtype")) + (" (an error)" if found.get("is_error") else "")

    async def turn(self, text: str) -> str:
        """Run a turn and describe its end."""
        return await self.end(self.prompt(text))

    async def first_word(self, before: int, words: int) -> None:
        """Wait for the first output of a running turn. Raises `CheckEnded` if it ends before."""

        def poll() -> bool | None:
            return True if self.words > words or len(self.results) > before else None

        with self.preparing():
            await self.until("the first words of the long turn", poll)
            if len(self.results) > before:
                raise inconclusive(f"the long turn had ended: {shown(self.results[before])}")

    async def long(self) -> int:
        """Begin the long turn and wait for its first output. Returns the number of turns before."""
        assert self.long_turn
        await self.ready()
        words = self.words
        before = self.prompt(self.prompts.long)
        await self.first_word(before, words)
        return before

    async def alive(self) -> str:
        """Check that requests are still answered."""
        await self.ask("agentrt_unknown")
        return "continues"

    async def permission(self) -> tuple[int, JsonObject]:
        """Start a turn and wait for its permission request."""
        await self.ready()
        self.answers_asks = False
        before = self.prompt(self.prompts.permission)

        def poll() -> bool | None:
            return True if self.asks or len(self.results) > before else None

        with self.preparing():
            await self.until("a permission request", poll)
            if not self.asks:
                raise inconclusive(f"it did not ask (--permission): {shown(self.results[before])}")
        self.answers_asks = True
        return before, self.asks.pop(0)

    @property
    def touched_file(self) -> bool:
        """True if the action that needed permission has been done."""
        return (self.cwd / TOUCHED).exists()

    async def run_long(self) -> None:
        await self.long()

    async def run_question(self) -> None:
        await self.permission()

    async def measure(self) -> float | None:
        """Run the long turn and return its duration."""
        await self.ready()
        before = self.prompt(self.prompts.long)
        began = trio.current_time()
        with trio.move_on_after(MEASURE_TIMEOUT_S):
            if await self.end(before) != "success":
                return None
        return trio.current_time() - began


@check("initialize", "answers initialize", "should", WHERE)
async def initialize(peer: ClaudePeer) -> str:
    answer = await peer.ask("initialize", hooks=None)
    if answer.get("subtype") != "success":
        raise fails(f"refused: {shown(answer.get('error'))}")
    return "answered"


@check("initialize-twice", "answers a second initialize", "open", WHERE)
async def initialize_twice(peer: ClaudePeer) -> str:
    await peer.ready()
    answer = await peer.ask("initialize", hooks=None)
    failed = answer.get("subtype") != "success"
    raise differs(f"refused: {shown(answer.get('error'))}" if failed else "answered")


@check("uninitialized", "answers a prompt without initialize", "open", WHERE)
async def uninitialized(peer: ClaudePeer) -> str:
    return await peer.turn(peer.prompts.text)


@check("unknown-request", "answers an unknown request with an error", "should", WHERE)
async def unknown_request(peer: ClaudePeer) -> str:
    await peer.ready()
    answer = await peer.ask("agentrt_unknown")
    if answer.get("subtype") != "error":
        raise fails(f"answered {shown(answer)}")
    return f"refused: {shown(answer.get('error'))}"


async def _odd(peer: ClaudePeer, line: bytes) -> str:
    """Send a line that a host should never send, and check that the agent still answers
    afterwards.
    """
    await peer.ready()
    peer.send(line)
    return await peer.alive()


@check("unknown-type", "continues after a message of an unknown type", "should", WHERE)
async def unknown_type(peer: ClaudePeer) -> str:
    return await _odd(peer, b'{"type":"agentrt_unknown"}')


@check("foreign-answer", "continues after an answer to an unknown request", "should", WHERE)
async def foreign_answer(peer: ClaudePeer) -> str:
    body = b'{"subtype":"success","request_id":"none","response":{}}'
    return await _odd(peer, b'{"type":"control_response","response":' + body + b"}")


@check("blank-line", "continues after a blank line", "should", WHERE)
async def blank_line(peer: ClaudePeer) -> str:
    return await _odd(peer, b"\n\r\n")


@check("broken-line", "continues after a line that is not JSON", "open", WHERE)
async def broken_line(peer: ClaudePeer) -> str:
    return await _odd(peer, b'{"type":"user","message":')


@check("bare-value", "continues after a line that is a number", "open", WHERE)
async def bare_value(peer: ClaudePeer) -> str:
    return await _odd(peer, b"42")


@check("long-line", "accepts a line of 8 MiB", "should", WHERE)
async def long_line(peer: ClaudePeer) -> str:
    await peer.ready()
    await peer.ask("agentrt_unknown", text="x" * LONG_LINE_CHARS)
    return "read completely"


@check("turn", "ends a prompt's turn with a result", "should", WHERE)
async def turn(peer: ClaudePeer) -> str:
    await peer.ready()
    stop = await peer.turn(peer.prompts.text)
    await peer.quiet()
    if len(peer.results) > 1:
        raise fails(f"{len(peer.results)} results came for one prompt")
    return stop


@check("two-prompts", "answers both of two simultaneous prompts", "should", WHERE)
async def two_prompts(peer: ClaudePeer) -> str:
    await peer.ready()
    first, second = peer.prompt(peer.prompts.text), peer.prompt(peer.prompts.text)
    assert first == second
    stop = await peer.end(first)
    await peer.quiet(2.0)
    if len(peer.results) < 2:
        raise differs("one result for both")
    return f"first: {stop}; second: {await peer.end(first + 1)}"


@check(
    "interrupt-idle", "accepts a prompt after an interrupt without a running turn", "should", WHERE
)
async def interrupt_idle(peer: ClaudePeer) -> str:
    await peer.ready()
    answer = await peer.ask("interrupt")
    return f"the interrupt: {answer.get('subtype')}; {await peer.turn(peer.prompts.text)}"


@check("interrupt", "ends an interrupted turn", "should", WHERE, in_turn=True)
async def interrupt(peer: ClaudePeer) -> str:
    before = await peer.long()
    began = trio.current_time()
    answer = await peer.ask("interrupt")
    stop = await peer.end(before, "a turn that was interrupted")
    took = trio.current_time() - began
    if took > 0.7 * peer.long_turn:
        raise fails(f"the turn continued to its end, {took:.2f} s long")
    return f"the interrupt: {answer.get('subtype')}; the turn: {stop}, after {took:.2f} s"


@check(
    "after-interrupt", "answers the next prompt after an interrupt", "should", WHERE, in_turn=True
)
async def after_interrupt(peer: ClaudePeer) -> str:
    before = await peer.long()
    with peer.preparing():
        await peer.ask("interrupt")
        await peer.end(before, "a turn that was interrupted")
    stop = await peer.turn(peer.prompts.text)
    if stop != "success":
        raise fails(f"the next prompt ended with {stop}")
    return f"the next prompt ended with {stop}"


@check("permission-allowed", "carries out an allowed call", "should", WHERE)
async def permission_allowed(peer: ClaudePeer) -> str:
    before, ask = await peer.permission()
    peer.decide(ask, allow=True)
    stop = await peer.end(before)
    if not peer.touched_file:
        raise fails(f"{stop}, and {TOUCHED} was not created")
    return f"{stop}; carried out"


@check("permission-rejected", "does not carry out a rejected call", "should", WHERE)
async def permission_rejected(peer: ClaudePeer) -> str:
    before, ask = await peer.permission()
    peer.decide(ask, allow=False)
    return await _not_done(peer, before)


@check("permission-twice", "uses the first of two answers", "should", WHERE)
async def permission_twice(peer: ClaudePeer) -> str:
    before, ask = await peer.permission()
    peer.decide(ask, allow=False)
    peer.decide(ask, allow=True)
    return await _not_done(peer, before)


@check(
    "permission-cancelled",
    "does not carry out a call when its request is interrupted",
    "should",
    WHERE,
)
async def permission_cancelled(peer: ClaudePeer) -> str:
    before, _ = await peer.permission()
    await peer.ask("interrupt")
    return await _not_done(peer, before)


@check(
    "permission-late", "does not carry out a call that is allowed after the turn", "should", WHERE
)
async def permission_late(peer: ClaudePeer) -> str:
    before, ask = await peer.permission()
    with peer.preparing():
        await peer.ask("interrupt")
        await peer.end(before, "a turn that was interrupted")
    peer.decide(ask, allow=True)
    await peer.alive()
    return await _not_done(peer, before)


async def _not_done(peer: ClaudePeer, before: int) -> str:
    """Check that a turn has ended without the action that needed permission.

    The file is looked for some time after the end: the agent may run the action late.
    """
    stop = await peer.end(before)
    await peer.quiet()
    if peer.touched_file:
        raise fails(f"{stop}, and {TOUCHED} was created")
    return f"{stop}; not carried out"
