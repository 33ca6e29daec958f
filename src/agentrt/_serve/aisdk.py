"""The AI SDK's chat transport over WebSocket (`WebSocketChatTransport`), at `/ai`.

A chat is a session: either the one with the same id, or one that the chat's first message opens.
Each request of the client gets the chunks of one turn, which are made in `aichunks`.

The transport knows three requests: `send` (a message, for a new turn or to continue an answered
one), `resume` (the stream of the running or last turn) and `abort`. Each of the first two has one
stream of chunks, identified by its request id, and one connection may have several streams at a
time.

The SDK keeps the chat's messages itself and sends them back with each request. That is used in two
ways. Answers to approvals and results of tools that the page ran are in the parts of its last
message, where `_resolve` finds the new ones. And the messages show what the client has seen: if it
left a stream before its end, `_unended` remembers the turn, and a later stream first sends the
finished message again. An assistant message shows one turn and has its id.

Stopping has no request: the SDK aborts its stream. `Body.abort` decides if that cancels the turn or
only detaches the client; `Body.stop` cancels a turn whose stream is not open any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Annotated, Any, Final, Literal
from weakref import WeakKeyDictionary

import msgspec
import trio
from msgspec import Meta, Struct

from .._public import When
from ..errors import RemoteProtocolError
from ..events import Audio, Block, Image, JsonObject, PermissionOpened, Resource, ResourceLink, Text
from ..hosting import answering
from ..jsonrpc import decode_strictly
from ..lowlevel import (
    CommandFields,
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from . import commands as c
from .aichunks import Chunk, TurnMessage, behind_replay, is_pending, replayed
from .answers import as_refusal, pack
from .client import Client
from .commands import ToolOffer
from .feed import Feed
from .foreign import feed_of, foreign_viewer, served
from .hub import ChatOpening
from .operations import carry_out
from .refusal import CloseCode
from .remote_sessions import AnySession, AnyTurn, Sessions, is_paused, stop

MAX_STREAMS: Final = 32
"""Maximum requests of one connection that are answered at the same time: each may have to send a
whole turn.
"""

PAUSED: Final = (
    "the session was stopped while the message was queued; it stays in the queue until the queue is"
    " resumed"
)
"""The error for a message that the client cannot resume."""

NOT_STARTED: Final = (
    "the agent is not started before this is answered on the page, in `agentrt attach` or by"
    " another client: {title}; the message stays in the queue"
)
"""The error for a message that waits for an answer, which this protocol can only show in a turn."""


class ApprovalAnswer(Struct):
    """The part of an approval beyond yes and no: an option by its id or kind, the fields of a form,
    or a note for the agent.
    """

    option: str | None = None
    content: JsonObject | None = None
    note: str = ""


class Body(Struct):
    """Fields that an application may put into the `body` of its requests; others are ignored.

    - `agent`, `cwd`, `title`, `model`, `mode`: for the session that the first message opens.
    - `fork`: the chat to copy: a new chat's first message continues. The copy ends with the
      agent's message `at`, if that is given.
    - `tools`: the tools that the application runs; sessions get them when they are opened.
    - `client`: a random string that the page keeps, so that it still owns its tools after a reload.
    - `when`: the handling of a message during a running turn that the chat does not show.
    - `abort`: the effect of the client's Stop: `cancel` the turn, or only `detach` from it.
    - `stop`: cancel the turn that is resumed.
    - `answers`: by approval id.
    """

    agent: str | None = None
    cwd: str = "."
    title: str | None = None
    model: str | None = None
    mode: str | None = None
    fork: c.Name | None = None
    at: c.Name | None = None
    tools: list[ToolOffer] = []
    client: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    when: Literal["reject", "queue", "interrupt"] = "reject"
    abort: Literal["cancel", "detach"] = "cancel"
    stop: bool = False
    answers: dict[str, ApprovalAnswer] = {}


class UIMessage(Struct):
    """A message as the AI SDK represents it."""

    id: str
    role: str
    parts: list[JsonObject] = []


class Send(Struct, tag_field="type", tag="send", rename="camel"):
    """Send a message to a chat, and receive the chunks of its turn."""

    request_id: str
    id: c.Name
    messages: list[UIMessage]
    trigger: str = "submit-message"
    message_id: str | None = None
    body: Body = msgspec.field(default_factory=Body)


class Resume(Struct, tag_field="type", tag="resume", rename="camel"):
    """Receive the chunks of a chat's running or last turn."""

    request_id: str
    id: c.Name
    body: Body = msgspec.field(default_factory=Body)


