"""The Agent Client Protocol over a WebSocket, at `/acp`: a site acts as one agent with many
sessions.

Each message is one JSON-RPC message of ACP, version 1 or 2: a client that asks for 2 gets it. The
updates of a session are made in `acpupdates` and `acpupdates2`. The end of a connection leaves the
sessions as they are: `session/load` or `session/resume` finds them.

In version 2 the answer to a prompt is sent when its turn starts, and a state ends the turn. A
prompt that waits in the queue stays unanswered until then.

The table `_METHODS` (for version 2, `_METHODS_2`) has the parameters of each method, whether a
read-only client may call it, and its implementation. Most methods are translated into the commands
of `commands`, which `operations` carries out, so a client of this protocol follows the same rules
as all others. A method that has to wait is a generator of steps: it runs until its first wait
immediately, and a task continues it (`Client.serve`), so a slow request does not delay the messages
after it.

Three kinds of messages go to the client:

- Answers and errors for its requests, sent by `_answer` and `_refuse` as soon as they are known.
- Updates of the sessions that it has attached. They are made in `messages`, when the network has
  room, as the difference between the client's knowledge and the current state.
- Requests of the session to the client: permissions and forms (`acpquestions`), and files and
  terminals of an editor (`acpeditor`). Their answers arrive in `receive`, matched by `OurCalls`.

An answer to a prompt that would overtake the turn's updates is kept in `_Attached.prompts` until
the updates have been sent. `_meta.agentrt` has what ACP has no field for: the phase, the turn's id,
its outcome and its usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import UNSET, Struct, structs
from msgspec.structs import asdict

from .. import jsonrpc as rpc
from .._public import SessionInfo
from .._version import __version__
from ..errors import AgentStartError, RemoteProtocolError, SessionNotFound
from ..events import JsonObject, Modes
from ..hosting import PromptRemoved, SessionControl, answering
from ..jsonrpc import decode_strictly, lenient
from ..lowlevel import (
    CommandRefused,
    Dialect,
    DialectHost,
    DialectViewer,
    Steps,
    ViewedSession,
)
from . import commands as c
from .acpeditor import Editor
from .acpmessages import (
    NEWEST_ACP_VERSION,
    SERVED_ACP_VERSION,
    AcpAuthenticateParams,
    AcpCancelCallParams,
    AcpCancelRequestParams,
    AcpExistingSessionParams,
    AcpForkParams,
    AcpInitializeParams,
    AcpListParams,
    AcpNewSessionParams,
    AcpPromptParams,
    AcpResumeParams2,
    AcpSessionParams,
    AcpSetModelParams,
    AcpSetModeParams,
    AcpSetOptionParams,
    AcpSetTypedOptionParams,
    AcpSteerParams,
    AcpStopTaskParams,
    Meta,
    OurCalls,
    answered,
    call,
    check_folders,
    failed,
)
from .acpquestions import AcpQuestions
from .acpupdates import Updates, mode_state, model_state, option_list
from .acpupdates2 import Updates2, command_list, config_options, is_stopped_by, stop_reason
from .answers import as_refusal
from .feed import Feed
from .foreign import ForeignViewer, feed_of, foreign_viewer, served
from .operations import carry_out, fork_session, new_session
from .refusal import CloseCode
from .remote_sessions import AnyTurn, Sessions, is_paused, new_id
from .routing import is_elsewhere
from .viewer import Viewer

REQUEST_CANCELLED_CODE: Final = -32800
"""The JSON-RPC error code for a request that was taken back."""

UNSUPPORTED_VERSION_CODE: Final = -32022
"""The JSON-RPC error code for a version below all that are supported (version 2)."""

UNKNOWN_SESSION_CODE: Final = -32002
"""The JSON-RPC error code for a session that does not exist."""

JSONRPC_CODES: Final = {
    "bad_request": rpc.INVALID_PARAMS,
    "forbidden": rpc.INVALID_REQUEST,
    "unknown_session": UNKNOWN_SESSION_CODE,
    "unknown_command": rpc.METHOD_NOT_FOUND,
    "unsupported": rpc.INVALID_PARAMS,
}
"""Refusal codes as JSON-RPC error codes; all others are internal errors."""

LISTED_SESSIONS: Final = 200
"""Sessions on a page of `session/list`: the newest are on the first page."""

MAX_SERVERS_BYTES: Final = 256 * 1024
"""Maximum size of the MCP servers that a client gives to one session."""

LOGIN: Final = {
    "id": "agent",
    "name": "The agent's own login",
    "description": "Agents keep their own logins: log in with the agent's program, in a terminal.",
    "type": "agent",
}
"""The only authentication method."""


class _Attached(Struct, eq=False):
    """A session as this connection sees it."""

    feed: Feed
    updates: Updates
    prompts: dict[rpc.Id, AnyTurn]
    """The client's unanswered prompts, by request id."""
    loads: list[rpc.Id]
    """The client's unanswered requests that are answered after the history."""
    offers_editor: bool
    """True if the client provides its files and terminals to the agent, because it works in the
    session's folder.
    """
    inserted: set[rpc.Id]
    """The prompts that are answered already, because their turns have started (version 2)."""


