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

from .._model.driver import Effect, TurnBegan, TurnFinished
from .._model.events import Usage
from .outcome import Verdict
from .turn import CANCELLED, NO_WORD, OWED, ClaudeTurn, Owed, OwedInput, Progress, Sign


class Turns:
    """The turns of one process. What ends or begins is appended to `out`."""

    def __init__(self) -> None:
        self.user: ClaudeTurn | None = None
        self.agent: ClaudeTurn | None = None
        self.state: str | None = None
        """Claude's own word for it; None until it has spoken, for ever if it is too old to."""
        self.steered: set[str] = set()
        """The uuids of prompts that were sent into a running turn."""
        self.used: dict[str, str] = {}
        """Every uuid sent so far, and its prompt's id: the CLI ignores a second prompt of the same
        uuid, for ever."""
        self._lifecycles = False
        """This CLI reports the lifecycle of each prompt."""
        self._held = False
        """A turn has ended whose result was held back; it may come yet."""
        self._owed = Owed.NOTHING

    @property
    def running(self) -> bool:
        """Whether a turn runs that has no result yet."""
        user, agent = self.user, self.agent
        return (user is not None and not user.decided) or (agent is not None and not agent.decided)

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs or is owed, and Claude does not say otherwise."""
        return self._quiet and self._owed is Owed.NOTHING

    @property
    def _quiet(self) -> bool:
        return self.user is None and self.agent is None and self.state in (None, "idle")

    @property
    def current(self) -> str | None:
        """The id of the prompt's turn, if there is one."""
        return self.user.id if self.user is not None else None

    def prompted(self, id: str, uuid: str) -> None:
        self.used[uuid] = id
        self.user = ClaudeTurn(Progress.SENT, id, uuid)

    def steer(self, id: str, uuid: str) -> None:
        self.used[uuid] = id
        self.steered.add(uuid)

    def unsent(self, id: str) -> None:
        """This prompt was never written."""
        uuid = self.uuid_of(id)
        if uuid is not None:
            del self.used[uuid]
            self.steered.discard(uuid)
        if self.user is not None and self.user.id == id:
            self.user = None

    def uuid_of(self, id: str) -> str | None:
        """What Claude calls the prompt of a turn, or a steered one."""
        return next((uuid for uuid, known in self.used.items() if known == id), None)

    # --- what Claude reports

    def initialized(self, out: list[Effect]) -> None:
        """A turn's `init`. It could mean less where no turn is under way."""
        user = self.user
        for turn in (self.agent, user):
            if turn is not None and turn.progress is Progress.ANSWERED:
                self._presume(turn)
        if user is not None and user.lifecycle == "started":
            user.apply(Sign.OPEN)
        self._shown(out, sure=self.state == "running")

    def began(self, out: list[Effect]) -> None:
        """The main agent says something: a turn is under way."""
        self._shown(out, sure=True)

    def _shown(self, out: list[Effect], *, sure: bool) -> None:
        self._flush(out)
        turn = self.user or self.agent
        if turn is not None:
            turn.apply(Sign.RUN)
        elif sure:
            self.agent = ClaudeTurn(Progress.RUNNING)
            out.append(TurnBegan(explicit=True))

    def answered(self, *, held: bool) -> None:
        """The main agent has said its last word. `held`: a background agent lives, for whose end
        the oldest CLIs hold the result back."""
        turn = self.user or self.agent
        if held and turn is not None and not self._reports_more:
            turn.apply(Sign.ANSWER)

    def state_changed(self, state: str, out: list[Effect]) -> None:
        self.state = state
        if state != "idle":
            if self.user is not None:
                self.user.apply(Sign.RUN)
            return
        self._owed = OWED[self._owed][OwedInput.IDLE]
        if self.agent is not None and not self.agent.decided:
            self.agent.decide(NO_WORD)
        self._flush(out, early=True)
        if self.user is not None:
            self.user.apply(Sign.REST)

    def work_ended(self) -> None:
        """Background work has ended."""
        ended = OwedInput.WORK_AT_REST if self.state == "idle" else OwedInput.WORK
        self._owed = OWED[self._owed][ended]

    def lifecycle(self, uuid: str, lifecycle: str, out: list[Effect]) -> None:
        """`command_lifecycle`: the lifecycle of one prompt."""
        self._lifecycles = True
        user = self.user
        if user is not None and user.uuid == uuid:
            if lifecycle == "started":
                self._flush(out)  # whatever ran before it
                user.apply(Sign.RUN)
            never = lifecycle == "cancelled" and user.lifecycle in (None, "queued")
            user.lifecycle = lifecycle
            if never and user.progress is not Progress.DONE:
                if user.progress is not Progress.EARLY:
                    user.decide(CANCELLED)
                self.user = None
                out.append(user.finished())
        elif lifecycle == "cancelled" and uuid in self.steered:
            self.steered.remove(uuid)
            out.append(TurnFinished(turn=self.used[uuid], outcome="cancelled"))

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
        self._owed = OWED[self._owed][OwedInput.RESULT]
        held, self._held = self._held, False
        turn = self._meant(uuids, unsolicited, held)
        user, agent = self.user, self.agent
        if user is not None and user is not turn and user.lifecycle != "started":
            if turn is not None or uuids or self._reports_more or not user.ran:
                user.apply(Sign.OTHER)
            elif not user.decided:
                user.apply(Sign.GUESS)
                user.verdict, user.usage = verdict, usage
        if turn is None:
            return held
        if turn is user and agent is not None:  # the prompt was taken into its turn
            agent.decide(verdict)
        aborted = verdict.outcome == "cancelled" and self.state is not None and agent is None
        turn.apply(Sign.ABORT if aborted else Sign.RESULT)
        turn.verdict, turn.usage = verdict, usage
        if self.steered:
            folded = [uuid for uuid in dict.fromkeys(uuids) if uuid in self.steered]
            self.steered.difference_update(folded)
            turn.folded = tuple(self.used[uuid] for uuid in folded)
        if resting or self.state in (None, "idle"):
            self._flush(out)
        return True

    @property
    def _reports_more(self) -> bool:
        """This CLI reports states or lifecycles: then the end of a turn need not be guessed."""
        return self.state is not None or self._lifecycles

    def _meant(self, uuids: list[str], unsolicited: bool, held: bool) -> ClaudeTurn | None:
        """The turn that a result ends. `held`: it may be one that was held back, of a turn that is
        over."""
        user = self.user
        if user is not None and not user.decided:
            if user.uuid in uuids:
                return user
            waits = user.lifecycle == "queued" or (user.lifecycle is None and self._lifecycles)
            waits = waits or (held and not user.ran)
            if not uuids and not unsolicited and not waits:
                return user
        late = any(uuid in self.used and uuid not in self.steered for uuid in uuids)
        agent = self.agent
        return None if late or agent is None or agent.decided else agent

    # --- how it ends

    @property
    def settling(self) -> bool:
        """Whether a turn has its result but no `idle`, or `idle` but no result; or whether a turn
        that is owed has not begun."""
        user, agent = self.user, self.agent
        if user is None and agent is None:
            return self._owed is not Owed.NOTHING and self._quiet
        states = self.state is not None
        return (user is not None and user.presumed(reports_states=states) is not None) or (
            agent is not None and agent.presumed(reports_states=states) is not None
        )

    @property
    def guesses(self) -> bool:
        """Whether the prompt's turn would end by a result that may be of something else."""
        return self.user is not None and self.user.progress is Progress.GUESSED

    def settle(self, out: list[Effect]) -> None:
        """What `settling` waits for is not waited for any more."""
        if self._quiet:
            self._owed = OWED[self._owed][OwedInput.FORGET]
        for turn in (self.user, self.agent):
            if turn is not None:
                self._presume(turn)
        self._flush(out, early=True)

    def closed(self, out: list[Effect]) -> None:
        """Claude's output has ended: what has its result is over."""
        self._flush(out, early=True)

    def _presume(self, turn: ClaudeTurn) -> None:
        """Wait no longer for its result, if it can do without."""
        verdict = turn.presumed(reports_states=self.state is not None)
        if verdict is not None:
            self._held = self._held or turn.progress is Progress.ANSWERED
            turn.decide(verdict)

    def _flush(self, out: list[Effect], *, early: bool = False) -> None:
        """End every turn that has its result, the agent's own one first. `early`: also one that
        may not have run yet."""
        agent, user = self.agent, self.user
        if agent is not None and agent.progress is Progress.DONE:
            self.agent = None
            out.append(agent.finished())
        if user is not None and (
            user.progress is Progress.DONE or (early and user.progress is Progress.EARLY)
        ):
            self.user = None
            out.append(user.finished())
