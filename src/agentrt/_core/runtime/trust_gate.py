"""The decision before each start of an agent: may it act on the files of its project?

Files that the user has not decided about become a permission request of the session, which shows
them. The decision applies to exactly these contents: changed files are asked about again.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import trio
from msgspec import Struct

from ..errors import FilesError
from ..model.content import JsonObject
from ..model.driver import DecisionAnswer, DecisionRequested
from ..model.events import NO_ORIGIN, AnswerOrigin, Notice, PermissionOption
from .project_start import HOW_TO_TRUST, MAX_SHOWN_FILES, ClosedGate

if TYPE_CHECKING:
    from ..agents.project_scan import ProjectScan
    from ..session.host import SessionHost
    from .project_start import ProjectStart

TRUST: Final = "Trust"
"""The name of these requests, and of rules about them."""

ALWAYS: Final = "trust"
SESSION: Final = "session"
REJECT: Final = "reject"
NEVER: Final = "never"

OPTIONS: Final = (
    PermissionOption(ALWAYS, "Trust these files", "allow_always"),
    PermissionOption(SESSION, "Trust them for this session", "allow_once"),
    PermissionOption(REJECT, "Ignore them", "reject_once"),
    PermissionOption(NEVER, "Ignore them, and do not ask again", "reject_always"),
)
"""The answers to a question about a project's files."""

STRICT_OPTIONS: Final = (
    *OPTIONS[:2],
    PermissionOption(REJECT, "Do not start the agent", "reject_once"),
    PermissionOption(NEVER, "Do not start the agent, and do not ask again", "reject_always"),
)
"""The answers if the agent cannot be kept from the files."""


class TrustRequest(Struct, frozen=True):
    """The `raw` of a request about a project's files. No agent can make one."""

    folders: tuple[str, ...]
    digest: str


class _Question:
    """An open question about files."""

    def __init__(self, key: str, digest: str, scans: Sequence[ProjectScan]) -> None:
        """`key`: of the permission request in the log.

        `digest` and `scans`: the files that it shows.
        """
        self.key = key
        self.digest = digest
        self.scans = scans
        self.option: str | None = None
        self.by = ""
        self.origin = NO_ORIGIN
        self.answered = trio.Event()

    def answer(self, answer: DecisionAnswer, by: str, origin: AnswerOrigin) -> None:
        """Take the answer to the permission request."""
        self.option = answer.option
        self.by, self.origin = by, origin
        self.answered.set()


