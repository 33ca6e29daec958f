"""The life of one command of a viewer, as a state machine, and the order of a client's commands.

This module does no I/O and has no clock: inputs and times go in, the next state comes out. Each
state that is not final stands for one action that the host performs (`operations.CommandRun`,
`remote_command.RemoteCommand`); its result is the next input.

Theory of operation
-------------------

A command is carried out by the process that owns its session. If one process has the store for
itself, that is this one: the command begins at once (`BEGUN`), its answer is stored together with
its effects (`STORING`), and only then given (`ANSWERED`). So an answer that was given is still true
after a crash, and the same id, sent again, gets the same answer.

If several servers share the store, three things change.

1. *Order.* Statements of a database overtake each other, so a command first waits for the earlier
   ones of its client to its session (`WAITING`). The wait has an end, because two servers may wait
   for each other.

2. *The owner.* If the session is not open here, the owner is unknown (`LOCATING`). If it is this
   process, or no process and this one may open the session, the command continues here (`OPENING`).
   Otherwise it becomes a row for the owner (`POSTING`), whose answer is awaited (`REMOTE`). The
   owner may change at any time: a row that its process gave back, or whose process is dead, is
   given to the next owner (`PASSING_ON`), or withdrawn if that is this process (`WITHDRAWING`).
   A row that no process takes is withdrawn after a while (`ABANDONING`). Everything that could not
   be done now is tried again after a pause (`PAUSING`).

3. *Doubt.* A post whose outcome is unknown may have left a row. A row that is gone was answered,
   to another server where the client was. A session that moved while its command was being stored
   may have taken the stored command along. In all three cases the command may have been carried
   out, and refusing it would be a lie: it is tried until that is known, or until the client is
   gone, which sends it again elsewhere (`GIVEN_UP`). Trying again is safe because whoever carries a
   command out looks first for its stored answer (`CHECKING`), which was stored in the same
   transaction as its effects. Before a command is refused because the store or the owner does not
   answer, the store is asked for such an answer once more (`RECALLING`).

A command from a client of another server is `forwarded`: it never looks for another owner. If the
session is not this server's, it is given back (`GIVEN_UP`), and the asking server continues.

A command that was carried out and could not be stored in time is refused for now (`UNSTORED`). It
is not carried out again: sent again, it continues with `STORING`. Commands that end something
(`ends`) are answered even if that cannot be stored: a cancel waits for nothing.

An input that the table does not have for a state raises `IllegalInput` and changes nothing.
"""

from __future__ import annotations

from enum import Enum, IntEnum, auto
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

OWNER_PATIENCE_S: Final = 15.0
"""Seconds to look for a worker, or to wait for one that does not take its command: longer than a
lease, so that the sessions of a dead owner can be continued.
"""


class CommandState(Enum):
    """The states of a command."""

    NEW = auto()
    WAITING = auto()
    """Wait for the earlier commands of the client to the session."""
    LOCATING = auto()
    """Find the owner of the session."""
    POSTING = auto()
    """Post a row for the owner."""
    REMOTE = auto()
    """Look at the row once more."""
    PASSING_ON = auto()
    """Give the row to the present owner, if its process will not carry it out."""
    WITHDRAWING = auto()
    """Withdraw the row, because this process is the owner now."""
    ABANDONING = auto()
    """Withdraw the row, because no process takes it."""
    PAUSING = auto()
    """Wait a moment."""
    RECALLING = auto()
    """Look for an answer that another server stored, before the command is refused."""
    CONFIRMING = auto()
    """Wait until the effects that another server's answer mentions are known here."""
    OPENING = auto()
    """Find the session, and open it if the command needs that."""
    CHECKING = auto()
    """Look for an answer that another server stored, before the command begins."""
    BEGUN = auto()
    """Carry the command out."""
    STORING = auto()
    """Wait until the answer and the effects are stored."""
    UNSTORED = auto()
    """Final for now: refused as `unavailable`, although it was carried out."""
    ANSWERED = auto()
    """Final: carried out, with its result."""
    REFUSED = auto()
    """Final: not carried out, with its error."""
    GIVEN_UP = auto()
    """Final: not carried out here, and without an answer: it must be sent again."""


FINAL: Final = frozenset(
    {CommandState.UNSTORED, CommandState.ANSWERED, CommandState.REFUSED, CommandState.GIVEN_UP}
)