class AcpViewer(DialectViewer):
    """One connection of an ACP client."""

    def __init__(self, host: DialectHost) -> None:
        self._host = foreign_viewer(host)
        self._hub = self._host.hub
        self._client = self._host.client
        self.defaults = Meta()
        """Defaults for values that `session/new` leaves out."""
        self._greeted = False
        self._version = SERVED_ACP_VERSION
        self._sessions: dict[Feed, _Attached] = {}
        self._calls: OurCalls = rpc.OutstandingCalls()
        self._sessions_by_id = Sessions(self._hub, lambda: self._client, self._host)
        self._questions = AcpQuestions(
            self._sessions_by_id, self._calls, lambda: answering(self._client.who, self._host.via)
        )
        self._editor = Editor(self._calls, self._host.send)
        self._has_editor = False

    def receive(self, text: str) -> None:
        """Take one message of the client.

        Text that is no JSON, or JSON that is no JSON-RPC message, gets an error without an id. Any
        message before `initialize` ends the connection, because its meaning depends on the version.
        """
        try:
            message: object = decode_strictly(text)
        except RemoteProtocolError as error:
            self._refuse(None, rpc.PARSE_ERROR, str(error))
            return
        try:
            said = rpc.parse(message)
        except RemoteProtocolError as error:
            self._refuse(None, rpc.INVALID_REQUEST, str(error))
            return
        first = isinstance(said, rpc.JsonRpcRequest) and said.method == "initialize"
        if not self._greeted and not first:
            why = "the first message must be `initialize`"
            if isinstance(said, rpc.JsonRpcRequest):
                self._refuse(said.id, rpc.INVALID_REQUEST, why)
            self._host.end(CloseCode.OUT_OF_ORDER, why)
        elif isinstance(said, rpc.JsonRpcResponse):
            take, _ = self._calls.take(said.id)
            if take is not None:
                take(said)
        elif isinstance(said, rpc.JsonRpcNotification):
            self._notified(said)
        else:
            self._client.serve(self._requested(said))

    # --- requests from the client

    def _requested(self, request: rpc.JsonRpcRequest) -> Steps[None]:
        """Carry out a request and answer it."""
        id = request.id
        if self._version > SERVED_ACP_VERSION and not isinstance(id, str | int):
            self._refuse(None, rpc.INVALID_REQUEST, f"an id is a string or an integer, not {id}")
            return
        try:
            known = self._methods().get(request.method)
            if known is None:
                raise CommandRefused("unknown_command", f"no method {request.method!r}")
            wanted, looks, act = known
            if self._host.role == "viewer" and not looks:
                raise CommandRefused("forbidden", "a viewer is read-only")
            params = {} if request.params is None else request.params
            left_out: list[str] = []
            try:
                given = lenient(params, wanted, left_out)
            except msgspec.ValidationError as error:
                raise CommandRefused("bad_request", f"{request.method}: wrong: {error}") from error
            if left_out and wanted is not AcpInitializeParams:  # half of it may mean something else
                raise CommandRefused(
                    "bad_request", f"{request.method}: wrong: {', '.join(left_out)}"
                )
            check_folders(request.method, given)
            if (steps := act(self, id, given)) is not None:
                yield from steps
        except Exception as error:
            self._fail(id, as_refusal(error))

    def _methods(self) -> Methods:
        """Return the methods of the agreed version."""
        return _METHODS if self._version == SERVED_ACP_VERSION else _METHODS_2

    def _initialize(self, id: rpc.Id, params: AcpInitializeParams) -> None:
        """Answer the handshake of a client, and agree on a version of ACP.

        A second handshake is refused, as is a version that neither side can fall back to; the
        answer then lists the supported ones. A controller that offers files or terminals becomes
        the editor of the sessions that it opens.
        """
        if self._greeted:
            if self._version > SERVED_ACP_VERSION:
                self._refuse(id, rpc.INVALID_REQUEST, "`initialize` was sent already")
                return
            raise CommandRefused("bad_request", "`initialize` was sent already")
        if not params.supported:
            why = f"version {params.protocol_version} is not supported; use 1 or 2"
            supported = [SERVED_ACP_VERSION, NEWEST_ACP_VERSION]
            data = {"requested": params.protocol_version, "supported": supported}
            self._refuse(id, UNSUPPORTED_VERSION_CODE, why, data)
            return
        self._greeted = True
        self._version = params.version
        self._questions.offers = params.offered
        self._questions.version = params.version
        if (info := params.client_info or params.info) is not None:
            name = f"{info.name} {info.version}".strip()
            self._host.identify(name)
        if self._version > SERVED_ACP_VERSION:
            self._answer(id, **_GREETING_2)
            return
        if self._host.role == "controller":
            self._has_editor = self._editor.offer(params.offered)
        everything = {"image": True, "audio": True, "embeddedContext": True}
        self._answer(
            id,
            protocolVersion=SERVED_ACP_VERSION,
            agentInfo={"name": "agentrt", "title": "agentrt", "version": __version__},
            authMethods=[LOGIN],
            agentCapabilities={
                "loadSession": True,
                "promptCapabilities": everything,
                "mcpCapabilities": {"http": True, "sse": True},
                "sessionCapabilities": {
                    "list": {},
                    "resume": {},
                    "close": {},
                    "delete": {},
                    "fork": {},
                    "additionalDirectories": {},
                },
            },
            _meta={"steering": {"supported": True}, "agentrt": {"forkAt": True}},
        )

    def _authenticate(self, id: rpc.Id, params: AcpAuthenticateParams) -> None:
        """Accept the agent's own login. It is checked only when an agent starts."""
        if params.method_id != LOGIN["id"]:
            raise CommandRefused("bad_request", f"no login method has the id {params.method_id!r}")
        self._hub.default_agent()  # raises if there is none
        self._answer(id)

    def _new(self, id: rpc.Id, params: AcpNewSessionParams) -> Steps[None]:
        """Carry out `session/new`: create a session, or open one that `_meta` names.

        A session may be created on another server that shares the store. MCP servers are refused
        there: they may contain secrets, and the command would store them in the database.
        """
        about = params.meta.agentrt if params.meta is not None else Meta()
        if about.agent in (None, self.defaults.agent):
            said = {name: value for name, value in asdict(about).items() if value is not None}
            about = structs.replace(self.defaults, **said)

        if about.session is not None:
            roots = params.additional_directories or None
            feed = yield from self._known(about.session, params.mcp_servers, roots)
            self._opened(id, feed, params.cwd)
            return
        command = c.NewSession(
            id=new_id(),
            agent=about.agent or self._hub.default_agent(),
            cwd=params.cwd,
            title=about.title,
            model=about.model,
            mode=about.mode,
            roots=params.additional_directories or UNSET,
        )
        if is_elsewhere(self._hub, command):
            if params.mcp_servers:  # they may hold secrets, which must not be put into a database
                raise CommandRefused(
                    "unsupported", "a session of another server gets no MCP servers"
                )
            fields = yield from carry_out(self._hub, self._client, command)
        else:
            job = new_session(self._hub, self._client, command, _bounded(params.mcp_servers))
            fields = yield from self._client.wait(job)
        self._opened(id, self._hub.feed(fields["session"]), params.cwd)

    def _opened(self, id: rpc.Id, feed: Feed, cwd: str | None) -> None:
        """View a session from its beginning, and answer the request that opened it."""
        self._attach(feed, cwd=cwd, fresh=not feed.log.state.items)
        self._answer(id, sessionId=feed.log.session, **self._settings(feed), _meta=_phase(feed))

    def _load(self, id: rpc.Id, params: AcpExistingSessionParams) -> Steps[None]:
        """Send the complete history, then the answer; later events follow as updates."""
        feed = yield from self._known_as(params)
        self._attach(feed, cwd=params.cwd).loads.append(id)

    def _resume(self, id: rpc.Id, params: AcpExistingSessionParams) -> Steps[None]:
        """View a session from now on, without its history (version 1)."""
        feed = yield from self._known_as(params)
        self._attach(feed, cwd=params.cwd, knows=True)
        self._answer(id, **self._settings(feed), _meta=_phase(feed))

    def _resume_2(self, id: rpc.Id, params: AcpResumeParams2) -> Steps[None]:
        """Send the history if it is wanted, then the session's state, then the answer."""
        replay = params.replay_from
        if replay is not None and replay.get("type") != "start":
            why = f"replayFrom has the type `start` only, not {replay.get('type')!r:.100}"
            raise CommandRefused("bad_request", why)
        feed = yield from self._known_as(params)
        self._attach(feed, cwd=params.cwd, knows=replay is None).loads.append(id)

    def _fork(self, id: rpc.Id, params: AcpForkParams) -> Steps[None]:
        """Open a fork of a session. The history that its agent repeats follows as updates."""
        yield from self._find(params.session_id)
        command = c.ForkSession(
            id=new_id(),
            session=params.session_id,
            at=params.at,
            roots=params.additional_directories or [],
        )
        if is_elsewhere(self._hub, command):
            fields = yield from carry_out(self._hub, self._client, command)
        else:
            job = fork_session(self._hub, self._client, command, _bounded(params.mcp_servers))
            fields = yield from self._client.wait(job)
        self._opened(id, self._hub.feed(fields["session"]), params.cwd)

    def _known_as(self, params: AcpExistingSessionParams) -> Steps[Feed]:
        """Do as `_known` for a client that always sends the complete list of folders."""
        roots = params.additional_directories or []
        return (yield from self._known(params.session_id, params.mcp_servers, roots))

    def _known(
        self, session: str, mcp_servers: list[JsonObject], roots: list[str] | None
    ) -> Steps[Feed]:
        """Return a session whose complete history is known.

        If this client has the session reopened, its agent gets these MCP servers and `roots` (None:
        the stored roots).
        """
        client = self._client
        resolved = None if roots is None else self._hub.folders.resolve_all(roots)
        yield from self._find(session)
        feed = yield from self._hub.known(client, session, None)
        client.mcp_servers[session] = _bounded(mcp_servers)
        if resolved is not None:
            client.roots[session] = resolved
        return feed

    def _find(self, session: str) -> Steps[None]:
        """Add a session of another store to the runtime's, if it can be found there."""
        others = self._hub.other_stores
        here = session in self._hub.feeds or self._hub.runtime.stored(session) is not None
        if not here and others is not None:
            yield from self._client.wait(partial(others.fetch, session))

    def _attach(
        self, feed: Feed, *, cwd: str | None = None, knows: bool = False, fresh: bool = False
    ) -> _Attached:
        """View a session from its beginning or, if the client `knows` its history, from now on.
        `fresh`: it is a new one.

        The client's unanswered prompts and open questions are kept. `cwd`: the session's folder,
        according to the client.
        """
        offers = self._questions.offers
        known = self._sessions.get(feed)
        prompts = known.prompts if known is not None else {}
        loads = known.loads if known is not None else []
        inserted = known.inserted if known is not None else set()
        make = Updates if self._version == SERVED_ACP_VERSION else partial(Updates2, fresh=fresh)
        updates = make(
            feed.transcript,
            prompts,
            notices=offers.notices,
            switches=offers.switches,
            knows=knows,
            terminals=self._editor.terminals,
        )
        offers_editor = self._has_editor and (
            (cwd is not None and self._hub.is_in(feed.log.session, cwd))
            or (known is not None and known.offers_editor)
        )
        attached = self._sessions[feed] = _Attached(
            feed, updates, prompts, loads, offers_editor, inserted
        )
        self._host.follow(feed, anew=True)
        return attached

    def _list(self, id: rpc.Id, params: AcpListParams) -> Steps[None]:
        """Answer `session/list` with a page of sessions, the newest page first.

        The sessions of other stores come before those of this server and lose against them if both
        have one. A cursor is the id of the first session of the page before; it is refused if that
        session is gone.
        """
        others: list[SessionInfo] = []
        if (stores := self._hub.other_stores) is not None:
            fields = yield from self._client.wait(partial(stores.sessions, params.cwd))
            others = fields["sessions"]
        listed = self._newest_first(others)
        shown = (info for info in listed if params.cwd in (None, info.cwd))
        if params.cursor is not None and all(info.session != params.cursor for info in shown):
            why = f"unknown cursor {params.cursor!r}: list again without a cursor"
            raise CommandRefused("bad_request", why)
        page = [*islice(shown, LISTED_SESSIONS + 1)]
        more = {}
        if len(page) > LISTED_SESSIONS:
            del page[LISTED_SESSIONS:]
            more = {"nextCursor": page[-1].session}
        self._answer(id, sessions=[_listed(info) for info in reversed(page)], **more)

    def _newest_first(self, others: list[SessionInfo]) -> Iterator[SessionInfo]:
        """Iterate over the sessions here, then those of other stores that are not here."""
        now = self._hub.runtime.list_open()
        yield from reversed(now)
        yield from self._hub.runtime.newest_stored()
        here = {info.session for info in now}
        for info in reversed(others):
            if info.session not in here and self._hub.runtime.stored(info.session) is None:
                yield info

    def _prompt(self, id: rpc.Id, params: AcpPromptParams) -> Steps[None]:
        """Send a prompt. It is answered when its turn has ended, or begun in version 2.

        Prompts are queued while a turn runs. The request id identifies the prompt until then, so an
        id in use is refused.
        """
        yield from self._find(params.session_id)
        session = yield from self._sessions_by_id.open(params.session_id)
        if not params.prompt:
            raise CommandRefused("bad_request", "the prompt is empty")
        attached = self._attached(params.session_id)
        if id in attached.prompts:
            raise CommandRefused("bad_request", "two requests have the same id")
        attached.prompts[id] = session.submit(params.prompt)

    def _steer(self, id: rpc.Id, params: AcpSteerParams) -> Steps[None]:
        """Carry out the extension `_session/steering`: send a prompt into the running turn.

        Without a running turn, or with one that is being cancelled, the client's `begins` decides
        between a new turn and the answer `promptRequired`.
        """
        yield from self._find(params.session_id)
        session = yield from self._sessions_by_id.open(params.session_id)
        if session.state.turn is not None and session.state.phase != "cancelling":
            command = c.Prompt(id=new_id(), session=session.id, content=params.prompt, when="steer")
            yield from carry_out(self._hub, self._client, command)
            self._answer(id, outcome="injected")
        elif params.begins:
            session.submit(params.prompt)
            self._answer(id, outcome="startedNewTurn")
        else:
            self._answer(id, outcome="promptRequired", reason="noRunningTurn")

    def _stop_task(self, id: rpc.Id, params: AcpStopTaskParams) -> Steps[None]:
        """Carry out the extension that stops background work by its id."""
        name, task = params.session_id, params.async_task_id
        return self._change(id, c.StopTask(id=new_id(), session=name, task=task))

    def _cancel_call(self, id: rpc.Id, params: AcpCancelCallParams) -> Steps[None]:
        """Stop the background work that a client sees as this tool call."""
        call, tasks = params.tool_call_id, self._hub.feed(params.session_id).log.state.tasks
        running = [task.id for task in tasks.values() if is_stopped_by(task, call)]
        if not running:
            raise CommandRefused("bad_request", f"no running background work has the id {call!r}")
        for task in running:
            command = c.StopTask(id=new_id(), session=params.session_id, task=task)
            yield from carry_out(self._hub, self._client, command)
        self._answer(id)

    def _attached(self, session: str) -> _Attached:
        """Return a session that the client names, and view it from then on."""
        feed = self._hub.feed(session)
        return self._sessions.get(feed) or self._attach(feed, knows=True)

    def _set_mode(self, id: rpc.Id, params: AcpSetModeParams) -> Steps[None]:
        """Change the mode of a session (version 1; version 2 has an option for it)."""
        name, mode = params.session_id, params.mode_id
        return self._change(id, c.SetMode(id=new_id(), session=name, mode=mode))

    def _set_model(self, id: rpc.Id, params: AcpSetModelParams) -> Steps[None]:
        """Change the model of a session (version 1; version 2 has an option for it)."""
        name, model = params.session_id, params.model_id
        return self._change(id, c.SetModel(id=new_id(), session=name, model=model))

    def _set_option(self, id: rpc.Id, params: AcpSetOptionParams) -> Steps[None]:
        """Change an option. `mode` and `model` are options, too, unless the agent has its own by
        that name.

        The answer contains all options, because changing one may change the others.
        """
        name, option, value = params.session_id, params.config_id, params.value
        modes = self._hub.feed(name).log.state.modes
        ours = modes is None or all(each.id != option for each in modes.options)
        command: c.ViewerCommand
        if ours and option == "mode":
            command = c.SetMode(id=new_id(), session=name, mode=str(value))
        elif ours and option == "model":
            command = c.SetModel(id=new_id(), session=name, model=str(value))
        else:
            command = c.SetOption(id=new_id(), session=name, option=option, value=value)
        yield from carry_out(self._hub, self._client, command)
        self._answer(id, **self._options(self._sessions_by_id.get(name).modes))

    def _set_typed_option(self, id: rpc.Id, params: AcpSetTypedOptionParams) -> Steps[None]:
        """Check that the value has the announced type, as version 2 requires, then set the
        option.
        """
        wanted = {"id": str, "boolean": bool}.get(params.type)
        if wanted is None or type(params.value) is not wanted:
            why = f"a value of the type {params.type!r:.100} is not {params.value!r:.100}"
            raise CommandRefused("bad_request", why)
        return self._set_option(id, params)

    def _close_session(self, id: rpc.Id, params: AcpSessionParams) -> Steps[None]:
        """Close a session for all clients that view it. Its log stays in the store."""
        return self._change(id, c.CloseSession(id=new_id(), session=params.session_id))

    def _delete(self, id: rpc.Id, params: AcpSessionParams) -> Steps[None]:
        """Delete a session. A session that does not exist counts as deleted."""
        yield from self._find(params.session_id)
        command = c.DeleteSession(id=new_id(), session=params.session_id)
        try:
            yield from carry_out(self._hub, self._client, command)
        except (CommandRefused, SessionNotFound) as error:
            if as_refusal(error).code != "unknown_session":
                raise
        self._answer(id)

    def _change(self, id: rpc.Id, command: c.ViewerCommand) -> Steps[None]:
        """Carry out a command whose answer is an empty object."""
        yield from carry_out(self._hub, self._client, command)
        self._answer(id)

    # --- notifications from the client

    def _notified(self, said: rpc.JsonRpcNotification) -> None:
        """Handle a notification. Unknown or invalid ones are ignored, as the protocol requires."""
        if self._host.role == "viewer":
            return
        try:
            if said.method == "session/cancel":
                self._cancel(msgspec.convert(said.params, AcpSessionParams).session_id)
            elif said.method == "$/cancel_request":
                self._cancel_request(
                    msgspec.convert(said.params, AcpCancelRequestParams).request_id
                )
        except (msgspec.ValidationError, CommandRefused):
            pass

    def _cancel(self, id: str) -> None:
        """Cancel the running turn and this client's queued prompts."""
        with answering(self._client.who, self._host.via):
            self._sessions_by_id.get(id).cancel()
            attached = self._sessions.get(self._hub.feed(id))
            for turn in attached.prompts.values() if attached is not None else ():
                turn.cancel()

    def _cancel_request(self, request: rpc.Id) -> None:
        """Take back a prompt by the id of its request.

        In version 2 a prompt is answered when its turn begins; there is no request to cancel after
        that.
        """
        for attached in self._sessions.values():
            turn = attached.prompts.get(request)
            if turn is not None and request not in attached.inserted:
                self._sessions_by_id.get(attached.feed.log.session)  # raises if it is not reachable
                with answering(self._client.who, self._host.via):
                    turn.cancel()

    # --- the end of the client's input

    def stop(self) -> None:
        """Cancel everything that this client has requested, because it sends nothing more."""
        for feed, attached in list(self._sessions.items()):
            can = self._hub.runtime.is_shared or self._hub.open_session(feed) is not None
            if attached.prompts and can and not feed.over:
                self._cancel(feed.log.session)

    async def answered(self) -> None:
        """Wait until all requests of this client are answered and their answers are taken for
        sending. Cancelling it changes nothing.
        """
        while self._asked_for() or self._host.unsent:
            await self._host.wait_for_sending()

    def _asked_for(self) -> bool:
        """True if an answer to the client is outstanding."""
        sessions = self._sessions.values()
        return self._client.busy or any(each.prompts or each.loads for each in sessions)

    def lost(self, why: str) -> None:
        """Report that a message of the client could not be read. It may have been an answer, so all
        open requests to the client fail.
        """
        self._refuse(None, rpc.PARSE_ERROR, why)
        self._editor.fail_all(why)

    # --- sent messages

    def unfollowed(self, session: ViewedSession) -> None:
        """Forget a session that the client no longer views, and withdraw everything offered to it:
        the client's files and terminals, and the MCP servers for reopening it.
        """
        feed = feed_of(session)
        for given in (self._client.mcp_servers, self._client.roots):
            given.pop(feed.log.session, None)
        attached = self._sessions.pop(feed, None)
        self._questions.forget(feed)
        if attached is not None and attached.offers_editor:
            if (opened := self._hub.open_session(feed)) is not None:
                clients = SessionControl(opened).clients
                if self._editor in clients:
                    clients.remove(self._editor)
            self._editor.leave(feed.log.session)

    def _offer_editor(self, feed: Feed) -> None:
        """Offer this client's files and terminals to the session, if it is open here."""
        if (session := self._hub.open_session(feed)) is not None:
            clients = SessionControl(session).clients
            if self._editor not in clients:
                clients.append(self._editor)

    def messages(self, session: ViewedSession) -> Iterator[bytes]:
        """Yield the messages about the part of a session that the client has not received.

        The order matters: in version 2 the answer to a prompt comes before the updates of its turn,
        in version 1 it comes after them.
        """
        feed = feed_of(session)
        attached = self._sessions[feed]
        if attached.offers_editor:
            self._offer_editor(feed)
        if self._version > SERVED_ACP_VERSION:
            yield from self._insertions(attached)
        for update in attached.updates.updates(lambda: bool(attached.loads)):
            yield _update(feed, update)
        yield from self._answers(attached)

    def _answers(self, attached: _Attached) -> list[bytes]:
        """Return the answers that are due once the client knows all events."""
        feed = attached.feed
        out = [answered(id, **self._settings(feed), _meta=_phase(feed)) for id in attached.loads]
        attached.loads.clear()
        if self._host.role == "controller":
            out += self._questions.refresh(feed, attached.updates)
        if self._version > SERVED_ACP_VERSION:
            return out
        for id, turn in list(attached.prompts.items()):
            answer = self._ended_prompt(feed, id, turn)
            if answer is not None:
                del attached.prompts[id]
                out.append(answer)
        return out

    def _insertions(self, attached: _Attached) -> Iterator[bytes]:
        """Yield the answers to prompts whose turns have started, or that will not be sent."""
        state = attached.feed.log.state
        for id, turn in list(attached.prompts.items()):
            if turn.id and id not in attached.inserted:
                message = next(
                    (
                        item.id
                        for item in reversed(state.items.values())
                        if item.turn == turn.id and item.type == "user"
                    ),
                    None,
                )
                if message is None:
                    continue  # the turn has begun, and its first item follows
                attached.inserted.add(id)
                yield answered(id, messageId=message, _meta={"agentrt": {"turn": turn.id}})
            if turn.id and (record := state.turns.get(turn.id)) and record.outcome is not None:
                attached.inserted.discard(id)
                del attached.prompts[id]
            elif not turn.id and (turn.failure is not None or is_paused(attached.feed, turn)):
                del attached.prompts[id]
                taken_back = not isinstance(turn.failure, AgentStartError)
                code = REQUEST_CANCELLED_CODE if taken_back else rpc.INTERNAL_ERROR
                why = "the prompt was not sent" if turn.failure is None else str(turn.failure)
                yield failed(id, code, why)

    def _ended_prompt(self, feed: Feed, id: rpc.Id, turn: AnyTurn) -> bytes | None:
        """Return the answer to a prompt, once it is over."""
        state = feed.log.state
        if not turn.id:
            if isinstance(turn.failure, PromptRemoved):
                return answered(id, stopReason="cancelled")
            if turn.failure is not None:
                return failed(id, rpc.INTERNAL_ERROR, str(turn.failure))
            if is_paused(feed, turn):
                return answered(id, stopReason="cancelled", _meta={"agentrt": {"paused": True}})
            return None
        record = state.turns.get(turn.id)
        if record is None or record.outcome is None:
            return None
        ours: JsonObject = {"turn": turn.id, "outcome": record.outcome}
        if record.usage is not None:
            ours["usage"] = record.usage
        about = {"agentrt": ours}
        reason = stop_reason(record.outcome, record.stop_reason)
        if reason is not None:
            return answered(id, stopReason=reason, _meta=about)
        error = record.error
        message = error.message if error is not None else record.outcome
        return failed(id, rpc.INTERNAL_ERROR, message, {**ours, "error": error})

    def _settings(self, feed: Feed) -> JsonObject:
        """Return the session's modes, models, options and commands in the form of the agreed
        version.
        """
        modes = feed.log.state.modes
        if self._version > SERVED_ACP_VERSION:
            return {
                **self._options(modes),
                "availableCommands": command_list(feed.log.state.commands),
            }
        return {
            "modes": mode_state(modes),
            "models": model_state(modes),
            **self._options(modes),
        }

    def _options(self, modes: Modes | None) -> JsonObject:
        """Return the options; version 1 leaves out those that are on or off, unless the client
        knows them.
        """
        if self._version > SERVED_ACP_VERSION:
            return {"configOptions": config_options(modes)}
        return {"configOptions": option_list(modes, switches=self._questions.offers.switches)}

    def _answer(self, id: rpc.Id, **result: Any) -> None:
        """Send the result of a request."""
        self._host.send(answered(id, **result))

    def _refuse(self, id: rpc.Id, code: int, message: str, data: Any = None) -> None:
        """Send an error. `id` is None if the request could not be read."""
        self._host.send(failed(id, code, message, data))

    def _fail(self, id: rpc.Id, error: CommandRefused) -> None:
        """Send a refused command as a JSON-RPC error, with agentrt's own code in its data."""
        code = JSONRPC_CODES.get(error.code, rpc.INTERNAL_ERROR)
        self._refuse(id, code, error.message, {"code": error.code, "data": error.data})