class Abort(Struct, tag_field="type", tag="abort", rename="camel"):
    """Stop receiving the chunks of a request."""

    request_id: str


class _RequestHead(Struct, rename="camel"):
    """The id of a request that could not be decoded, so that its error reaches the right stream."""

    request_id: Any = None


_requests: Final[msgspec.json.Decoder[Send | Resume | Abort]] = msgspec.json.Decoder(
    Send | Resume | Abort
)
_heads: Final[msgspec.json.Decoder[_RequestHead]] = msgspec.json.Decoder(_RequestHead)


class _TurnStream(Struct, eq=False):
    """The answer to one request: the chunks of a turn, once that has begun."""

    request: str
    feed: Feed
    turn: AnyTurn | str
    """A turn that was sent on this connection, or the id of a turn."""
    stops: bool
    """True if the client's Stop cancels the turn."""
    message: TurnMessage | None = None
    sent: int = 0
    turns: dict[str, list[JsonObject]] = {}
    """The turns whose messages it contains, with the message parts that the state lacks."""

    @property
    def turn_id(self) -> str:
        """The id of the turn; empty until it has begun."""
        return self.turn if isinstance(self.turn, str) else self.turn.id


class AiViewer(DialectViewer):
    """One connection of an AI SDK client, with any number of chats."""

    def __init__(self, host: DialectHost) -> None:
        self._host = foreign_viewer(host)
        self._hub = self._host.hub
        self._streams: dict[str, _TurnStream] = {}
        # Requests that wait for their session and were not stopped.
        self._opening: set[str] = set()
        # The newest finished streams: the client may have stopped one before reading all of it.
        self._over: dict[str, _TurnStream] = {}
        # Turns whose messages the client may show without their end, as in `_TurnStream.turns`.
        self._unended: WeakKeyDictionary[Feed, dict[str, list[JsonObject]]] = WeakKeyDictionary()
        self._known = False
        self._sessions_by_id = Sessions(self._hub, lambda: self._client, self._host)

    @property
    def _client(self) -> Client:
        """The client of this connection, which changes when it has introduced itself by name."""
        return self._host.client

    def receive(self, text: str) -> None:
        """Take one request of the client: a message to send, a stream to resume, or an abort.

        A request that cannot be served gets an error with its id; the connection stays open.
        """
        try:
            request = decode_strictly(text, _requests)
        except RemoteProtocolError as error:
            self._malformed(text, str(error))
            return
        if isinstance(request, Abort):
            self._abort(request.request_id)
            return
        try:
            if request.request_id in self._streams:
                raise CommandRefused("bad_request", "two requests have the same id")
            if len(self._streams) + len(self._opening) >= MAX_STREAMS:
                raise CommandRefused(
                    "limit", f"{MAX_STREAMS} requests are being answered: wait for one to end"
                )
            if self._host.role == "controller":
                self._introduce(request.body)
        except Exception as error:
            self._fail(request.request_id, as_refusal(error))
        else:
            self._client.serve(self._act(request))

    def _act(self, request: Send | Resume) -> Steps[None]:
        """Carry out a request, and report an error to its client."""
        try:
            if self._chat(request.id) is None and self._hub.runtime.is_shared:
                yield from self._client.wait(partial(self._hub.find_chat, request.id))
            if isinstance(request, Resume):
                yield from self._resume(request)
            elif self._host.role == "viewer":
                raise CommandRefused("forbidden", "a viewer is read-only")
            else:
                yield from self._send(request)
        except Exception as error:
            self._fail(request.request_id, as_refusal(error))

    def _malformed(self, text: str, why: str) -> None:
        """Report a malformed request under its id. If it has none, end the connection, as there is
        no other way.
        """
        try:
            id = decode_strictly(text, _heads).request_id
        except RemoteProtocolError:
            id = None
        if isinstance(id, str):
            self._fail(id, CommandRefused("bad_request", why))
        else:
            self._host.end(
                CloseCode.BAD_REQUEST, "no request of the AI SDK's WebSocketChatTransport"
            )

    def _fail(self, request: str, error: CommandRefused) -> None:
        """End a request with an error message that the chat shows."""
        text = f"{error.message} ({error.code})"
        self._host.send(pack(type="error", requestId=request, errorText=text))

    # --- chats

    def _introduce(self, body: Body) -> None:
        """Identify the client and register its tools: all chats of a connection share them."""
        back = body.client is not None and not self._known
        if not back and not body.tools:
            return
        offers = self._client.offers
        if back:
            self._known = True
            self._host.recognise(f"ai:{body.client}")
            offers = self._client.offers | offers
        if back or any(offers.get(tool.name) != tool for tool in body.tools):
            self._client.offer((offers | {tool.name: tool for tool in body.tools}).values())

    def _chat(self, id: str) -> str | None:
        """Return the session of a chat, or None. A chat may also be named by the id of a
        session.
        """
        known = self._hub.chats.get(id, id)
        if not isinstance(known, str):
            return None
        there = known in self._hub.feeds or self._hub.runtime.stored(known) is not None
        return known if there else None

    def _send(self, request: Send) -> Steps[None]:
        """Carry out `send`: open the chat's session, prompt it, or continue an assistant message.

        The last message decides: one of the user is a prompt, one of the assistant has answers in
        it. A chat without a session can only begin with a prompt.
        """
        if not request.messages:
            raise CommandRefused("bad_request", "`messages` is empty")
        last = request.messages[-1]
        name = self._chat(request.id)
        content = None if last.role == "assistant" else prompt_of(last)
        if name is None:
            if content is None:
                raise CommandRefused("unknown_session", f"no session {request.id!r} is open")
            yield from self._open(request, content)
            return
        session = yield from self._sessions_by_id.open(name)
        feed = self._hub.feed(session.id)
        if content is None:
            self._continue_message(request, feed, last)
        else:
            self._prompt(request, feed, content)

    def _open(self, request: Send, content: list[Block]) -> Steps[None]:
        """Open a session for the chat's first message, then send the prompt."""
        chats, id, client = self._hub.chats, request.request_id, self._client
        command = self._first(id, request.body)
        opening = chats.get(request.id)
        self._opening.add(id)
        try:
            if isinstance(opening, ChatOpening):  # already being opened
                yield from self._wait_for(opening, request, content)
                return
            chats[request.id] = opening = ChatOpening()
            first = opening.last
            try:
                fields = yield from carry_out(self._hub, client, command)
                self._hub.name_chat(request.id, fields["session"])
                self._begin(request, fields["session"], content)
            except Exception as error:
                if chats.get(request.id) is opening:
                    del chats[request.id]
                    opening.error = as_refusal(error)
                raise
            finally:
                first.set()
        finally:
            self._opening.discard(id)

    def _wait_for(self, opening: ChatOpening, request: Send, content: list[Block]) -> Steps[None]:
        """Send the prompt after those that came before, when the chat's session is open."""
        before, opening.last = opening.last, trio.Event()
        mine = opening.last

        async def wait() -> CommandFields:
            """Wait for the request before this one."""
            await before.wait()
            return {}

        try:
            yield wait
            if opening.error is not None:
                raise opening.error
            session = self._hub.chats[request.id]
            assert isinstance(session, str)
            self._begin(request, session, content)
        finally:
            mine.set()

    def _begin(self, request: Send, session: str, content: list[Block]) -> None:
        """Send the first prompt to a session that was opened, unless the client has stopped it."""
        if request.request_id in self._opening or request.body.abort == "detach":
            self._prompt(request, self._hub.feed(session), content)

    def _first(self, id: str, body: Body) -> c.NewSession | c.ForkSession:
        """Return the command that opens the session of a chat."""
        if body.fork is not None:
            session = self._chat(body.fork)
            if session is None:
                raise CommandRefused("unknown_session", f"no session {body.fork!r} is open")
            return c.ForkSession(id=id, session=session, at=body.at)
        return c.NewSession(
            id=id,
            agent=body.agent or self._hub.default_agent(),
            cwd=body.cwd,
            title=body.title,
            model=body.model,
            mode=body.mode,
            # Its questions belong to turns, and this one would be asked before the first turn.
            trust="no" if self._hub.runtime.trust == "ask" else None,
        )

    def _prompt(self, request: Send, feed: Feed, content: list[Block]) -> None:
        """Send a prompt and begin its stream, after carrying out answers in the client's other
        messages.
        """
        session = self._sessions_by_id.get(feed.log.session)
        unended = self._compare(request, feed)
        for message in request.messages:
            if message.id in unended:  # answers in its other messages must not be lost
                self._resolve(session, message, request.body.answers)
        when = self._when(session, feed, request.body.when)
        self._stream(request, feed, session.submit(content, when=when))

    def _when(self, session: AnySession, feed: Feed, wanted: When) -> When:
        """Return the handling of a message.

        A message from a chat that shows the running turn is never refused: the SDK may be ready
        although a stream is open, and it is when a question has ended the stream.
        """
        state = session.state
        if wanted != "reject" or state.turn is None or state.phase == "cancelling":
            return wanted if wanted != "reject" else "queue"
        turn = state.turn.id
        if any(each.feed is feed and each.turn_id == turn for each in self._streams.values()):
            return "queue"
        if turn not in self._unended[feed]:
            return "reject"
        return "interrupt" if self._is_asked(session) else "queue"

    def _is_asked(self, session: AnySession) -> bool:
        """True if, from the client's view, the turn waits for it: by a question or a tool."""
        return bool(session.pending_permissions) or self._sessions_by_id.waits(session.id)

    def _compare(self, request: Send, feed: Feed) -> dict[str, list[JsonObject]]:
        """Return the turns that the client shows without their end.

        The client may send all of its messages, or have removed some from the chat; or it sends
        only the last one, which proves nothing about the others.
        """
        unended = self._unended.setdefault(feed, {})
        turns = feed.log.state.turns
        appended = request.trigger == "submit-message" and request.message_id is None
        if len(request.messages) > 1 or not appended:
            shown = {message.id for message in request.messages}
            for turn in unended.keys() - shown:
                del unended[turn]
        for message in request.messages:
            runs = message.id in turns and turns[message.id].outcome is None
            if runs or (message.id in turns and any(map(is_pending, message.parts))):
                unended[message.id] = [p for p in message.parts if _is_data(p)]
        return unended

    def _continue_message(self, request: Send, feed: Feed, message: UIMessage) -> None:
        """Continue a message, after the client has answered the last step's questions in it."""
        if message.id not in feed.log.state.turns:
            raise CommandRefused("unknown_turn", f"no turn {message.id!r} in this session")
        self._resolve(self._sessions_by_id.get(feed.log.session), message, request.body.answers)
        self._stream(request, feed, message.id, message.parts)

    def _resolve(
        self, session: AnySession, message: UIMessage, answers: dict[str, ApprovalAnswer]
    ) -> None:
        """Carry out the answers and results in tool parts that are new; most parts are old."""
        for part in message.parts:
            state, call, approval = part.get("state"), part.get("toolCallId"), part.get("approval")
            request = approval.get("id") if isinstance(approval, dict) else None
            if state == "approval-responded" and request in session.pending_permissions:
                assert isinstance(approval, dict)
                _answer(session, request, approval, answers.get(request, ApprovalAnswer()))
            elif isinstance(call, str) and state in ("output-available", "output-error"):
                failed = state == "output-error"
                output = part.get("errorText") if failed else part.get("output")
                text = output if isinstance(output, str) else _json(output)
                self._sessions_by_id.finish(session.id, call, [Text(text)], error=failed)

    def _resume(self, request: Resume) -> Steps[None]:
        """Resume the running turn, or the last one, because the client may not know how it
        ended.
        """
        session, id = self._chat(request.id), request.request_id
        if session is None:
            self._host.send(pack(type="no-active", requestId=id))
        else:
            feed = yield from self._hub.known(self._client, session, None)
            self._resume_in(request, feed)

    def _resume_in(self, request: Resume, feed: Feed) -> None:
        """Stream the running turn or the last one, and stop it first if the client wants that.

        A Stop does not cancel a turn that began after the one whose stream the client has left. A
        session without turns is reported as `no-active`.
        """
        state = feed.log.state
        if not state.turns:
            self._host.send(pack(type="no-active", requestId=request.request_id))
            return
        running = state.state.turn
        turn = running.id if running is not None else next(reversed(state.turns))
        if request.body.stop:
            if self._host.role == "viewer":
                raise CommandRefused("forbidden", "a viewer is read-only")
            left = self._unended.get(feed)
            runtime = self._hub.runtime
            is_open = runtime.is_shared or runtime.stored(feed.log.session) is None
            if is_open and (not left or turn in left):  # else it began after that turn
                self._sessions_by_id.get(feed.log.session).cancel()
        self._stream(request, feed, turn)

    def _abort(self, request: str) -> None:
        """End the stream of a request, and cancel its turn if the client's Stop does that.

        The turn is remembered as unended, because the client shows its message without the rest. A
        stream that has just finished may be aborted, too: the client had not read all of it.
        """
        self._opening.discard(request)
        stream = self._streams.pop(request, None) or self._over.pop(request, None)
        if stream is None:
            return
        self._unended.setdefault(stream.feed, {}).update(stream.turns)
        if stream.stops and self._host.role == "controller":
            try:
                session = self._sessions_by_id.get(stream.feed.log.session)
            except CommandRefused:
                return
            with answering(self._client.who, self._host.via):
                stop(session, stream.turn)

    # --- sent messages

    def _stream(
        self,
        request: Send | Resume,
        feed: Feed,
        turn: AnyTurn | str,
        parts: Iterable[JsonObject] | None = None,
    ) -> None:
        """Register the stream of a request and follow its session.

        `parts`: the parts of the message that the client shows already, if it continues that
        message.
        """
        stops = request.body.abort == "cancel"
        stream = self._streams[request.request_id] = _TurnStream(
            request.request_id, feed, turn, stops
        )
        if parts is not None:
            stream.message = self._message(stream, parts)
        self._host.send(pack(type="start", requestId=request.request_id))
        self._hub.arrived(self._client, feed.log.session)
        self._host.follow(feed)

    def _message(
        self, stream: _TurnStream, parts: Iterable[JsonObject] | None = None
    ) -> TurnMessage:
        """Return the client's view of a turn, beginning with the `parts` that it already has."""
        session = stream.feed.log.session
        return TurnMessage(
            stream.feed.transcript,
            stream.turn_id,
            lambda item: self._sessions_by_id.waits(session, item),
            parts,
        )

    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        """Yield the due chunks of all streams of one session, and unfollow it when there is none
        left.
        """
        feed = feed_of(session)
        for stream in [each for each in self._streams.values() if each.feed is feed]:
            messages = self._messages(stream)
            # The client may abort it whenever something was sent.
            while self._streams.get(stream.request) is stream and (message := next(messages, None)):
                yield message
        if not any(stream.feed is feed for stream in self._streams.values()):
            self._host.unfollow(feed)

    def _messages(self, stream: _TurnStream) -> Iterator[bytes]:
        """Yield the messages for one request of a client: chunks of its turn, then the end.

        A turn that is not shown yet yields nothing, unless it failed or is paused. A message that
        ended with open questions is remembered, to be continued when they are answered.
        """
        request = stream.request
        turns = stream.feed.log.state.turns  # as shown: a stored turn begins before it is shown
        if not isinstance(stream.turn, str) and stream.turn.id not in turns:
            if stream.turn.failure is not None:
                del self._streams[request]
                yield pack(type="error", requestId=request, errorText=str(stream.turn.failure))
            elif is_paused(stream.feed, stream.turn):
                del self._streams[request]
                yield pack(type="error", requestId=request, errorText=PAUSED)
            elif (ask := _asked_before_a_turn(stream.feed)) is not None:
                del self._streams[request]
                text = NOT_STARTED.format(title=ask.title)
                yield pack(type="error", requestId=request, errorText=text)
            return
        for chunk in self._chunks(stream):
            yield pack(type="chunk", requestId=request, sequence=stream.sent, chunk=chunk)
            stream.sent += 1
        message = stream.message
        if message is not None and message.done:
            unended = self._unended.setdefault(stream.feed, {})
            unended.pop(message.turn, None)
            if message.asks:
                unended[message.turn] = message.data
            self._over[request] = self._streams.pop(request)
            stream.message = None
            for old in list(self._over)[:-MAX_STREAMS]:
                del self._over[old]
            yield pack(type="end", requestId=request)

    def _chunks(self, stream: _TurnStream) -> Iterator[Chunk]:
        """Yield the chunks of a stream that are due.

        First come the client's messages of earlier turns, as they ended, if it has left their
        streams and requests another turn.
        """
        message, chunks = stream.message, None
        if message is None:
            message = stream.message = self._message(stream)
        if not stream.turns:
            feed = stream.feed
            unended, turns = self._unended.get(feed, {}), feed.log.state.turns
            over = [id for id in unended if id != message.turn and turns[id].outcome is not None]
            stream.turns = {id: unended.pop(id) for id in over} | {message.turn: message.data}
            if over:
                for id in over:
                    yield from replayed(feed.transcript, id, stream.turns[id])
                chunks = behind_replay(message.chunks())
        yield from chunks or message.chunks()
        stream.turns[message.turn] = message.data


