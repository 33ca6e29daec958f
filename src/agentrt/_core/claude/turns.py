"""Track which turn runs and when it ends.

A prompt carries a uuid chosen here, and the `result` that lists it ends its turn. The details:

- The end is reported when Claude is idle, by `session_state_changed: idle`, a few milliseconds
  after the result. The result ends its turn immediately where waiting would be wrong or endless:
  background agents keep the state `running` for minutes, and the next turn may begin without an
  `idle` in between (queued prompts, and the turn that follows the end of a background agent). So a
  turn ends with its result while such work is live, when the next turn shows itself, and with a CLI
  that sends no state frames. Background work is reported as tasks, and Claude's later reaction to
  it is a separate turn.
- A cancel directly after its prompt may be answered by a result before the turn has shown itself.
  Its text then comes later, followed by `idle`.
- Claude also begins turns by itself. Without a pending prompt, such a turn begins with its `init`
  and ends with its own result. While a prompt waits, such work is not a separate turn: it is shown
  inside the prompt's turn, and its result is not taken for the prompt's.
- A prompt may be taken into a running turn, and several prompts may be merged into one turn. One
  result then lists several uuids.
- With a CLI that lists no uuids, the first result that nothing else started belongs to the prompt.
  A result that something else started may also belong to it: silence afterwards confirms that, and
  later output refutes it.
- The oldest CLIs (which report neither states nor lifecycles) hold every result back while a
  background agent lives, and write only the last one. There a turn ends when its last message is
  followed by the next turn or by silence.
- The end of background work makes Claude continue: it takes the outcome into the running turn, or
  begins a turn about it. Either has ended by the next `idle`; until then a turn is *owed*.
- Some waits could last forever: for `idle` after a result, for a result that was lost or held back,
  and for an owed turn that never comes. `awaits_silence` is true in each case, and `end_by_silence`
  ends them. The owner of the clock calls it.
"""

from __future__ import annotations

from ..model.driver import Effect, TurnBegan, TurnFinished
from ..model.events import Usage
from .outcome import ResultVerdict
from .turn import CANCELLED, NO_WORD, OWED, ClaudeTurn, Owed, OwedInput, Progress, Sign