_Act = Callable[[AcpViewer, rpc.Id, Any], Steps[None] | None]

Methods: TypeAlias = Mapping[str, tuple[type[Struct], bool, _Act]]
"""For each method: its parameters, true if a viewer may call it, and its implementation."""

_METHODS: Final[Methods] = {
    "initialize": (AcpInitializeParams, True, AcpViewer._initialize),
    "authenticate": (AcpAuthenticateParams, True, AcpViewer._authenticate),
    "session/new": (AcpNewSessionParams, False, AcpViewer._new),
    "session/load": (AcpExistingSessionParams, True, AcpViewer._load),
    "session/resume": (AcpExistingSessionParams, True, AcpViewer._resume),
    "session/fork": (AcpForkParams, False, AcpViewer._fork),
    "session/list": (AcpListParams, True, AcpViewer._list),
    "session/prompt": (AcpPromptParams, False, AcpViewer._prompt),
    "_session/steering": (AcpSteerParams, False, AcpViewer._steer),
    "_session/async_task/stop": (AcpStopTaskParams, False, AcpViewer._stop_task),
    "session/set_mode": (AcpSetModeParams, False, AcpViewer._set_mode),
    "session/set_model": (AcpSetModelParams, False, AcpViewer._set_model),
    "session/set_config_option": (AcpSetOptionParams, False, AcpViewer._set_option),
    "session/close": (AcpSessionParams, False, AcpViewer._close_session),
    "session/delete": (AcpSessionParams, False, AcpViewer._delete),
}
_METHODS_2: Final[Methods] = {
    **{
        name: method
        for name, method in _METHODS.items()
        if name not in ("authenticate", "session/load", "session/set_mode", "session/set_model")
    },
    "auth/login": _METHODS["authenticate"],
    "tool_call/cancel": (AcpCancelCallParams, False, AcpViewer._cancel_call),
    "session/resume": (AcpResumeParams2, True, AcpViewer._resume_2),
    "session/set_config_option": (AcpSetTypedOptionParams, False, AcpViewer._set_typed_option),
}

