"""Codex's requests (approvals, questions, tools) and their responses.

Each request has a key of the runtime's, and is answered exactly once. Codex reports if one is
resolved in another way (`serverRequest/resolved`); then no answer is due.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from msgspec import Struct, ValidationError, to_builtins

from ..errors import LocalProtocolError
from ..model.content import JsonObject
from ..model.driver import (
    DecisionAnswer,
    DecisionRequested,
    Effect,
    NewKey,
    RequestWithdrawn,
    ServiceRequested,
    extension_request,
)
from ..model.events import PermissionOption
from ..wire.channel import Channel
from ..wire.jsonrpc import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Id,
    JsonRpcError,
    JsonRpcNotification,
    JsonRpcRequest,
    error_line,
    result_line,
)
from . import messages as wire
from .speech import CodexTranslator, changed_files, command_input, edit_title, title_of

ONCE: Final = PermissionOption("accept", "Allow", "allow_once")
FOR_SESSION: Final = "acceptForSession"


def _for_session(what: str) -> PermissionOption:
    """Return the option that allows further requests of the same kind until the session ends."""
    return PermissionOption(FOR_SESSION, f"Always allow {what} in this session", "allow_always")


DECLINE: Final = PermissionOption("decline", "Reject", "reject_once")
FORM: Final = [
    PermissionOption("accept", "Accept", "allow_once"),
    PermissionOption("decline", "Decline", "reject_once"),
]
ELICITATION: Final = "mcpServer/elicitation/request"
AMENDED: Final = "acceptWithExecpolicyAmendment"

Make: TypeAlias = Callable[[DecisionAnswer], Any]
"""Makes the result of a request from its answer."""


class _OpenCodexRequest(Struct):
    """A request that waits for an answer."""

    id: Id
    method: str
    options: frozenset[str] = frozenset()
    make: Make | None = None
    """None for a service request, which gets a reply."""


class CodexRequests:
    """Codex's open requests."""

    def __init__(
        self,
        channel: Channel,
        new_key: NewKey,
        speech: Callable[[str], CodexTranslator],
        extensions: Collection[str] = (),
    ) -> None:
        """Create an empty set of requests.

        `speech` returns the translator of a thread. `extensions`: further methods, which the host
        serves. Raises `LocalProtocolError` for one
        that the driver serves itself.
        """
        self._extensions = tuple(extensions)
        self._channel = channel
        self._new_key = new_key
        self._speech = speech
        self._open: dict[str, _OpenCodexRequest] = {}
        self._keys: dict[tuple[type, Id], str] = {}
        for method in {*self._TAKE, ELICITATION}.intersection(self._extensions):
            raise LocalProtocolError(f"{method} is served by agentrt itself")

    def received(self, request: JsonRpcRequest, thread: str | None, *, stopping: bool) -> None:
        """Take a request. An unknown one is refused immediately.

        `thread` is the session's; requests of other threads come from sub-agents, which work in the
        background. `stopping`: the turn is being cancelled, and no question is asked any more.
        """
        method = request.method
        background = _thread_of(request) not in (None, thread)
        if method in self._extensions:
            key = self._add(_OpenCodexRequest(request.id, method))
            self._channel.out.append(extension_request(key, method, request.params))
            return
        if method == ELICITATION:
            given = request.params if isinstance(request.params, dict) else {}
            form = given.get("mode") != "url"
            kind: Any = (
                wire.FormMcpServerElicitationRequest
                if form
                else wire.UrlMcpServerElicitationRequest
            )
            take: Callable[..., None] = CodexRequests._elicit
        elif method in self._TAKE:
            kind, take = self._TAKE[method]
        else:
            self._channel.notice(
                "info",
                "unknown_request",
                f"the agent asked for {method}, which it was not offered",
                request.params,
                about=method,
            )
            self._refuse(request.id, METHOD_NOT_FOUND, f"{method} is not supported")
            return
        try:
            params = self._channel.read(request.params, kind, method)
        except ValidationError as error:
            why = f"{method} without a usable {error}"
            self._channel.notice("warning", "invalid_request", why, request.params)
            self._refuse(request.id, INVALID_PARAMS, why)
            return
        before = len(self._channel.out)
        take(self, request, params)
        new = self._channel.out[before:]
        if background:
            for effect in new:
                if isinstance(effect, DecisionRequested | ServiceRequested):
                    effect.background = True
        elif stopping:
            self._dismiss(new)

    def notified(self, notification: JsonRpcNotification) -> bool:
        """Pass a notification on if it is an extension of the host's. Returns True if it is."""
        method = notification.method
        if method not in self._extensions:
            return False
        requested = extension_request(
            self._new_key(), method, notification.params, notification=True
        )
        self._channel.out.append(requested)
        return True

    def _dismiss(self, effects: list[Effect]) -> None:
        """Answer questions as cancelled, and take them back before anyone has seen them."""
        for effect in effects:
            if isinstance(effect, DecisionRequested):
                self._channel.out.remove(effect)
                self.answer(effect.key, DecisionAnswer())

    # --- approvals

    def _command(
        self, request: JsonRpcRequest, params: wire.CommandExecutionRequestApprovalParams
    ) -> None:
        """Ask about a command, input for a running program, or a connection to a host.

        Codex's `availableDecisions` name the lasting permissions that may be offered. One of them
        can carry a rule for later sessions, which codex proposes and writes to its own rules file;
        it is sent back unchanged.
        """
        command, network = params.command, params.network_approval_context
        decisions = params.available_decisions or ["accept", "acceptForSession"]
        offered = {_name(each): each for each in decisions}
        options = [ONCE]
        if FOR_SESSION in offered:
            options.append(_for_session("this command"))
        words = _amended(offered.get(AMENDED))
        if words is not None:
            label = (
                f"Always allow commands that begin with {words}, in later sessions too (written to"
                " ~/.codex/rules)"
            )
            options.append(PermissionOption(AMENDED, label, "allow_always"))
        options.append(DECLINE)

        def decide(answer: DecisionAnswer) -> JsonObject:
            """Return the decision; the one with a rule is sent back as codex has proposed it."""
            chosen = _decision(answer)
            return {"decision": offered.get(chosen, chosen) if chosen == AMENDED else chosen}

        given: JsonObject
        if params.kind == "writeStdin":
            title, given = f"Write to a running program: {command}", {"chars": command or ""}
        elif command is not None:
            title, given = title_of(command), command_input(command, params.cwd)
        elif network is not None:
            url = f"{network.protocol}://{network.host}"
            title, given = f"Connect to {url}", {"url": url}
        else:
            title, given = params.reason or "Run a command", {}
        connects = network is not None and command is None
        self._ask(
            request,
            options,
            decide,
            DecisionRequested(
                key="",
                kind="permission",
                title=title,
                tool_call=params.item_id,
                name="networkAccess" if connects else "commandExecution",
                tool_kind="fetch" if connects else "execute",
                input=given,
                detail=_detail(request),
            ),
        )

    def _edit(self, request: JsonRpcRequest, params: wire.FileChangeRequestApprovalParams) -> None:
        """Ask about an edit.

        The request names only the item, which has reported the changes before.

        `grantRoot` asks for write access to a whole folder, which counts as a changed file for
        rules.
        """
        changes = self._speech(params.thread_id).changes.get(params.item_id, [])
        files = changed_files(changes)
        given: JsonObject = {"changes": to_builtins(changes)}
        if params.grant_root is not None:
            given["grantRoot"] = params.grant_root
            files.append(params.grant_root)
        self._ask(
            request,
            [ONCE, _for_session("edits of these files"), DECLINE],
            lambda answer: {"decision": _decision(answer)},
            DecisionRequested(
                key="",
                kind="permission",
                title=edit_title(changes),
                tool_call=params.item_id,
                name="fileChange",
                tool_kind="edit",
                input=given,
                changes=files,
                created=[
                    each.path for each in changes if isinstance(each.kind, wire.AddPatchChangeKind)
                ],
                detail=_detail(request),
            ),
        )

    def _permissions(
        self, request: JsonRpcRequest, params: wire.PermissionsRequestApprovalParams
    ) -> None:
        """Ask for permissions beyond the sandbox, until the end of the turn or of the session."""
        files = params.permissions.file_system
        wanted = _raw(request, "permissions")
        given = {name: value for name, value in wanted.items() if value is not None}

        def grant(answer: DecisionAnswer) -> JsonObject:
            """Grant the requested permissions as they came; a refusal grants an empty set."""
            if answer.option not in (ONCE.id, FOR_SESSION):
                return {"permissions": {}, "scope": "turn"}
            scope = "turn" if answer.option == ONCE.id else "session"
            return {"permissions": given, "scope": scope}

        self._ask(
            request,
            [
                PermissionOption(ONCE.id, "Allow for this turn", "allow_once"),
                _for_session("this access"),
                DECLINE,
            ],
            grant,
            DecisionRequested(
                key="",
                kind="permission",
                title=params.reason or "Leave the sandbox",
                tool_call=params.item_id,
                name="request_permissions",
                tool_kind="other",
                input={**given, "cwd": params.cwd},
                detail=_detail(request),
                changes=[] if files is None else files.write or [],
            ),
        )

    def _ask(
        self,
        request: JsonRpcRequest,
        options: list[PermissionOption],
        make: Make,
        asked: DecisionRequested,
    ) -> None:
        """Open a request with these options and report it as a question."""
        asked.options = options
        asked.raw = request.params
        asked.key = self._add(
            _OpenCodexRequest(
                request.id, request.method, frozenset(each.id for each in options), make
            )
        )
        self._channel.out.append(asked)

    # --- questions

    def _elicit(
        self,
        request: JsonRpcRequest,
        params: wire.FormMcpServerElicitationRequest | wire.UrlMcpServerElicitationRequest,
    ) -> None:
        """Ask a question of an MCP server, by a form or by a page on the web.

        Codex also asks about the tools of MCP servers by elicitations, with `codex_approval_kind`
        in their `_meta`; those are permission requests.
        """
        meta = params.meta if isinstance(params.meta, dict) else {}
        if meta.get("codex_approval_kind") == "mcp_tool_call":
            self._mcp_tool(request, params.server_name, params.message, meta)
            return

        def fill(answer: DecisionAnswer) -> JsonObject:
            """Return the answer as an elicitation result; only an accepted one has content."""
            action = answer.option or "cancel"
            return {"action": action, "content": answer.content if action == "accept" else None}

        form = isinstance(params, wire.FormMcpServerElicitationRequest)
        self._ask(
            request,
            FORM,
            fill,
            DecisionRequested(
                key="",
                kind="elicitation",
                title=params.message,
                name=params.server_name,
                detail=_detail(request, "message", "requestedSchema", "mode", "url"),
                form=params.requested_schema if form else None,  # type: ignore[union-attr]
                url=None if form else params.url,  # type: ignore[union-attr]
            ),
        )

    def _mcp_tool(self, request: JsonRpcRequest, server: str, title: str, meta: JsonObject) -> None:
        """Ask if the model may call the tool of an MCP server, for an elicitation of codex's
        own."""
        persist = meta.get("persist")
        lasting = persist if isinstance(persist, list) else [persist]
        options = [ONCE]
        if "session" in lasting:
            options.append(_for_session("this tool"))
        options.append(DECLINE)

        def decide(answer: DecisionAnswer) -> JsonObject:
            """Return the decision as an elicitation result; `persist` extends it to the session."""
            if answer.option not in (ONCE.id, FOR_SESSION):
                return {"action": "cancel" if answer.option is None else "decline"}
            more = {"_meta": {"persist": "session"}} if answer.option == FOR_SESSION else {}
            return {"action": "accept", "content": {}, **more}

        self._ask(
            request,
            options,
            decide,
            DecisionRequested(
                key="",
                kind="permission",
                title=title,
                name=f"mcp__{server}__{meta.get('tool_name')}",
                input=meta.get("tool_params"),
                detail={"tool": f"{meta.get('tool_name')} ({server})"}
                | {key: value for key, value in meta.items() if key not in _TOLD},
            ),
        )

    def _questions(self, request: JsonRpcRequest, params: wire.ToolRequestUserInputParams) -> None:
        """Ask the model's questions, as a form with one field each."""
        fields = {question.id: _field(question) for question in params.questions}

        def answers(answer: DecisionAnswer) -> JsonObject:
            """Return the answers by question, each as a list of texts; none if the form was
            declined.
            """
            given = answer.content if answer.option == "accept" else None
            values = {id: value for id, value in (given or {}).items() if id in fields}
            return {"answers": {id: {"answers": _texts(value)} for id, value in values.items()}}

        self._ask(
            request,
            FORM,
            answers,
            DecisionRequested(
                key="",
                kind="elicitation",
                title="; ".join(question.question for question in params.questions),
                tool_call=params.item_id,
                form={"type": "object", "properties": fields, "required": list(fields)},
            ),
        )

    # --- tools

    def _tool(self, request: JsonRpcRequest, params: wire.DynamicToolCallParams) -> None:
        """Have a tool of the program called."""
        key = self._add(_OpenCodexRequest(request.id, request.method))
        given = {"tool": params.tool, "arguments": params.arguments, "call": params.call_id}
        self._channel.out.append(ServiceRequested(key=key, method="tool", params=given))

    # --- answers

    def answer(self, key: str, answer: DecisionAnswer) -> None:
        """Answer a question. A key that is not open any more is ignored.

        Raises `LocalProtocolError` for an answer that the request does not allow.
        """
        request = self._open.get(key)
        if request is None:
            return
        if request.make is None:
            raise LocalProtocolError(f"{request.method} requires a reply, not a decision")
        if answer.option is not None and answer.option not in request.options:
            raise LocalProtocolError(f"the request has no option {answer.option!r}")
        self._close(key, result_line(request.id, request.make(answer)))

    def reply(self, key: str, result: Any) -> None:
        """Answer a service request. None stands for an empty result."""
        request = self._open.get(key)
        if request is not None:
            self._close(key, result_line(request.id, {} if result is None else result))

    def refuse(self, key: str, error: JsonRpcError) -> None:
        """Refuse a request. The failure of a tool is sent to the model as a result; codex would
        take an error for its own."""
        request = self._open.get(key)
        if request is None:
            return
        if request.method == "item/tool/call":
            failed = wire.DynamicToolCallResponse(
                content_items=[wire.InputTextDynamicToolCallOutputContentItem(text=error.message)],
                success=False,
            )
            self._close(key, result_line(request.id, failed))
        else:
            self._close(key, error_line(request.id, error))

    def resolved(self, id: Any) -> None:
        """Withdraw a request after codex has stopped waiting for its answer."""
        named = (type(id), id) if isinstance(id, int | float | str | None) else None
        key = self._keys.get(named) if named else None
        if key is not None:
            self._remove(key)
            self._channel.out.append(RequestWithdrawn(key))

    def _add(self, request: _OpenCodexRequest) -> str:
        """Keep a request until it is answered, and return its key.

        Ids are compared with their type, because 1 and "1" are different ids.
        """
        key = self._new_key()
        named = type(request.id), request.id
        if named in self._keys:  # codex reused an id: the first request must still be answered
            del self._keys[named]
        self._open[key] = request
        self._keys[named] = key
        return key

    def _close(self, key: str, line: bytes) -> None:
        """Write an answer and forget its request."""
        # The line is encoded already: a request whose answer cannot be encoded stays open.
        self._remove(key)
        self._channel.write(line)

    def _remove(self, key: str) -> None:
        """Forget a request, and its id unless a newer request has it."""
        request = self._open.pop(key)
        named = type(request.id), request.id
        if self._keys.get(named) == key:
            del self._keys[named]

    def _refuse(self, id: Id, code: int, message: str) -> None:
        """Answer a request with an error that was never open."""
        self._channel.write(error_line(id, JsonRpcError(code, message)))

    _TAKE: Final[Mapping[str, tuple[type[Struct], Callable[..., None]]]] = {
        "item/commandExecution/requestApproval": (
            wire.CommandExecutionRequestApprovalParams,
            _command,
        ),
        "item/fileChange/requestApproval": (
            wire.FileChangeRequestApprovalParams,
            _edit,
        ),
        "item/permissions/requestApproval": (
            wire.PermissionsRequestApprovalParams,
            _permissions,
        ),
        "item/tool/requestUserInput": (wire.ToolRequestUserInputParams, _questions),
        "item/tool/call": (wire.DynamicToolCallParams, _tool),
    }
    """The parameters and the method for each request, shared by all sessions."""


