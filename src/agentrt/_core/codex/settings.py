"""Mode, model and effort of a thread, and the requests that change them.

Codex's sandbox and approval policy are combined to one mode here: the actions that it takes without
asking.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from ..model.content import JsonObject
from ..model.driver import UnsupportedSetting, pick_choice
from ..model.events import Choice, Modes, Option
from .messages import (
    DangerFullAccessSandboxPolicy,
    Model,
    ReadOnlySandboxPolicy,
    SandboxPolicy,
    ThreadSettingsUpdateParams,
    WorkspaceWriteSandboxPolicy,
)

REVIEWER: Final = "user"
"""The reviewer of codex's approval requests: never a model."""


class CodexMode(NamedTuple):
    """A sandbox and an approval policy, as one choice."""

    name: str
    description: str
    approval: str
    sandbox: str


MODES: Final = {
    "untrusted": CodexMode("Ask", "Asks before each command and edit", "untrusted", "read-only"),
    "read-only": CodexMode(
        "Read only",
        "Reads by itself, in a sandbox; asks before it changes anything",
        "on-request",
        "read-only",
    ),
    "workspace-write": CodexMode(
        "Workspace",
        "Edits and runs commands in its folders by itself, in a sandbox; asks to leave it",
        "on-request",
        "workspace-write",
    ),
    "danger-full-access": CodexMode(
        "Full access", "Never asks, and has no sandbox", "never", "danger-full-access"
    ),
}
_SANDBOXES: Final[dict[type, str]] = {
    ReadOnlySandboxPolicy: "read-only",
    WorkspaceWriteSandboxPolicy: "workspace-write",
    DangerFullAccessSandboxPolicy: "danger-full-access",
}
EFFORT: Final = "effort"


class CodexSettings:
    """The settings of one thread, as last reported."""

    def __init__(self) -> None:
        """Begin without settings; opening the thread reports them."""
        self.models: list[Model] = []
        self.mode: str | None = None
        self.model: str | None = None
        self.effort: str | None = None

    def reported(
        self, approval: object, sandbox: SandboxPolicy, model: str, effort: str | None
    ) -> None:
        """Take the settings that codex has reported."""
        self.mode, self.model, self.effort = _mode_with(approval, sandbox), model, effort

    def taken(self, asked: ThreadSettingsUpdateParams) -> None:
        """Apply a change that codex has accepted; its report about it comes later."""
        if asked.sandbox_policy is not None:
            self.mode = _mode_with(asked.approval_policy, asked.sandbox_policy)
        if asked.model is not None:
            self.model = asked.model
        if asked.effort is not None:
            self.effort = asked.effort

    def view(self) -> Modes:
        """Return all settings in neutral form."""
        models = [Choice(m.model, m.display_name, m.description) for m in self.models]
        if self.model is not None and all(choice.id != self.model for choice in models):
            models.insert(0, Choice(self.model, self.model))
        return Modes(
            mode=self.mode,
            modes=[Choice(id, mode.name, mode.description) for id, mode in MODES.items()],
            model=self.model,
            models=models,
            options=self._options(),
        )

    def _options(self) -> list[Option]:
        """Return the effort as an option, if the model has a choice of efforts."""
        choices = self._efforts()
        if not choices:
            return []
        value = self.effort or choices[0].id
        return [
            Option(id=EFFORT, name="Effort", category="thought_level", value=value, choices=choices)
        ]

    def _efforts(self) -> list[Choice]:
        """Return the efforts of the current model. The present one is listed in any case."""
        model = next((m for m in self.models if m.model == self.model), None)
        efforts = [] if model is None else model.supported_reasoning_efforts
        choices = [
            Choice(each.reasoning_effort, each.reasoning_effort, each.description)
            for each in efforts
        ]
        if self.effort is not None and all(choice.id != self.effort for choice in choices):
            choices.insert(0, Choice(self.effort, self.effort))
        return choices

    def first_effort(self, wanted: object, model: str | None) -> str:
        """Return the effort with which a thread begins.

        It must be one of its model's, or any model's if codex chooses the model. Raises
        `UnsupportedSetting`.
        """
        if not isinstance(wanted, str):
            raise UnsupportedSetting(f"the {EFFORT} is one of its choices, not {wanted!r}")
        known = [m for m in self.models if model in (None, m.model, m.display_name)]
        choices = {
            each.reasoning_effort: Choice(each.reasoning_effort, each.reasoning_effort)
            for m in known
            for each in m.supported_reasoning_efforts
        }
        return (
            pick_choice(f"value of {EFFORT!r}", wanted, [*choices.values()], owner="codex")
            if choices
            else wanted
        )

    # --- changes; each raises `UnsupportedSetting` if there is no such choice

    def change_mode(self, thread: str, wanted: str, roots: list[str]) -> ThreadSettingsUpdateParams:
        """Return the request that changes the mode."""
        mode = mode_of(wanted)
        return ThreadSettingsUpdateParams(
            thread_id=thread,
            approval_policy=mode.approval,
            approvals_reviewer=REVIEWER,
            sandbox_policy=_policy(mode, roots),
        )

    def change_model(self, thread: str, model: str) -> ThreadSettingsUpdateParams:
        """Return the request that changes the model."""
        picked = pick_choice("model", model, self.view().models, owner="codex")
        return ThreadSettingsUpdateParams(thread_id=thread, model=picked)

    def change_option(
        self, thread: str, option: str, value: str | bool
    ) -> ThreadSettingsUpdateParams:
        """Return the request that changes an option."""
        if option != EFFORT:
            raise UnsupportedSetting(f"codex has no option {option!r}; it has: {EFFORT}")
        if not isinstance(value, str):
            raise UnsupportedSetting(f"the {EFFORT} is one of its choices, not {value!r}")
        choices = self._efforts()
        effort = (
            pick_choice(f"value of {EFFORT!r}", value, choices, owner="codex") if choices else value
        )
        return ThreadSettingsUpdateParams(thread_id=thread, effort=effort)