class TrustGate(ClosedGate):
    """Decides for one session, before each start of its agent, if the folders may be trusted."""

    def __init__(
        self,
        project: ProjectStart,
        env: Mapping[str, str],
        *,
        tools: bool,
        hides: bool,
        tenant: str,
    ) -> None:
        """`env`: the agent's environment. `tools`: the program provides tools to the agent.
        `hides`: there is a sandbox, which can hide files. `tenant`: the owner of the session.
        """
        super().__init__(project, env, tools=tools, hides=hides)
        self._agent = project.agent
        self._tenant = tenant
        self._question: _Question | None = None
        self._answers: dict[str, bool] = {}
        """The decisions of this session, by digest."""
        self._accepted: str | None = None
        """The digest of the files that the running process may act on."""
        self._trusted_texts: dict[str, str] | None = None
        """The contents of the files that were trusted last, to show differences."""

    @property
    def watches(self) -> bool:
        """True if the files are checked after each turn."""
        return self._accepted is not None and bool(self._project.rules.files)

    async def prepare(self, host: SessionHost) -> bool:
        """Look at the files, and ask about them if necessary. Returns True if it is decided."""
        await self._decide(host)
        question = self._question
        if question is None:
            return True
        if host.core.conversation.items.open_request(question.key) is not None:
            return False
        await question.answered.wait()  # a policy has answered; a store saves that first
        return True

    async def admit(self, host: SessionHost) -> None:
        """Decide about the next process. Waits for an answer if a person is asked."""
        while True:
            if self._question is None:
                await self._decide(host)
            question = self._question
            if question is None:
                break
            await question.answered.wait()
            await self._take(host, question)
            self._question = None  # look again: the files may have changed in the meantime
        await super().admit(host)

    async def after_turn(self, host: SessionHost) -> None:
        """Report files that have changed since the agent was started."""
        digest, scans = await self._scan()
        if digest in (self._accepted, self._reported):
            return
        self._reported = digest
        changed = self._changed(scans)
        listed = self._project.listed
        message = f"project files that {self._agent.name} acts on have changed: {_listed(changed)}"
        if not listed:
            message += "; they must be trusted again when the agent is next started"
        data = {"folder": self._project.folders[0], "files": changed, "trusted": listed}
        host.core.add_notice(Notice("warning", "project_files_changed", message, data))

    # --- the decision

    async def _scan(self) -> tuple[str, tuple[ProjectScan, ...]]:
        """Return a digest of all files of all folders, empty if there are none, and the files."""
        scans = await self._project.scan(self._env)
        digests = [scan.digest for scan in scans]
        if not any(digests):
            return "", scans
        return hashlib.sha256("\n".join(digests).encode()).hexdigest(), scans

    async def _decide(self, host: SessionHost) -> None:
        """Decide about the files as they are now, or ask."""
        project = self._project
        self._accepted = None
        digest, scans = await self._scan()
        if project.listed:
            trusted: bool | None = True
        elif project.mode == "yes":
            trusted = self._answers.setdefault(digest, not self._answers)
            if not trusted:
                self._report_untrusted(host, scans)
        elif not digest or not project.opens:
            trusted = False  # there is nothing that the agent could act on
        else:
            trusted = self._answers.get(digest)
            if trusted is None:
                trusted = await self._stored(host, digest, scans)
        if trusted is None and (problem := next((s.problem for s in scans if s.problem), "")):
            message = (
                f"{self._agent.name} ignores the project's files, which cannot be shown for a"
                f" decision: {problem} ({HOW_TO_TRUST})"
            )
            data = {"folder": project.folders[0], "problem": problem}
            host.core.add_notice(Notice("warning", "trust_not_asked", message, data))
            self._answers[digest] = trusted = False
        if trusted is None:
            ignores = await project.ignores_files(self._env, hides=self._hides)
            self._ask(host, digest, scans, ignores=ignores)
            return
        project.trusted = trusted
        if trusted:
            self._accepted = digest
            self._trusted_texts = _texts(scans)

    def _report_untrusted(self, host: SessionHost, scans: Sequence[ProjectScan]) -> None:
        """Report that trusted files have changed, and are ignored from now on.

        In the mode `yes` the files at the first start are trusted without a question. Later
        contents are not.
        """
        changed = self._changed(scans)
        message = (
            f"{self._agent.name} ignores the project's files from now on, because they have changed"
            f" since the session was opened: {_listed(changed)}; open the session again to trust"
            " them"
        )
        data = {"folder": self._project.folders[0], "files": changed, "trusted": False}
        host.core.add_notice(Notice("warning", "project_files_changed", message, data))

    def _changed(self, scans: Sequence[ProjectScan]) -> list[str]:
        """Return the files that differ from the trusted ones, or why they cannot be read."""
        from ..agents.project_scan import changed_files

        problems = [scan.problem for scan in scans if scan.problem]
        return problems or changed_files(self._trusted_texts or {}, _texts(scans))

    async def _stored(
        self, host: SessionHost, digest: str, scans: Sequence[ProjectScan]
    ) -> bool | None:
        """Return the stored decision about the files; None if there is none."""
        from ..agents.trust_records import TrustRecords  # most sessions trust no folder

        records_file, name, tenant = TrustRecords(), self._agent.name, self._tenant
        try:
            found = await trio.to_thread.run_sync(
                lambda: [records_file.find(scan.folder, name, tenant) for scan in scans]
            )
        except FilesError as error:
            host.core.add_notice(Notice("warning", "trust_not_stored", str(error)))
            return None
        records = {each.folder: each for each in found if each is not None}
        if self._trusted_texts is None and any(each.trusted for each in records.values()):
            self._trusted_texts = {
                _named(each.folder, path, scans): text
                for each in records.values()
                if each.trusted
                for path, text in each.files.items()
            }
        with_files = [scan for scan in scans if scan.digest]
        same = [records.get(scan.folder) for scan in with_files]
        if all(
            each is not None and each.digest == scan.digest
            for scan, each in zip(with_files, same, strict=True)
        ):
            return all(each is not None and each.trusted for each in same)
        return None

    # --- the question

    def _ask(
        self, host: SessionHost, digest: str, scans: Sequence[ProjectScan], *, ignores: bool
    ) -> None:
        """Ask about the files. `ignores`: the agent can be started without acting on them."""
        from ..agents.project_scan import changed_files

        core, turn = host.core, host.core.turn
        key = core.conversation.new_id("n")
        self._question = question = _Question(key, digest, scans)
        old, new = self._trusted_texts or {}, _texts(scans)
        changed = changed_files(old, new)
        folder = self._project.folders[0]
        effects = {
            _named(scan.folder, file.path, scans): file.effect
            for scan in scans
            for file in scan.files
        }
        files = [
            {"path": path, "effect": effects.get(path, "was removed"), "text": new.get(path)}
            for path in dict.fromkeys((*changed, *new))
        ]
        again = "changed " if old else ""
        core.questions.ask_own(
            DecisionRequested(
                key=key,
                kind="permission",
                title=f"Let {self._agent.name} act on {again}files of {folder}",
                options=list(OPTIONS if ignores else STRICT_OPTIONS),
                name=TRUST,
                input={"folder": folder, "agent": self._agent.name, "files": files},
                detail=_detail(self._agent.name, folder, effects, old, new, ignores=ignores),
                raw=TrustRequest(self._project.folders, digest),
                background=turn is None or turn.cancelling,
                subject=TRUST,
            ),
            question.answer,
        )

    async def _take(self, host: SessionHost, question: _Question) -> None:
        """Remember an answer, and store it if it is meant to last."""
        from ..agents.trust_records import TrustRecord, TrustRecords

        trusted = question.option in (ALWAYS, SESSION)
        self._answers[question.digest] = trusted
        if question.option not in (ALWAYS, NEVER):
            return
        records = [
            TrustRecord(
                folder=scan.folder,
                agent=self._agent.name,
                trusted=trusted,
                digest=scan.digest,
                time=time.time(),
                tenant=self._tenant,
                session=host.log.session,
                by=question.by,
                who=question.origin.who,
                via=question.origin.via,
                files=scan.texts,
            )
            for scan in question.scans
            if scan.digest
        ]
        try:
            await trio.to_thread.run_sync(lambda: TrustRecords().put(*records))
        except FilesError as error:
            host.core.add_notice(Notice("warning", "trust_not_stored", str(error)))