class CommandEvent(Enum):
    """The inputs: results of the actions."""

    BEGIN = auto()
    CLOCK = auto()
    """The time to wait is over, or the row is unchanged."""
    EARLIER_OVER = auto()
    EARLIER_GIVEN_UP = auto()
    """An earlier command must be sent again, so this one must be, too."""
    OWNER_HERE = auto()
    OWNER_REMOTE = auto()
    NO_OWNER = auto()
    """No process can own the session now."""
    POSTED = auto()
    PASSED_ON = auto()
    """The row was given to another process, or could not be."""
    WITHDRAWN = auto()
    NOT_WITHDRAWN = auto()
    """A process has taken the row."""
    ROW_ANSWERED = auto()
    ROW_RETURNED = auto()
    """The process of the row does not own the session."""
    ROW_GIVEN_HERE = auto()
    """This process must carry out the row of its own client."""
    ROW_GONE = auto()
    OWNER_DEAD = auto()
    OPENED = auto()
    KNOWN = auto()
    """Another server has carried the command out, and its answer is known."""
    UNKNOWN = auto()
    DONE = auto()
    STORED = auto()
    MOVED = auto()
    """Another server has taken the session; the effects may be stored."""
    LEFT = auto()
    """The session is another server's; there are no effects."""
    STORE_FAILED = auto()
    FAILED = auto()
    """An error of the command itself."""


class CommandFact(Enum):
    """The facts that a transition depends on, apart from state and input.

    The first ones are the fields of the plan.
    """

    ORDERED = "ordered"
    LOCATED = "located"
    PREPARED = "prepared"
    CHECKED = "checked"
    STORED = "stored"
    SHARED = "shared"
    FORWARDED = "forwarded"
    ENDS = "ends"
    DONE = "done"
    """It was carried out here, and the session has not moved since."""
    POSTED = "posted"
    """There is a row of another process."""
    HAS_ROW = "has row"
    """There is a row, of another process or this one."""
    DOUBTFUL = "doubtful"
    """It may have been carried out by another server."""
    DOUBTFUL_AND_GONE = "doubtful and gone"
    """As `DOUBTFUL`, and the client is not here to be answered."""
    LATE = "late"
    """No owner was found for too long."""
    UNTAKEN = "untaken"
    """The row was not taken for too long."""


class Branch(NamedTuple):
    """A transition that depends on a fact."""

    fact: CommandFact
    then: Next
    otherwise: Next


Next: TypeAlias = CommandState | Branch

_State: TypeAlias = CommandState
_On: TypeAlias = CommandEvent
_Is: TypeAlias = CommandFact

_ACT: Final = Branch(_Is.DONE, _State.STORING, _State.BEGUN)
_CHECK: Final = Branch(_Is.CHECKED, _State.CHECKING, _ACT)
_PREPARE: Final = Branch(_Is.PREPARED, _State.OPENING, _ACT)
_ROUTE: Final = Branch(_Is.LOCATED, _State.LOCATING, _PREPARE)
_BEGIN: Final = Branch(_Is.ORDERED, _State.WAITING, _ROUTE)
_ELSEWHERE: Final = Branch(
    _Is.SHARED, Branch(_Is.FORWARDED, _State.GIVEN_UP, _State.PAUSING), _State.REFUSED
)
_RECALL: Final = Branch(_Is.SHARED, _State.RECALLING, _State.REFUSED)
_UNRECALLED: Final = Branch(
    _Is.DOUBTFUL, _ELSEWHERE, Branch(_Is.DONE, _State.UNSTORED, _State.REFUSED)
)
_FAILURES: Final[dict[CommandEvent, Next]] = {
    _On.MOVED: _ELSEWHERE,
    _On.LEFT: _ELSEWHERE,
    _On.STORE_FAILED: _RECALL,
    _On.FAILED: _State.REFUSED,
}
_END: Final = Branch(_Is.HAS_ROW, _State.ABANDONING, _State.RECALLING)
_STOP: Final = Branch(_Is.DOUBTFUL, _State.PAUSING, _State.RECALLING)
_RETRY: Final = Branch(_Is.LATE, _State.ABANDONING, _State.PAUSING)

