"""Which turn runs, and when it is over.

A prompt carries a uuid of ours, and the `result` that lists it ends its turn. Around that:

- The end is reported when Claude is at rest, by `session_state_changed: idle`, a few milliseconds
  after the result. It does not wait for that where waiting would be wrong or for ever:
  background agents keep the state `running` for minutes, and the next turn may begin without
  `idle` between the two (queued prompts, and what Claude does after a background agent has
  ended). So a result ends its turn at once while such work is live, when the next turn
  shows itself, and with a CLI that sends no state frames. Background work is shown by its tasks,
  and what Claude makes of it later is a turn of its own.
- A cancel right behind its prompt may be answered by a result before the turn has shown itself: its
  words come later, and `idle` behind them.
- Claude also begins turns by itself. Outside a prompt such a turn begins with its `init` and ends
  with a result of its own. While a prompt waits, such work is no turn: it is shown inside the
  prompt's, and its result is not taken for the prompt's.
- A prompt may be taken into a running turn, or several be merged into one; then one result lists
  several uuids.
- A CLI that lists no uuids: the first result that nothing else started is the prompt's. One that
  something else started may be its, too: silence behind it says so, or what follows says that it
  was not.
- The oldest CLIs (they report neither states nor lifecycles) hold every result back while a
  background agent lives, and write only the last. There a turn ends when its last word is followed
  by the next turn or by silence.
- The end of background work makes Claude go on: it takes that into the running turn, or begins
  one about it. Either is over at the next `idle` behind it; until then something is *owed*.
- Some waits could last for ever: for `idle` after a result, for a result that was lost or is held
  back, and for a turn that is owed and never comes. `settling` is true in each, and `settle` ends
  them; it is called by whoever keeps a clock.
"""

from __future__ import annotations

from msgspec import Struct

from .._model.driver import Effect, TurnBegan, TurnFinished
from .._model.events import Error, Usage
from .outcome import Verdict

CANCELLED = Verdict("cancelled")
LOST = Verdict(
    "failed", error=Error("no_result", "the agent went to rest without a result for the prompt")
)
NO_WORD = Verdict("completed")
PRESUMED = {"completed": NO_WORD, "cancelled": CANCELLED}
"""How a prompt ended that has no result, by its lifecycle."""


class _Turn(Struct):
    """A turn that has not ended. `id` and `uuid` are None for one that Claude began."""

    id: str | None = None
    uuid: str | None = None
    lifecycle: str | None = None
    """What `command_lifecycle` said last of the prompt: `queued`, `started`, …"""
    ran: bool = False
    """The state was `running` since the prompt."""
    opened: bool = False
    """It is the prompt itself that runs, not a turn that it was taken into."""
    answered: bool = False
    """Its last word was said, but its result may be held back."""
    likely: Verdict | None = None
    """Of a result that may be its own."""
    verdict: Verdict | None = None
    usage: Usage | None = None
    folded: tuple[str, ...] = ()
    rested: bool = False
    """Claude went to rest since, but no result has come."""
    early: bool = False
    """It was aborted, and its result came before it ran: what it says may still come."""