_GREETING_2: Final[JsonObject] = {
    "protocolVersion": NEWEST_ACP_VERSION,
    "info": {"name": "agentrt", "title": "agentrt", "version": __version__},
    "authMethods": [{"methodId": LOGIN["id"], **{k: v for k, v in LOGIN.items() if k != "id"}}],
    "capabilities": {
        "session": {
            "prompt": {"image": {}, "audio": {}, "embeddedContext": {}},
            "mcp": {"stdio": {}, "http": {}},
            "delete": {},
            "fork": {},
            "additionalDirectories": {},
        }
    },
    "_meta": {"steering": {"supported": True}, "agentrt": {"forkAt": True}},
}
"""The answer to `initialize` in version 2."""


def _bounded(mcp_servers: list[JsonObject]) -> list[JsonObject]:
    """Return the MCP servers that a client gives to a session.

    Raises `CommandRefused` if they are too large to be kept for each session.
    """
    size = len(rpc.encode_line(mcp_servers))
    if size > MAX_SERVERS_BYTES:
        raise CommandRefused(
            "bad_request",
            f"`mcpServers` has at most {MAX_SERVERS_BYTES:,} bytes as JSON, not {size:,}",
        )
    return mcp_servers


def _listed(info: SessionInfo) -> JsonObject:
    """Return a session as an entry of `session/list`. Fields without a value are left out."""
    about: JsonObject = {"sessionId": info.session, "cwd": info.cwd, "title": info.title}
    if info.roots:
        about["additionalDirectories"] = info.roots
    if info.updated is not None:
        about["updatedAt"] = datetime.fromtimestamp(info.updated, UTC).isoformat()
    return about


def _phase(feed: Feed) -> JsonObject:
    """Return the phase and turn, for which the protocol has no field. They show a turn that another
    client has begun.
    """
    state = feed.log.state.state
    return {"agentrt": {"phase": state.phase, "turn": state.turn.id if state.turn else None}}


def _update(feed: Feed, update: JsonObject) -> bytes:
    return call(None, "session/update", {"sessionId": feed.log.session, "update": update})


def acp_viewer(viewer: Viewer) -> AcpViewer:
    """Return the ACP side of a viewer that was attached with `ACP`."""
    assert isinstance(viewer, ForeignViewer)
    assert isinstance(viewer.dialect_viewer, AcpViewer)
    return viewer.dialect_viewer


ACP: Final = served(
    Dialect("/acp", "agentrt.acp", AcpViewer, connection_header="Acp-Connection-Id")
)
