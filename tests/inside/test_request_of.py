"""The request that a policy sees.

A driver reports each field; no agent fills all of them in one request.
"""

from __future__ import annotations

from agentrt._core.permissions.policies import request_of
from agentrt.effects import DecisionRequested
from agentrt.events import PermissionOption
from agentrt.permissions import (
    PermissionRequest,
)

CWD = "/shop/project"


def test_a_request_is_made_of_what_the_driver_reported() -> None:
    option = PermissionOption("1", "Yes", "allow_once")
    asked = DecisionRequested(
        key="k",
        kind="permission",
        title="Edit a.py",
        options=[option],
        tool_call="t1",
        name="Edit",
        tool_kind="edit",
        input={"file_path": "a.py"},
        raw={"all": "of it"},
    )
    assert request_of(asked, cwd=CWD) == PermissionRequest(
        id="k",
        title="Edit a.py",
        tool="Edit",
        kind="edit",
        input={"file_path": "a.py"},
        options=(option,),
        cwd=CWD,
        tool_call="t1",
        raw={"all": "of it"},
    )