TABLE: Final[dict[CommandState, dict[CommandEvent, Next]]] = {
    _State.NEW: {_On.BEGIN: _BEGIN},
    _State.WAITING: {
        _On.EARLIER_OVER: _ROUTE,
        _On.EARLIER_GIVEN_UP: _State.GIVEN_UP,
        _On.CLOCK: _ROUTE,
    },
    _State.LOCATING: {
        _On.OWNER_HERE: Branch(_Is.POSTED, _State.WITHDRAWING, _State.OPENING),
        _On.OWNER_REMOTE: Branch(_Is.HAS_ROW, _State.PASSING_ON, _State.POSTING),
        _On.NO_OWNER: Branch(_Is.DOUBTFUL, _State.PAUSING, Branch(_Is.LATE, _END, _State.PAUSING)),
        _On.STORE_FAILED: Branch(_Is.HAS_ROW, _State.PAUSING, _STOP),
        _On.FAILED: _State.REFUSED,
    },
    _State.POSTING: {
        _On.POSTED: _State.REMOTE,
        _On.STORE_FAILED: _State.PAUSING,
        _On.FAILED: _State.REFUSED,
    },
    _State.REMOTE: {
        _On.CLOCK: Branch(_Is.UNTAKEN, _State.ABANDONING, _State.REMOTE),
        _On.ROW_ANSWERED: _State.CONFIRMING,
        _On.ROW_RETURNED: _RETRY,
        _On.ROW_GIVEN_HERE: _State.PAUSING,  # then it is carried out here, or given back
        _On.ROW_GONE: _State.PAUSING,
        _On.OWNER_DEAD: _State.PAUSING,
        _On.FAILED: _State.REFUSED,
    },
    _State.PASSING_ON: {
        _On.PASSED_ON: _State.REMOTE,
        _On.STORE_FAILED: _State.PAUSING,
    },
    _State.WITHDRAWING: {
        _On.WITHDRAWN: _State.OPENING,
        _On.NOT_WITHDRAWN: _State.REMOTE,
        _On.STORE_FAILED: _State.PAUSING,
    },
    _State.ABANDONING: {
        _On.WITHDRAWN: _STOP,
        _On.NOT_WITHDRAWN: _State.REMOTE,
        _On.STORE_FAILED: _State.PAUSING,
    },
    _State.PAUSING: {
        _On.CLOCK: Branch(_Is.DOUBTFUL_AND_GONE, _State.GIVEN_UP, _State.LOCATING),
    },
    _State.RECALLING: {
        _On.KNOWN: Branch(_Is.FORWARDED, _State.ANSWERED, _State.CONFIRMING),
        _On.UNKNOWN: _UNRECALLED,
        _On.STORE_FAILED: _UNRECALLED,
        _On.FAILED: _State.REFUSED,
    },
    # What another server has answered is true, whatever this one can show.
    _State.CONFIRMING: dict.fromkeys((_On.KNOWN, _On.STORE_FAILED, _On.FAILED), _State.ANSWERED),
    _State.OPENING: {_On.OPENED: _CHECK, **_FAILURES},
    _State.CHECKING: {
        **_FAILURES,
        _On.KNOWN: _State.ANSWERED,
        _On.UNKNOWN: _ACT,
        _On.STORE_FAILED: Branch(_Is.ENDS, _ACT, _State.RECALLING),
    },
    _State.BEGUN: {_On.DONE: Branch(_Is.STORED, _State.STORING, _State.ANSWERED), **_FAILURES},
    _State.STORING: {
        _On.STORED: _State.ANSWERED,
        _On.MOVED: _ELSEWHERE,
        _On.STORE_FAILED: Branch(
            _Is.ENDS, _State.ANSWERED, Branch(_Is.SHARED, _State.RECALLING, _State.UNSTORED)
        ),
        _On.FAILED: _State.REFUSED,
    },
    _State.UNSTORED: {_On.BEGIN: _BEGIN},
    _State.ANSWERED: {},
    _State.REFUSED: {},
    _State.GIVEN_UP: {},
}


class CommandPlan(Struct, frozen=True, kw_only=True):
    """The facts about a command before it begins.

    - `ordered`: it waits for the earlier commands of its client to its session.
    - `located`: its session is not open here, so its owner is looked for.
    - `prepared`: its session may have to be opened before it begins.
    - `checked`: another server may have carried it out.
    - `stored`: its answer is stored before it is given.
    - `shared`: other servers may own its session.
    - `forwarded`: its client is at another server, which looks for the next owner.
    - `ends`: it ends something, and is answered also if the store does not answer.
    """

    ordered: bool = False
    located: bool = False
    prepared: bool = False
    checked: bool = False
    stored: bool = False
    shared: bool = False
    forwarded: bool = False
    ends: bool = False


class IllegalInput(Exception):
    """An input that cannot come in this state."""


class _Row(Enum):
    """The stored row of a command, as far as it is known here."""

    NONE = auto()
    OTHERS = auto()
    """Another process must carry it out."""
    OURS = auto()
    """This process must carry it out."""


class _Doubt(IntEnum):
    """The traces that a command may have left at other servers."""

    NONE = 0
    ROW = 1
    """There may be a row."""
    EFFECTS = 2
    """There may be effects."""