_NOT_FOR_PEOPLE: Final = frozenset(
    {"threadId", "turnId", "itemId", "approvalId", "elicitationId", "startedAtMs", "kind"}
    | {"availableDecisions"}
)
_TOLD: Final = frozenset({"codex_approval_kind", "persist", "tool_name", "tool_params"})


def _thread_of(request: JsonRpcRequest) -> str | None:
    """Return the thread that a request is about, or None if it names none."""
    match request.params:
        case {"threadId": str(thread)}:
            return thread
        case _:
            return None


def _detail(request: JsonRpcRequest, *shown: str) -> JsonObject | None:
    """Return the fields of a request that are for people, without the fields `shown`.

    The fields may repeat the subject of the request, because the call may have been shown with
    different ones.
    """
    params = request.params if isinstance(request.params, dict) else {}
    hidden = {*_NOT_FOR_PEOPLE, *shown}
    return {k: v for k, v in params.items() if k not in hidden and v is not None} or None


def _decision(answer: DecisionAnswer) -> str:
    """Return codex's decision. Without an answer, or with one that ends the turn, codex must
    stop."""
    if answer.option is None or (answer.option == DECLINE.id and answer.interrupt):
        return "cancel"
    return answer.option


def _name(decision: Any) -> str:
    """Return the name of a decision, which may be an object with the name as its key."""
    return next(iter(decision), "") if isinstance(decision, dict) else str(decision)


def _amended(decision: Any) -> str | None:
    """Return the prefix of the commands that a decision would allow permanently, or None."""
    match decision:
        case {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": [*words]}} if words:
            return " ".join(map(str, words))
        case _:
            return None


def _raw(request: JsonRpcRequest, name: str) -> JsonObject:
    """Return an object among the parameters as it came, including fields unknown here."""
    params = request.params if isinstance(request.params, dict) else {}
    value = params.get(name)
    return value if isinstance(value, dict) else {}


def _field(question: wire.ToolRequestUserInputQuestion) -> JsonObject:
    """Return a field of a form for a question, with the labels of its options as choices."""
    named: JsonObject = {
        "title": question.header,
        "description": question.question,
        "type": "string",
    }
    if not question.options:
        return named
    choices = [
        {"const": each.label, "title": each.label, "description": each.description}
        for each in question.options
    ]
    if question.is_other:  # other answers are allowed, too
        return {**named, "examples": [each["const"] for each in choices]}
    return {**named, "oneOf": choices}


def _texts(value: Any) -> list[str]:
    """Return the values of a field as texts."""
    return [str(each) for each in value] if isinstance(value, list) else [str(value)]
