"""Claude's requests to a person: tool permissions, questions, and forms of MCP servers.

Each is shown as an `DecisionRequested`; the answer is translated into the response that the CLI
expects. Nothing is allowed by default: an answer that is not understood is a refusal.
"""

from __future__ import annotations

from typing import Any

from ..model.content import JsonObject
from ..model.driver import DecisionAnswer, DecisionRequested
from ..model.events import PermissionOption
from .messages import objects
from .suggestions import ACCEPT_EDITS, ACCEPT_EDITS_NAME, ALLOW_ALWAYS, describes_all, suggested
from .toolkit import kind_of, title_of

ALLOW_ONCE, REJECT = "allow_once", "reject_once"
_OWN_OPTIONS = frozenset({"ExitPlanMode", "AskUserQuestion"})
"""Tools whose requests are answered without the CLI's suggestions."""
CALL = frozenset(
    {"subtype", "tool_name", "tool_use_id", "input", "title", "suppress_always_allow_rule"}
)
"""Fields of a request that are shown as the call itself, or are not for people. All others are its
detail: the CLI's information about the request. They may contain terminal escapes."""


def ask_permission(key: str, request: JsonObject, *, background: bool) -> DecisionRequested:
    """Show a `can_use_tool` request.

    `background`: a background agent asks; its call may not be shown yet.
    """
    name = _str(request.get("tool_name"))
    arguments = request.get("input")
    call = request.get("tool_use_id")
    detail = {key: value for key, value in request.items() if key not in CALL}
    if detail.get("display_name") == name:
        del detail["display_name"]
    if name not in _OWN_OPTIONS and describes_all(request):
        detail.pop("permission_suggestions", None)  # the options describe each
    if background:  # its call may not be visible
        detail |= {"tool": name, "input": arguments}
    asked = DecisionRequested(
        key=key,
        kind="permission",
        title=_str(request.get("title")) or title_of(name, arguments),
        options=_options(name, request),
        tool_call=call if isinstance(call, str) else None,
        name=name,
        tool_kind=kind_of(name),
        input=arguments,
        detail=detail or None,
        raw=request,
        background=background,
    )
    if name == "AskUserQuestion":
        asked.kind = "elicitation"
        asked.options = []
        asked.form = _questionnaire(arguments)
    return asked


def _options(name: str, request: JsonObject) -> list[PermissionOption]:
    """Return the options of a request: allow, the CLI's suggestions, reject.

    Leaving plan mode is a question with its own answers.
    """
    if name == "ExitPlanMode":
        accept = f"Yes, and {ACCEPT_EDITS_NAME}"
        return [
            PermissionOption(ALLOW_ALWAYS, accept, "allow_always", "mode"),
            PermissionOption(ALLOW_ONCE, "Yes, and ask before each edit", "allow_once"),
            PermissionOption(REJECT, "No, keep planning", "reject_once"),
        ]
    options = [PermissionOption(ALLOW_ONCE, "Allow", "allow_once")]
    for option, _ in suggested(request):
        options.append(option)
    options.append(PermissionOption(REJECT, "Reject", "reject_once"))
    return options


def permission_response(request: JsonObject, answer: DecisionAnswer) -> JsonObject:
    """Return the response to `can_use_tool`."""
    arguments = request.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    name = request.get("tool_name")
    if name == "AskUserQuestion":
        if answer.option != "accept" or answer.content is None:
            return _deny(answer, "The user did not answer the questions.")
        answers = {question: _joined(value) for question, value in answer.content.items()}
        return {"behavior": "allow", "updatedInput": {**arguments, "answers": answers}}
    updates: dict[str, list[JsonObject]] = {}
    if name == "ExitPlanMode":
        updates = {ALLOW_ALWAYS: [ACCEPT_EDITS]}
    elif answer.option != ALLOW_ONCE:
        updates = {option.id: updates for option, updates in suggested(request)}
    if answer.option != ALLOW_ONCE and answer.option not in updates:
        return _deny(answer, "The user does not want to proceed with this tool use.")
    new = answer.updated_input
    allowed: JsonObject = {"behavior": "allow", "updatedInput": arguments if new is None else new}
    if answer.option in updates:
        allowed["updatedPermissions"] = updates[answer.option]
    return allowed


def allows(response: JsonObject) -> bool:
    """Return True if a response to `can_use_tool` allows the call."""
    return response.get("behavior") == "allow"


def _deny(answer: DecisionAnswer, reason: str) -> JsonObject:
    """Return a denial. Without a message, the CLI would treat it as a broken answer."""
    denied: JsonObject = {"behavior": "deny", "message": answer.message or reason}
    if answer.interrupt:
        denied["interrupt"] = True
    return denied


def _questionnaire(arguments: Any) -> JsonObject:
    """Return the form of `AskUserQuestion`: one field per question.

    Each field is named by the question's text, because the CLI expects answers by that name.
    """
    questions = arguments.get("questions") if isinstance(arguments, dict) else None
    fields = {_str(q.get("question")): _question(q) for q in objects(questions)}
    return {"type": "object", "properties": fields, "required": list(fields)}


def _question(question: JsonObject) -> JsonObject:
    """Return the form field of a question, with its options as choices."""
    choices: list[JsonObject] = []
    for option in objects(question.get("options")):
        label = _str(option.get("label"))
        choice = {"const": label, "title": label}
        if option.get("description"):
            choice["description"] = _str(option["description"])
        choices.append(choice)
    named = {"title": _str(question.get("header")), "description": _str(question.get("question"))}
    if question.get("multiSelect"):
        return {**named, "type": "array", "items": {"type": "string", "anyOf": choices}}
    return {**named, "type": "string", "oneOf": choices}


def _joined(value: Any) -> str:
    """Return an answer as the CLI expects it: several choices in one text."""
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def ask_elicitation(key: str, request: JsonObject) -> DecisionRequested:
    """Show an `elicitation`: an MCP server wants a form filled in or a page visited."""
    schema, url = request.get("requested_schema"), request.get("url")
    return DecisionRequested(
        key=key,
        kind="elicitation",
        title=_str(request.get("title")) or _str(request.get("message")),
        name=_str(request.get("mcp_server_name")) or None,
        detail={
            key: value
            for key, value in request.items()
            if key not in ("subtype", "title", "requested_schema", "url", "mode") and value
        },
        form=schema if isinstance(schema, dict) else None,
        url=url if isinstance(url, str) else None,
        raw=request,
    )


def elicitation_response(answer: DecisionAnswer) -> JsonObject:
    """Return the response to `elicitation`."""
    if answer.option == "accept":
        return {"action": "accept", "content": answer.content or {}}
    return {"action": "cancel" if answer.option is None else "decline"}


def _str(value: Any) -> str:
    """Return a text; an empty one for other values."""
    return value if isinstance(value, str) else ""