def _named(folder: str, path: str, scans: Sequence[ProjectScan]) -> str:
    """Return the name of a file: relative to the session's folder, absolute in another one."""
    return path if folder == scans[0].folder else f"{folder}/{path}"


def _texts(scans: Sequence[ProjectScan]) -> dict[str, str]:
    """Return the contents of all files, by the names that people see."""
    return {
        _named(scan.folder, path, scans): text
        for scan in scans
        for path, text in scan.texts.items()
    }


def _listed(names: Sequence[str]) -> str:
    """Return the first names for a sentence, and the number of the others."""
    more = len(names) - MAX_SHOWN_FILES
    return ", ".join(names[:MAX_SHOWN_FILES]) + (f" and {more} more" if more > 0 else "")


def _detail(
    agent: str,
    folder: str,
    effects: dict[str, str],
    old: dict[str, str],
    new: dict[str, str],
    *,
    ignores: bool,
) -> list[JsonObject]:
    """Return the question for people: the effects, then each file, and the changes to it."""
    lines = [f"{agent} acts on these files of {folder} without asking:"]
    lines += [f"- {path}: {effect}" for path, effect in effects.items()]
    otherwise = "it is started so that it ignores them" if ignores else "it is not started"
    lines.append(f"If you do not trust them, {otherwise}.")
    parts: list[JsonObject] = [{"type": "text", "text": "\n".join(lines)}]
    for path in sorted(old.keys() | new.keys()):
        part: JsonObject = {"type": "diff", "path": path, "newText": new.get(path, "")}
        if path in old:
            part["oldText"] = old[path]
        parts.append(part)
    return parts