class ClaudeTurns:
    """The turns of one process. Methods append begins and ends of turns to `out`."""

    steered: frozenset[str] = frozenset()
    """The uuids of prompts that were sent into a running turn."""

    def __init__(self) -> None:
        """Begin without turns."""
        self.user: ClaudeTurn | None = None
        self.agent: ClaudeTurn | None = None
        self.state: str | None = None
        """The state that Claude reported last. None until the first report; an old CLI never
        reports it.
        """
        self.used: dict[str, str] = {}
        """Every uuid sent so far, with the id of its prompt. The CLI permanently ignores a second
        prompt with the same uuid.
        """
        self._lifecycles = False
        """True if this CLI reports the lifecycle of each prompt."""
        self._lists_uuids = False
        """True if the results of this CLI list the prompts that they end."""
        self._held = False
        """True if a turn has ended without its result, which may still come."""
        self._owed = Owed.NOTHING

    @property
    def running(self) -> bool:
        """True if a turn runs that has no result yet."""
        user, agent = self.user, self.agent
        return (user is not None and not user.decided) or (agent is not None and not agent.decided)

    @property
    def at_rest(self) -> bool:
        """True if nothing runs or is owed, and Claude does not report otherwise."""
        return self._quiet and self._owed is Owed.NOTHING

    @property
    def _quiet(self) -> bool:
        """True if no turn runs and Claude does not report to be busy."""
        return self.user is None and self.agent is None and self.state in (None, "idle")

    @property
    def current(self) -> str | None:
        """The id of the prompt's turn, or None."""
        return self.user.id if self.user is not None else None

    def prompted(self, id: str, uuid: str) -> None:
        """Note that a prompt was sent."""
        self.used[uuid] = id
        self.user = ClaudeTurn(Progress.SENT, id, uuid)

    def steer(self, id: str, uuid: str) -> None:
        """Note that a prompt was sent into the running turn."""
        self.used[uuid] = id
        self.steered |= {uuid}

    def discard_prompt(self, id: str) -> None:
        """Forget a prompt that was never written."""
        uuid = self.uuid_of(id)
        if uuid is not None:
            del self.used[uuid]
            self.steered -= {uuid}
        if self.user is not None and self.user.id == id:
            self.user = None

    def uuid_of(self, id: str) -> str | None:
        """Return Claude's uuid of a turn's prompt or of a steered prompt, or None."""
        return next((uuid for uuid, known in self.used.items() if known == id), None)

    # --- reports of Claude

    def initialized(self, out: list[Effect]) -> None:
        """Take the `init` of a turn. Without a turn under way it may not begin one."""
        user = self.user
        for turn in (self.agent, user):
            if turn is not None and turn.progress is Progress.ANSWERED:
                self._presume(turn)
        if user is not None and user.lifecycle == "started":
            user.apply(Sign.OPEN)
        self._shown(out, sure=self.state == "running")

    def began(self, out: list[Effect]) -> None:
        """Take output of the main agent: a turn is under way.

        Most output belongs to a prompt's turn that is known to run, and changes nothing.
        """
        user = self.user
        if user is None or user.progress is not Progress.RUNNING or self.agent is not None:
            self._shown(out, sure=True)

    def _shown(self, out: list[Effect], *, sure: bool) -> None:
        """Note that a turn runs, because of output or of its `init`.

        A turn that has its result ends first. Without a turn, Claude has begun one by itself, if
        the sign is `sure`.
        """
        self._flush(out)
        turn = self.user or self.agent
        if turn is not None:
            turn.apply(Sign.RUN)
        elif sure:
            self.agent = ClaudeTurn(Progress.RUNNING)
            out.append(TurnBegan(explicit=True))

    def answered(self, *, held: bool) -> None:
        """Note that the main agent has sent its last message.

        `held`: a background agent lives, and the oldest CLIs hold the result back until it ends.
        """
        turn = self.user or self.agent
        if held and turn is not None and not self._reports_more:
            turn.apply(Sign.ANSWER)

    def state_changed(self, state: str, out: list[Effect]) -> None:
        """Take the state of a `session_state_changed` message."""
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
        """Note that background work has ended."""
        ended = OwedInput.WORK_AT_REST if self.state == "idle" else OwedInput.WORK
        self._owed = OWED[self._owed][ended]

    def lifecycle(self, uuid: str, lifecycle: str, out: list[Effect]) -> None:
        """Take a `command_lifecycle` message: the lifecycle of one prompt."""
        self._lifecycles = True
        user = self.user
        if user is not None and user.uuid == uuid:
            if lifecycle == "started":
                self._flush(out)  # for a turn that ran before it
                user.apply(Sign.RUN)
            never = lifecycle == "cancelled" and user.lifecycle in (None, "queued")
            user.lifecycle = lifecycle
            if never and user.progress is not Progress.DONE:
                if user.progress is not Progress.EARLY:
                    user.decide(CANCELLED)
                self.user = None
                out.append(user.finished())
        elif lifecycle == "cancelled" and uuid in self.steered:
            self.steered -= {uuid}
            out.append(TurnFinished(turn=self.used[uuid], outcome="cancelled"))

    def resulted(
        self,
        uuids: list[str],
        unsolicited: bool,
        verdict: ResultVerdict,
        usage: Usage | None,
        resting: bool,
        out: list[Effect],
    ) -> bool:
        """Take a result. Returns False if it belongs to no turn.

        `resting`: its turn ends without waiting for `idle`.
        """
        self._owed = OWED[self._owed][OwedInput.RESULT]
        self._lists_uuids = self._lists_uuids or bool(uuids)
        held, self._held = self._held, False
        turn = self._meant(uuids, unsolicited, held)
        user, agent = self.user, self.agent
        if user is not None and user is not turn and user.lifecycle != "started":
            named = turn is not None or self._lists_uuids
            self._passed_over(user, named, verdict, usage)
        if turn is None:
            return held
        if turn is user and agent is not None:  # the prompt was taken into its turn
            agent.decide(verdict)
        aborted = verdict.outcome == "cancelled" and self.state is not None and agent is None
        turn.apply(Sign.ABORT if aborted else Sign.RESULT)
        turn.verdict, turn.usage = verdict, usage
        if self.steered:
            self._fold_steered(turn, uuids)
        if resting or self.state in (None, "idle"):
            self._flush(out)
        return True

    def _passed_over(
        self, user: ClaudeTurn, named: bool, verdict: ResultVerdict, usage: Usage | None
    ) -> None:
        """Note that a result did not end the prompt's turn.

        `named`: it belongs to another turn, because it names that, or because it would name this
        one. Otherwise it may have been the result of this one.
        """
        if named or self._reports_more or not user.ran:
            user.apply(Sign.OTHER)
        elif not user.decided:
            user.apply(Sign.GUESS)
            user.verdict, user.usage = verdict, usage

    def _fold_steered(self, turn: ClaudeTurn, uuids: list[str]) -> None:
        """Add the steering prompts that a result names to the turn that it ends."""
        folded = [uuid for uuid in dict.fromkeys(uuids) if uuid in self.steered]
        self.steered = self.steered.difference(folded)
        turn.folded = tuple(self.used[uuid] for uuid in folded)

    @property
    def _reports_more(self) -> bool:
        """True if this CLI reports states or lifecycles, so that the end of a turn need not be
        guessed.
        """
        return self.state is not None or self._lifecycles

    def _meant(self, uuids: list[str], unsolicited: bool, held: bool) -> ClaudeTurn | None:
        """Return the turn that a result ends.

        `held`: the result may be one that was held back, of a turn that is over.
        """
        user = self.user
        if user is not None and not user.decided:
            if user.uuid in uuids:
                return user
            if not uuids and not unsolicited and not self._waits(user, held):
                return user
        late = any(uuid in self.used and uuid not in self.steered for uuid in uuids)
        agent = self.agent
        return None if late or agent is None or agent.decided else agent

    def _waits(self, user: ClaudeTurn, held: bool) -> bool:
        """Return True if the prompt has not been started, so that no result can be its own."""
        if user.lifecycle == "queued" or (user.lifecycle is None and self._lifecycles):
            return True
        return held and not user.ran

    # --- the end of a turn

    @property
    def awaits_silence(self) -> bool:
        """True if a turn has its result but no `idle`, or `idle` but no result, or if an owed turn
        has not begun.
        """
        user, agent = self.user, self.agent
        if agent is None:
            if user is None:
                return self._owed is not Owed.NOTHING and self._quiet
            if user.progress is Progress.RUNNING:  # the most frequent case
                return False
        states = self.state is not None
        return (user is not None and user.presumed(reports_states=states) is not None) or (
            agent is not None and agent.presumed(reports_states=states) is not None
        )

    @property
    def guesses(self) -> bool:
        """True if the prompt's turn would end by a result that may belong to something else."""
        return self.user is not None and self.user.progress is Progress.GUESSED

    def end_by_silence(self, out: list[Effect]) -> None:
        """End the waits for which `awaits_silence` is true."""
        if self._quiet:
            self._owed = OWED[self._owed][OwedInput.FORGET]
        for turn in (self.user, self.agent):
            if turn is not None:
                self._presume(turn)
        self._flush(out, early=True)

    def closed(self, out: list[Effect]) -> None:
        """Note the end of Claude's output, and end the turns that have a result."""
        self._flush(out, early=True)

    def _presume(self, turn: ClaudeTurn) -> None:
        """Stop waiting for the turn's result if the turn can end without it."""
        verdict = turn.presumed(reports_states=self.state is not None)
        if verdict is not None:
            self._held = self._held or turn.progress is Progress.ANSWERED
            turn.decide(verdict)

    def _flush(self, out: list[Effect], *, early: bool = False) -> None:
        """End every turn that has its result, the agent's own turn first.

        `early`: also end a turn that may not have run yet.
        """
        agent, user = self.agent, self.user
        if agent is not None and agent.progress is Progress.DONE:
            self.agent = None
            out.append(agent.finished())
        if user is not None and (
            user.progress is Progress.DONE or (early and user.progress is Progress.EARLY)
        ):
            self.user = None
            out.append(user.finished())
