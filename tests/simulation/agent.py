"""What the simulated agents of both protocols have in common: a temper, open requests, defects."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from .book import Ask, Prompt
from .process import Process

if TYPE_CHECKING:
    from .world import World

Json = dict[str, Any]
Act = Callable[[Random], None]

TOKEN = re.compile(r"⟦(p\d+)⟧")
TAG = re.compile(r"⟦(ask-\d+)⟧")
AGENTRT = "[agentrt]"
"""How a prompt begins that is agentrt's own."""
OWN = "⟦own⟧"
"""What an agent says that no prompt asked for."""

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(Json).decode

NOISE = (
    b"npm warn deprecated\n",
    b"\n",
    b"  \r\n",
    b"42\n",
    b"[]\n",
    b"null\n",
    b'{"jsonrpc":"2.0"}\n',
    b'{"type":"nobody_knows","x":[1]}\n',
    b'{"type":42}\n',
    b'{"method":17,"id":{}}\n',
    b'{"a":"\xff\xfe"}\n',
    b'"' + b"x" * 300 + b'"\n',
    b"[" * 2000 + b"\n",
    b'{"jsonrpc":"2.0","method":"session/update","params":{"update":7}}\n',
    b'{"jsonrpc":"2.0","method":"vendor/thing","params":{}}\n',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"of nothing"}}\n',
)
"""Lines that are no messages, or none that anybody knows."""


@dataclass(frozen=True)
class Temper:
    """How an agent behaves as long as it lives."""

    on_cancel: str = "at once"
    """`at once`, `later` or `never`."""
    on_eof: str = "leaves"
    """`leaves`, or `stays`."""
    waits_for_answers: bool = True
    """It ends no turn while a question of its own is open."""
    answers_calls: str = "well"
    """`well`, `error` or `never`."""
    resumes: str = "well"
    """`well`, `unknown` or `never`: it cannot."""
    greets: str = "well"
    """How it shakes hands: `well`, `error`, `crash` or `never`."""
    chatty: float = 1.0
    own_work: bool = True
    """It sometimes works without a prompt."""
    fates: bool = True
    """Claude: it tells `command_lifecycle`."""
    states: bool = True
    """Claude: it tells `session_state_changed`."""
    lists_uuids: bool = True
    after_cancel: str = "well"
    """ACP: how it answers the prompt after one that was cancelled: `well`, `cancelled`, which that
    one was not, or `earlier`: it answers the cancelled one."""

    @classmethod
    def drawn(cls, rng: Random) -> Temper:
        return cls(
            on_cancel=rng.choices(("at once", "later", "never"), (6, 3, 1))[0],
            on_eof=rng.choices(("leaves", "stays"), (5, 1))[0],
            waits_for_answers=rng.random() < 0.7,
            answers_calls=rng.choices(("well", "error", "never"), (6, 1, 1))[0],
            resumes=rng.choices(("well", "unknown", "never"), (6, 1, 2))[0],
            greets=rng.choices(("well", "error", "crash", "never"), (100, 1, 1, 1))[0],
            chatty=rng.choice((0.5, 1.0, 3.0)),
            own_work=rng.random() < 0.6,
            fates=rng.random() < 0.8,
            states=rng.random() < 0.9,
            lists_uuids=rng.random() < 0.9,
            after_cancel=rng.choices(("well", "cancelled", "earlier"), (8, 1, 1))[0],
        )


