"""What a decision becomes for the agent: the option that carries it out, and what may be said."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from .._errors import LocalProtocolError
from .._model.driver import Answer
from .._model.events import Notice, PermissionOpened, PermissionOption
from .policies import Allow, Decision, Deny, choose_option

OPEN: Final = 1024
"""Questions that may be open at a time. Nobody answers more; to close them all at the end of their
turn takes a hundredth of a second."""


def answer_for(
    request: PermissionOpened, decision: Decision, *, protocol: str
) -> tuple[Answer, bool, Notice | None]:
    """How a policy's decision is said, whether it allows, and what viewers should know."""
    notice = None
    if isinstance(decision, Allow):
        if request.form is not None or request.url is not None:
            decision = Deny()  # no policy can fill a form or visit a page
        elif decision.updated_input is not None:
            reason = _unsayable(decision.updated_input, protocol)
            if reason is not None:
                decision = Deny(reason)
                notice = Notice("warning", "input_not_changed", f"rejected: {reason}")
    option = choose_option(request.options, decision)
    id = option.id if option is not None else None
    allowed = option is not None and option.kind.startswith("allow")
    match decision:
        case Allow(updated_input=updated_input) if allowed:
            answer = Answer(option=id, updated_input=updated_input)
        case Deny(message=message, interrupt=interrupt):
            answer = Answer(option=id, message=message, interrupt=interrupt)
        case _:
            answer = Answer(option=id)
    return answer, allowed, notice


def rejection(request: PermissionOpened) -> Answer:
    """No, by the option that says so, if there is one."""
    option = choose_option(request.options, Deny())
    return Answer(option=option.id if option is not None else None)


def decided_words(request: PermissionOpened, answer: Answer, *, denied: bool) -> str:
    """What is said to an agent of a question whose answer found it gone."""
    if answer.content is not None:
        content = msgspec.json.encode(answer.content).decode()
        decided = f"The user has now answered: {content}"
    elif denied:
        decided = "The user has now rejected it."
    else:
        decided = "The user has now allowed it, once."
    words = [
        "The program that ran you ended while you waited for an answer. You had asked:",
        f"{request.title!r}.",
        decided,
        f"The user says: {answer.message}" if answer.message else "",
        "What you asked about was not carried out. Go on where you were, and ask again for what"
        " needs to be allowed.",
    ]
    return " ".join(filter(None, words))


def chosen_option(request: PermissionOpened, option: str) -> PermissionOption:
    """The option of that id, or else one of that kind without a further effect.

    Raises `LocalProtocolError` if there is none."""
    for each in request.options:
        if each.id == option:
            return each
    for each in request.options:
        if each.kind == option and not each.effect:
            return each
    known = ", ".join(f"{o.id} ({o.kind})" for o in request.options) or "none"
    raise LocalProtocolError(f"request {request.request} has no option {option!r}; it has: {known}")


def check_json(value: Any, what: str) -> None:
    """Raises `LocalProtocolError` for what cannot be sent as JSON."""
    if (problem := json_problem(value)) is not None:
        raise LocalProtocolError(f"{what} cannot be sent as JSON: {problem}")


def json_problem(value: Any) -> str | None:
    """Why a value is no JSON, in words; None if it is."""
    try:
        msgspec.json.encode(value)
    except RecursionError:
        return "it is nested too deeply, or contains itself"
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        return str(error)
    return None


def _unsayable(updated_input: Any, protocol: str) -> str | None:
    if protocol != "claude":  # it would run what it asked for, not what was allowed
        return "its protocol cannot change what a tool is called with"
    problem = json_problem(updated_input)
    return (
        None if problem is None else f"the permission policy's updated_input is no JSON: {problem}"
    )