def _mode_with(approval: object, sandbox: SandboxPolicy) -> str | None:
    """Return the mode with this approval policy and sandbox, or None if no mode has both."""
    box = _SANDBOXES.get(type(sandbox))
    known = (id for id, mode in MODES.items() if (mode.approval, mode.sandbox) == (approval, box))
    return next(known, None)


def mode_of(wanted: str) -> CodexMode:
    """Return a mode given by id or name. Raises `UnsupportedSetting`."""
    choices = [Choice(id, mode.name) for id, mode in MODES.items()]
    return MODES[pick_choice("mode", wanted, choices, owner="codex")]


def _policy(mode: CodexMode, roots: list[str]) -> SandboxPolicy:
    """Return the sandbox of a mode, with the session's folders as writable ones."""
    match mode.sandbox:
        case "workspace-write":
            return WorkspaceWriteSandboxPolicy(writable_roots=roots)
        case "danger-full-access":
            return DangerFullAccessSandboxPolicy()
        case _:
            return ReadOnlySandboxPolicy()


class CodexSettingsUpdate(Struct, frozen=True, kw_only=True):
    """The settings that a `thread/settings/update` of codex changes."""

    mode: str | None = None
    """The new mode; None: unchanged."""
    model: str | None = None
    """The new model; None: unchanged."""
    effort: str | None = None
    """The new effort; None: unchanged."""


def read_settings_update(params: JsonObject) -> CodexSettingsUpdate:
    """Read the parameters of a `thread/settings/update`. Raises `msgspec.ValidationError`."""
    asked = msgspec.convert(params, ThreadSettingsUpdateParams)
    mode = None
    if asked.sandbox_policy is not None:
        mode = _mode_with(asked.approval_policy, asked.sandbox_policy)
    return CodexSettingsUpdate(mode=mode, model=asked.model, effort=asked.effort)