class Turns:
    """The turns of one process. What ends or begins is appended to `out`."""

    def __init__(self) -> None:
        self.user: _Turn | None = None
        self.agent: _Turn | None = None
        self.state: str | None = None
        """Claude's own word for it; None until it has spoken, for ever if it is too old to."""
        self.steered: dict[str, str] = {}
        """Prompts that were sent into a running turn: their uuids and ids."""
        self.used: dict[str, str] = {}
        """Every uuid sent so far, and its prompt's id: the CLI ignores a second prompt of the same
        uuid, for ever."""
        self._lifecycles = False
        """This CLI reports the lifecycle of each prompt."""
        self._held = False
        """A turn has ended whose result was held back; it may come yet."""
        self._owed = False
        """Background work has ended, and Claude has not rested since."""
        self._owed_until_idle = False
        """The next `idle` will come behind all that is owed."""

    @property
    def running(self) -> bool:
        """Whether a turn runs that has no result yet."""
        return any(turn is not None and turn.verdict is None for turn in (self.user, self.agent))

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs or is owed, and Claude does not say otherwise."""
        return self._quiet and not self._owed

    @property
    def _quiet(self) -> bool:
        return self.user is None and self.agent is None and self.state in (None, "idle")

    @property
    def current(self) -> str | None:
        """The id of the prompt's turn, if there is one."""
        return self.user.id if self.user is not None else None

    def prompted(self, id: str, uuid: str) -> None:
        self.used[uuid] = id
        self.user = _Turn(id, uuid)

    def steer(self, id: str, uuid: str) -> None:
        self.used[uuid] = id
        self.steered[uuid] = id

    def unsent(self, id: str) -> None:
        """This prompt was never written."""
        uuid = self.uuid_of(id)
        if uuid is not None:
            del self.used[uuid]
            self.steered.pop(uuid, None)
        if self.user is not None and self.user.id == id:
            self.user = None

    def uuid_of(self, id: str) -> str | None:
        """What Claude calls the prompt of a turn, or a steered one."""
        return next((uuid for uuid, known in self.used.items() if known == id), None)

    # --- what Claude reports

    def initialized(self, out: list[Effect]) -> None:
        """A turn's `init`. It could mean less where no turn is under way."""
        for turn in (self.agent, self.user):
            if turn is not None and turn.answered:
                turn.verdict = NO_WORD
                self._held = True
        if self.user is not None and self.user.lifecycle == "started":
            self.user.opened = True
        self._shown(out, sure=self.state == "running")

    def began(self, out: list[Effect]) -> None:
        """The main agent says something: a turn is under way."""
        self._shown(out, sure=True)

    def _shown(self, out: list[Effect], *, sure: bool) -> None:
        self._flush(out)
        if self.user is not None:
            self._runs(self.user)
        elif self.agent is not None:
            self._runs(self.agent)
        elif sure:
            self.agent = _Turn()
            out.append(TurnBegan(explicit=True))

    def answered(self, *, held: bool) -> None:
        """The main agent has said its last word. `held`: a background agent lives, for whose end
        the oldest CLIs hold the result back."""
        turn = self.user or self.agent
        if held and turn is not None and not self._reports_more:
            turn.answered = True

    def state_changed(self, state: str, out: list[Effect]) -> None:
        self.state = state
        if state != "idle":
            if self.user is not None:
                self._runs(self.user)
            return
        if self._owed_until_idle:
            self._owed = False
        if self.agent is not None and self.agent.verdict is None:
            self.agent.verdict = NO_WORD
        self._flush(out, early=True)
        if self.user is not None:
            self.user.rested = self.user.ran

    def work_ended(self) -> None:
        """Background work has ended. Between a result and its `idle` that `idle` may have been on
        its way already, and then says nothing about this."""
        self._owed = True
        self._owed_until_idle = self.state == "idle"

    def lifecycle(self, uuid: str, lifecycle: str, out: list[Effect]) -> None:
        """`command_lifecycle`: the lifecycle of one prompt."""
        self._lifecycles = True
        user = self.user
        if user is not None and user.uuid == uuid:
            if lifecycle == "started":
                self._flush(out)  # whatever ran before it
                self._runs(user)
            never = lifecycle == "cancelled" and user.lifecycle in (None, "queued")
            user.lifecycle = lifecycle
            if never and (user.verdict is None or user.early):
                user.verdict = user.verdict or CANCELLED
                self._finish(user, out)
        elif lifecycle == "cancelled" and uuid in self.steered:
            out.append(TurnFinished(turn=self.steered.pop(uuid), outcome="cancelled"))

    def resulted(
        self,
        uuids: list[str],
        unsolicited: bool,
        verdict: Verdict,
        usage: Usage | None,
        resting: bool,
        out: list[Effect],
    ) -> bool:
        """A result. `resting`: its turn is not to wait for `idle`. False: it is nobody's."""
        self._owed_until_idle = True
        held, self._held = self._held, False
        turn = self._meant(uuids, unsolicited, held)
        user = self.user
        if turn is not user and user is not None and user.lifecycle != "started":
            if user.ran and turn is None and not uuids and not self._reports_more:
                user.likely, user.usage = verdict, usage
            user.ran = False  # something else did: its rest says nothing about the prompt
        if turn is None:
            return held
        if turn is user and self.agent is not None:  # the prompt was taken into its turn
            self.agent.verdict = verdict
        turn.verdict, turn.usage = verdict, usage
        turn.early = (
            verdict.outcome == "cancelled"
            and turn is user
            and not turn.ran
            and self.agent is None
            and self.state is not None
        )
        turn.folded = tuple(self.steered.pop(u) for u in uuids if u in self.steered)
        if resting or self.state in (None, "idle"):
            self._flush(out)
        return True

    @property
    def _reports_more(self) -> bool:
        """This CLI reports states or lifecycles: then the end of a turn need not be guessed."""
        return self.state is not None or self._lifecycles

    def _meant(self, uuids: list[str], unsolicited: bool, held: bool) -> _Turn | None:
        """The turn that a result ends. `held`: it may be one that was held back, of a turn that is
        over."""
        user = self.user
        if user is not None and user.verdict is None:
            if user.uuid in uuids:
                return user
            waits = user.lifecycle == "queued" or (user.lifecycle is None and self._lifecycles)
            waits = waits or (held and not user.ran)
            if not uuids and not unsolicited and not waits:
                return user
        late = any(uuid in self.used and uuid not in self.steered for uuid in uuids)
        agent = self.agent
        return None if late or agent is None or agent.verdict is not None else agent

    # --- how it ends

    @property
    def settling(self) -> bool:
        """Whether a turn has its result but no `idle`, or `idle` but no result; or whether a turn
        that is owed has not begun."""
        user, agent = self.user, self.agent
        if user is None and agent is None:
            return self._owed and self._quiet
        return (user is not None and self._presumed(user) is not None) or (
            agent is not None and self._presumed(agent) is not None
        )

    def _presumed(self, turn: _Turn) -> Verdict | None:
        """How a turn has ended, if nothing more comes."""
        known = turn.verdict or turn.likely or (NO_WORD if turn.answered else None)
        over = turn.opened and self.state is None and turn.lifecycle in PRESUMED
        if known is None and (turn.rested or over):
            return PRESUMED.get(turn.lifecycle or "", LOST)
        return known

    def settle(self, out: list[Effect]) -> None:
        """What `settling` waits for is not waited for any more."""
        if self._quiet:
            self._owed = False
        for turn in (self.user, self.agent):
            if turn is not None:
                self._held = self._held or (turn.answered and turn.verdict is None)
                turn.verdict = self._presumed(turn)
        self._flush(out, early=True)

    def closed(self, out: list[Effect]) -> None:
        """Claude's output has ended: what has its result is over."""
        self._flush(out, early=True)

    @staticmethod
    def _runs(turn: _Turn) -> None:
        turn.ran = True
        turn.rested = turn.answered = False
        if turn.likely is not None:
            turn.likely = turn.usage = None

    def _flush(self, out: list[Effect], *, early: bool = False) -> None:
        """End every turn that has its result, the agent's own one first. `early`: also one that
        may not have run yet."""
        agent, user = self.agent, self.user
        if agent is not None and agent.verdict is not None:
            self._finish(agent, out)
        if user is not None and user.verdict is not None and (early or not user.early):
            self._finish(user, out)

    def _finish(self, turn: _Turn, out: list[Effect]) -> None:
        verdict = turn.verdict
        assert verdict is not None
        if turn is self.user:
            self.user = None
        else:
            self.agent = None
        out.append(
            TurnFinished(
                turn=turn.id,
                outcome=verdict.outcome,
                stop_reason=verdict.stop_reason,
                usage=turn.usage,
                error=verdict.error,
                structured_output=verdict.structured_output,
                folded=turn.folded,
            )
        )