def _asked_before_a_turn(feed: Feed) -> PermissionOpened | None:
    """Return the question that an agent must wait for before it starts."""
    state = feed.log.state
    asked = state.permissions.values() if state.state.turn is None else ()
    return next((ask for ask in asked if ask.subject == "Trust"), None)


def _answer(session: AnySession, request: str, approval: JsonObject, said: ApprovalAnswer) -> None:
    """Answer a question with the client's yes or no, and its further answer."""
    options = {
        each.kind: each.id
        for each in session.pending_permissions[request].options
        if not each.effect
    }
    note = said.note or str(approval.get("reason") or "")
    yes = approval.get("approved") is True
    first, second = ("allow_once", "allow_always") if yes else ("reject_once", "reject_always")
    option = said.option or options.get(first) or options.get(second)
    if said.content is not None:
        session.submit_form(request, said.content)
    elif option is not None:
        session.answer(request, option, note=note)
    else:  # no option fits the answer
        session.dismiss(request, note)


def _is_data(part: JsonObject) -> bool:
    """True if a part is application data, which the session's state does not contain."""
    return str(part.get("type")).startswith("data-")


def prompt_of(message: UIMessage) -> list[Block]:
    """Return the prompt in a user's message. Raises `CommandRefused` if it is empty."""
    content = [block for part in message.parts if (block := _block(part)) is not None]
    if not content:
        raise CommandRefused("bad_request", "the message has neither text nor files")
    return content


def _block(part: JsonObject) -> Block | None:
    """Return a part of a message as a block of a prompt; None for parts of other types.

    Files arrive as data URLs. A file with another URL is passed on as a link, which the agent may
    read or not.
    """
    kind, text, url = part.get("type"), part.get("text"), part.get("url")
    if kind == "text" and isinstance(text, str):
        return Text(text)
    if kind != "file" or not isinstance(url, str):
        return None
    media, name = str(part.get("mediaType") or ""), str(part.get("filename") or "file")
    head, base64, data = url.partition(";base64,")
    if not (base64 and head.startswith("data:")):
        return ResourceLink(uri=url, name=name, mime_type=media or msgspec.UNSET)
    if media.startswith("image/"):
        return Image(data=data, mime_type=media)
    if media.startswith("audio/"):
        return Audio(data=data, mime_type=media)
    return Resource({"uri": f"attachment:{name}", "blob": data, "mimeType": media})


def _json(value: Any) -> str:
    """Return a value as JSON text, for results of tools that are not text."""
    return msgspec.json.encode(value).decode()


AI_SDK: Final = served(Dialect("/ai", "agentrt.ai", AiViewer))