class Agent:
    """One incarnation of an agent. `acts` are what it may do now."""

    def __init__(self, world: World, process: Process, temper: Temper) -> None:
        self.world = world
        self.process = process
        self.temper = temper
        self.book = world.book
        self.ready = False
        self.asks: dict[Any, Ask] = {}
        """Its requests that are not answered, by their ids."""
        self.requests = 0
        self.prompt: Prompt | None = None
        self.last: Prompt | None = None
        """The prompt before."""
        self.last_end = 0
        """Up to where the host must have read to know that no turn runs."""
        self.own_since = False
        """It did something of its own since the last prompt's end."""
        self.own_began = -math.inf
        """When it last began something of its own."""
        self.told_to_leave = False
        self.broken: Prompt | None = None
        """The prompt that it has ended in a way that shows that a cancel has broken it."""

    # --- to be filled in

    def acts(self) -> list[tuple[float, Act]]:
        raise NotImplementedError

    def heard(self, message: Json, host_had_read: int) -> None:
        raise NotImplementedError

    @property
    def can_be_cancelled(self) -> bool:
        """Whether it takes a cancel now."""
        return self.ready

    @property
    def at_work(self) -> bool:
        """Whether it has work, of which it has told."""
        raise NotImplementedError

    # --- Program

    def on_line(self, line: bytes, host_had_read: int) -> None:
        try:
            message = decode(line)
        except msgspec.DecodeError as error:
            self.world.fail("P1", f"the agent got a line that is no message: {line!r} ({error})")
            return
        self.heard(message, host_had_read)

    def on_eof(self) -> None:
        if self.temper.on_eof == "leaves" and "eof" not in self.process.ignores:
            self.process.exit(0)

    def on_exit(self) -> None:
        pass

    def on_signal(self, name: str) -> None:
        self.said_goodbye()

    def said_goodbye(self) -> None:
        """T9: the session's end comes when there is nothing left to do."""
        world = self.world
        if self.process.signals or self.told_to_leave:
            return  # it may still begin something
        self.told_to_leave = True
        if self.own_began == self.now():
            return  # the host could not know when it decided
        waits = world.leaving == "normally" and not world.with_hub
        known = self.process.read == self.process.written and self.process.can_write
        if waits and known and self.at_work and not world.gave_up(self.process):
            if self.now() < world.left_at + world.limits.drain_timeout_s - 0.001:
                world.fail(
                    "T9", f"the input ends while the agent is at work (left {world.left_at})"
                )

    # --- writing

    def send(self, message: Json, when_read: Callable[[], None] | None = None) -> None:
        line = encode(message)
        if len(line) > self.world.limits.message_bytes:
            when_read = None  # the host skips it
        self.process.emit(line + b"\n", when_read)

    # --- prompts

    def greets_badly(self) -> bool:
        """Whether the handshake goes wrong in a way that is no answer."""
        if self.temper.greets == "crash":
            self.process.complain("no model is configured")
            self.process.exit(3)
        return self.temper.greets in ("crash", "never")

    def take_prompt(self, text: str, id: Any) -> Prompt:
        if text.startswith(AGENTRT):
            token = self.token_of_own_words(text)
        else:
            found = TOKEN.search(text)
            assert found is not None, text
            token = found[1]
        if token in self.book.prompts:
            self.world.fail("T7", f"the prompt {token} was sent twice")
        self.world.sent_prompt(token)
        if self.broken is not None and self.world.checker.was_ended_by_agent(self.broken):
            self.world.fail("T10", f"{token} was sent to a process that a cancel has broken")
        if token in self.book.steered:
            return self.book.prompts.setdefault(token, Prompt(token, self.process.number, id))
        if self.prompt is not None:
            self.world.fail("T8", f"{token} was sent while {self.prompt.token} is in flight")
        prompt = self.prompt = Prompt(token, self.process.number, id)
        self.book.prompts[token] = prompt
        self.own_since = False
        return prompt

    def token_of_own_words(self, text: str) -> str:
        """J7: what was decided while it was gone, which it must not know already."""
        found, turn = TAG.search(text), self.world.checker.turn
        if found is not None:
            if found[1] in self.book.decided:
                self.world.fail("J7", f"the agent knows already what was decided of {found[1]}")
            self.book.decided.add(found[1])
        assert turn is not None
        assert turn.token is not None
        return turn.token

    def end_prompt(self, *outcomes: str) -> Callable[[], None]:
        """The prompt is over. To be called before the word is sent, which is told what to call
        when it has been read."""
        prompt = self.prompt
        assert prompt is not None
        prompt.ended = frozenset(outcomes)
        self.last, self.prompt = prompt, None

        def read() -> None:
            prompt.end_read = True

        return read

    def cancelled(self, host_had_read: int) -> None:
        """The host asks to stop."""
        prompt = self.prompt
        if prompt is not None:
            prompt.cancels += 1
            if prompt.cancels > 2:
                self.world.fail("T5", f"{prompt.token} was cancelled {prompt.cancels} times")
        elif not self.own_since and host_had_read >= self.last_end > 0:
            self.world.fail(
                "T5", "a cancel was sent although the host knew that nothing runs: a late one"
            )

    def mark(self, prompt: Prompt | None) -> str:
        """A piece of text that says which prompt it is for."""
        if prompt is None:
            self.own_since = True
            return OWN
        prompt.said += 1
        return f"⟦{prompt.token}⟧{prompt.said} "

    # --- requests of its own

    def ask(self, kind: str, id: Any, *, background: bool = False, own: bool = False) -> Ask:
        tag = f"ask-{len(self.book.asks) + 1}"
        token = self.prompt.token if self.prompt is not None and not (background or own) else None
        ask = Ask(tag, self.process.number, id, kind, token, background)
        self.book.asks[tag] = self.asks[id] = ask
        return ask

    @staticmethod
    def is_read(ask: Ask) -> Callable[[], None]:
        def read() -> None:
            ask.read = True

        return read

    def answered(self, id: Any, answer: Any, allows: bool) -> Ask | None:
        ask = self.asks.pop(id, None)
        if ask is None:
            self.world.fail("T1", f"an answer to a request that waits for none: {id!r} {answer!r}")
            return None
        ask.answers.append(answer)
        if allows and ask.tag not in self.book.allowed:
            self.world.fail("S1", f"{ask.tag} was allowed by nobody: {answer!r}")
        if allows and ask.kind == "permission":
            self.world.sent_allow(ask.tag)
            self.book.decided.add(ask.tag)
        return ask

    @property
    def blocked(self) -> bool:
        return self.temper.waits_for_answers and any(
            not ask.background and not ask.withdrawn for ask in self.asks.values()
        )

    def noise(self, rng: Random) -> None:
        self.process.emit(rng.choice(NOISE))

    def now(self) -> float:
        return trio.current_time()
