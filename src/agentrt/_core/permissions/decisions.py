"""The translation of a decision for the agent: the option that carries it out, and its limits."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from ..errors import LocalProtocolError
from ..model.driver import DecisionAnswer
from ..model.events import Notice, PermissionOpened, PermissionOption
from .policies import Allow, Decision, Deny, choose_option

MAX_OPEN_QUESTIONS: Final = 1024
"""Maximum number of open questions. No person answers more; closing them all at the end of their
turn takes a hundredth of a second."""


def answer_for(
    request: PermissionOpened, decision: Decision, *, protocol: str
) -> tuple[DecisionAnswer, bool, Notice | None]:
    """Return the answer for a policy's decision, True if it allows, and a notice for viewers."""
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
            answer = DecisionAnswer(option=id, updated_input=updated_input)
        case Deny(message=message, interrupt=interrupt):
            answer = DecisionAnswer(option=id, message=message, interrupt=interrupt)
        case _:
            answer = DecisionAnswer(option=id)
    return answer, allowed, notice


def rejection(request: PermissionOpened) -> DecisionAnswer:
    """Return the answer that rejects, with an option for it if there is one."""
    option = choose_option(request.options, Deny())
    return DecisionAnswer(option=option.id if option is not None else None)


def decided_words(request: PermissionOpened, answer: DecisionAnswer, *, denied: bool) -> str:
    """Return the text for an agent that no longer waits for the question's answer."""
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
    """Return the option with this id, or else one of this kind without a further effect.

    Raises `LocalProtocolError` if there is none.
    """
    for each in request.options:
        if each.id == option:
            return each
    for each in request.options:
        if each.kind == option and not each.effect:
            return each
    known = ", ".join(f"{o.id} ({o.kind})" for o in request.options) or "none"
    raise LocalProtocolError(f"request {request.request} has no option {option!r}; it has: {known}")


def check_json(value: Any, what: str) -> None:
    """Raise `LocalProtocolError` if the value cannot be sent as JSON."""
    if (problem := json_problem(value)) is not None:
        raise LocalProtocolError(f"{what} cannot be sent as JSON: {problem}")


def json_problem(value: Any) -> str | None:
    """Return the reason why a value cannot be sent as JSON; None if it can."""
    try:
        msgspec.json.encode(value)
    except RecursionError:
        return "it is nested too deeply, or contains itself"
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        return str(error)
    return None


def _unsayable(updated_input: Any, protocol: str) -> str | None:
    if protocol != "claude":  # others would run the original input, not the allowed one
        return "its protocol cannot change what a tool is called with"
    problem = json_problem(updated_input)
    return (
        None if problem is None else f"the permission policy's updated_input is no JSON: {problem}"
    )