class CommandMachine:
    """The state of one command. `state` is its state; `plan` may change whenever it begins."""

    def __init__(self) -> None:
        self.state = CommandState.NEW
        self.plan = CommandPlan()
        self._done = False
        self._row = _Row.NONE
        self._doubt = _Doubt.NONE
        self._late_at = 0.0
        self._untaken_at = 0.0

    @property
    def is_over(self) -> bool:
        """True if there is nothing to do for the command."""
        return self.state in FINAL

    @property
    def is_row_ours(self) -> bool:
        """True if this process must carry out the row that it posted."""
        return self._row is _Row.OURS

    def begin(self, plan: CommandPlan, now: float) -> CommandState:
        """Begin, or begin again with a command that was `UNSTORED`. Returns the new state."""
        if CommandEvent.BEGIN not in TABLE[self.state]:
            raise IllegalInput(f"a command that is {self.state.name} cannot begin")
        self.plan = plan
        return self.step(CommandEvent.BEGIN, now)

    def step(self, given: CommandEvent, now: float, *, client_here: bool = True) -> CommandState:
        """Take an input and return the new state.

        `now`: the time in seconds. `client_here`: true if the client can be answered. Raises
        `IllegalInput` for an input that cannot come in this state; then nothing has changed.
        """
        found = TABLE[self.state].get(given)
        if found is None:
            raise IllegalInput(f"{given.name} cannot come to a command that is {self.state.name}")
        self._learn(given, now)
        while isinstance(found, Branch):
            holds = self._holds(found.fact, now, client_here)
            found = found.then if holds else found.otherwise
        self._enter(found, now)
        return found

    def _learn(self, given: CommandEvent, now: float) -> None:
        """Update the facts that an event changes: the row, the doubts, and the time limit."""
        match given:
            case CommandEvent.BEGIN | CommandEvent.OWNER_DEAD | CommandEvent.LEFT:
                self._late_at = now + OWNER_PATIENCE_S
            case CommandEvent.POSTED:
                self._row = _Row.OTHERS
                if self._doubt is _Doubt.ROW:
                    self._doubt = _Doubt.NONE
            case CommandEvent.PASSED_ON:
                self._row = _Row.OTHERS
            case CommandEvent.WITHDRAWN:
                self._row = _Row.NONE
            case CommandEvent.ROW_GIVEN_HERE:
                self._row = _Row.OURS
            case CommandEvent.ROW_GONE:
                self._row, self._doubt = _Row.NONE, _Doubt.EFFECTS
            case CommandEvent.DONE:
                self._done = True
            case CommandEvent.MOVED:
                self._done, self._doubt = False, _Doubt.EFFECTS
                self._late_at = now + OWNER_PATIENCE_S

    def _enter(self, state: CommandState, now: float) -> None:
        """Change the state, and note the traces and times that go with the new one."""
        if state is CommandState.POSTING:
            self._doubt = max(self._doubt, _Doubt.ROW)
        elif state is CommandState.REMOTE and self.state is not CommandState.REMOTE:
            self._untaken_at = now + OWNER_PATIENCE_S
        elif state is CommandState.OPENING:
            self._row = _Row.NONE
        self.state = state

    def _holds(self, fact: CommandFact, now: float, client_here: bool) -> bool:
        """Return True if a fact holds. Facts that are none of these are properties of the plan."""
        doubtful = self._doubt is not _Doubt.NONE
        match fact:
            case CommandFact.DONE:
                return self._done
            case CommandFact.POSTED:
                return self._row is _Row.OTHERS
            case CommandFact.HAS_ROW:
                return self._row is not _Row.NONE
            case CommandFact.DOUBTFUL:
                return doubtful
            case CommandFact.DOUBTFUL_AND_GONE:
                return doubtful and not client_here
            case CommandFact.LATE:
                return now >= self._late_at
            case CommandFact.UNTAKEN:
                return now > self._untaken_at
        return bool(getattr(self.plan, fact.value))


class CommandPlace:
    """The place of a command among its client's commands to a session."""

    def __init__(self, ahead: CommandPlace | None, *, holds: bool) -> None:
        self._ahead = ahead
        self._holds = holds
        self._over = False
        self._given_up = False

    def look(self) -> CommandEvent | None:
        """Return the input that ends the wait for the earlier commands; None if they are not
        over."""
        if self._ahead is None:
            return CommandEvent.EARLIER_OVER
        if not self._ahead._over:
            return None
        # The client sends them again, in order.
        again = self._holds and self._ahead._given_up
        return CommandEvent.EARLIER_GIVEN_UP if again else CommandEvent.EARLIER_OVER

    def leave(self, *, given_up: bool = False) -> None:
        """Let later commands begin. `given_up`: this one must be sent again."""
        self._over, self._given_up, self._ahead = True, given_up, None


class CommandOrder:
    """The order of one client's commands, by session."""

    def __init__(self) -> None:
        self._last: dict[str, CommandPlace] = {}

    def enter(self, session: str, *, holds: bool) -> CommandPlace:
        """Return the place of a command, after all earlier ones. `holds`: later ones wait for
        it."""
        place = CommandPlace(self._last.get(session), holds=holds)
        if holds:
            self._last[session] = place
        return place

    def leave(self, session: str, place: CommandPlace, *, given_up: bool = False) -> None:
        """Let later commands begin."""
        place.leave(given_up=given_up)
        if self._last.get(session) is place:
            del self._last[session]
