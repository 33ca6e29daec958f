"""`Metrics`: figures for Prometheus. Packages of the extra `metrics` are imported only when one is
made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, get_args
from weakref import WeakSet

from ..agents import BUILT_IN
from ..errors import AgentrtError
from ..model.events import Phase
from ..model.log import Log
from ..session.interfaces import ViewerAction
from .counts import SECONDS, Counted, Histogram, Totals
from .observation import Observation
from .steps import LongestStep

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

    from ..store.service import StoreService
    from ..store.store import Store

OTHER: Final = "other"
"""The name of agents that are not on the list: users who name agents must not be able to create new
series."""

_STATES: Final = ("ok", "slow", "failing")
"""The states of a store, as in `StoreStatus.state`."""


class Metrics:
    """Figures about sessions for Prometheus.

    Give it to `open_session` or `open_runtime` as `telemetry`, and to `serve` as `metrics` if the
    server should export them at `/metrics`.

    - `registry`: the registry of the figures; by default the global one of `prometheus_client`,
      which an exporter of the program already uses. A registry takes only one `Metrics`.
    - `agents`: agent names to report in addition to those of the catalogue; all others are reported
      as `other`.

    Raises `AgentrtError` if the extra `metrics` is not installed.
    """

    def __init__(
        self, *, registry: CollectorRegistry | None = None, agents: Iterable[str] = ()
    ) -> None:
        """Register with a registry, which then calls `collect` for each export."""
        try:
            import prometheus_client
        except ModuleNotFoundError as error:
            raise AgentrtError(
                f'Metrics need {error.name}: pip install "agentrt[metrics]"'
            ) from error
        self._agents = frozenset((*BUILT_IN, *agents))
        self._totals = Totals()
        self._sessions: set[Counted] = set()
        self._stores: WeakSet[StoreService] = WeakSet()
        self._sites: dict[object, Callable[[], Mapping[str, int]]] = {}
        self._steps = LongestStep()
        self._registry = prometheus_client.REGISTRY if registry is None else registry
        self._registry.register(self)

    def render(self) -> bytes:
        """Return all figures of the registry, in the text format of Prometheus."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)

    # --- internal

    def observe(self, agent: str, log: Log) -> Observation:
        """Internal: used by agentrt itself."""
        self._steps.watch()
        name = agent if agent in self._agents else OTHER
        session = Counted(name, log, self._totals, self._sessions.discard)
        self._sessions.add(session)
        return session

    def environment(self) -> Mapping[str, str]:
        """Internal: used by agentrt itself."""
        return {}

    def keeps(self, store: Store) -> None:
        """Internal: used by agentrt itself."""
        from ..store.service import service_of

        self._stores.add(service_of(store))

    def acted(self, agent: str, session: str, action: ViewerAction) -> None:
        """Internal: used by agentrt itself."""

    def serves(self, site: object, counts: Callable[[], Mapping[str, int]]) -> Callable[[], None]:
        """Internal: used by agentrt itself.

        `counts` returns `clients`, `refused`, `dropped` and `broken`, as in `SiteStatistics`.
        """
        self._sites[site] = counts
        return lambda: self._sites.pop(site, None) and None

    # --- the collector

    def describe(self) -> Iterable[Metric]:
        """Return the names of the figures, for the registry."""
        return self.collect()

    def collect(self) -> Iterable[Metric]:
        """Return the current figures, for the registry."""
        yield from self._now()
        yield from self._since_the_start()
        yield from self._of_stores()
        yield from self._of_shared_stores()
        yield from self._of_sites()
        yield from self._of_steps()

    def _of_steps(self) -> Iterable[Metric]:
        """Yield the longest time that a task kept the others waiting."""
        from prometheus_client.core import GaugeMetricFamily

        yield GaugeMetricFamily(
            "agentrt_longest_step_seconds",
            "Longest time that one task kept all others waiting, since the last collection",
            value=self._steps.take(),
        )

    def _now(self) -> Iterable[Metric]:
        """Yield figures about the open sessions at this moment."""
        from prometheus_client.core import GaugeMetricFamily

        phases: Counter[tuple[str, str]] = Counter()
        queued: Counter[str] = Counter()
        asked: Counter[str] = Counter()
        for session in self._sessions:
            state, agent = session.log.state, session.agent
            phases[agent, state.state.phase] += 1
            queued[agent] += len(state.queue)
            asked[agent] += len(state.permissions)
        sessions = GaugeMetricFamily(
            "agentrt_sessions", "Open sessions, by phase", labels=("agent", "phase")
        )
        for agent in sorted(queued):
            for phase in get_args(Phase):
                sessions.add_metric((agent, phase), phases[agent, phase])
        yield sessions
        for name, help, counts in (
            ("agentrt_queued_prompts", "Prompts that wait for their turn", queued),
            ("agentrt_open_questions", "Questions that wait for an answer", asked),
        ):
            family = GaugeMetricFamily(name, help, labels=("agent",))
            for agent, count in sorted(counts.items()):
                family.add_metric((agent,), count)
            yield family

    def _since_the_start(self) -> Iterable[Metric]:
        """Yield the counters and histograms since the start of the process, by agent."""
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        totals = self._totals
        for name, help, label, pairs in (
            ("agentrt_turns", "Finished turns, by outcome", "outcome", totals.turns),
            (
                "agentrt_permissions",
                "Closed questions, by the party that answered",
                "by",
                totals.permissions,
            ),
            ("agentrt_tokens", "Tokens used by turns, by kind", "kind", totals.tokens),
            ("agentrt_odd_messages", "Unexpected messages", "kind", totals.odd),
        ):
            family = CounterMetricFamily(name, help, labels=("agent", label))
            for labels, count in sorted(pairs.items()):
                family.add_metric(labels, count)
            yield family
        one: tuple[tuple[str, str, Mapping[str, float]], ...] = (
            ("agentrt_restarts", "Restarts of agents", totals.restarts),
            ("agentrt_received_bytes", "Bytes received from agents", totals.bytes),
            ("agentrt_cost_dollars", "Cost of turns, as reported by agents", totals.cost),
        )
        for name, help, numbers in one:
            family = CounterMetricFamily(name, help, labels=("agent",))
            for agent, number in sorted(numbers.items()):
                family.add_metric((agent,), number)
            yield family
        for name, help in (
            ("turn", "Duration of turns"),
            ("first_token", "Time from the start of a turn to its first output"),
            ("tool", "Duration of tool calls, including questions about them"),
            ("permission_wait", "Time spent waiting for people's answers"),
            ("cancel", "Time from a cancel to the end of its turn"),
        ):
            buckets = HistogramMetricFamily(f"agentrt_{name}_seconds", help, labels=("agent",))
            for agent, histogram in sorted(totals.seconds[name].items()):
                buckets.add_metric((agent,), _buckets(histogram), histogram.total)
            yield buckets

    def _of_stores(self) -> Iterable[Metric]:
        """Yield figures about the stores in use; none without a store."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        found = [store.statistics() for store in self._stores]
        states = Counter(store.status.state for store in self._stores)
        state = GaugeMetricFamily("agentrt_store_state", "Stores, by state", labels=("state",))
        for name in _STATES if found else ():
            state.add_metric((name,), states[name])
        yield state
        backlog = GaugeMetricFamily("agentrt_store_backlog_bytes", "Data that waits to be stored")
        size = GaugeMetricFamily("agentrt_store_bytes", "Size of the stores' files")
        commits = CounterMetricFamily("agentrt_store_commits", "Commits")
        seconds = CounterMetricFamily("agentrt_store_commit_seconds", "Time spent in commits")
        failures = CounterMetricFamily("agentrt_store_failures", "Commits that failed")
        if found:
            backlog.add_metric((), sum(each.backlog for each in found))
            size.add_metric((), sum(each.size for each in found))
            commits.add_metric((), sum(each.commits for each in found))
            seconds.add_metric((), sum(each.commit_seconds for each in found))
            failures.add_metric((), sum(each.failures for each in found))
        yield from (backlog, size, commits, seconds, failures)

    def _of_shared_stores(self) -> Iterable[Metric]:
        """Yield figures that exist only for shared stores, combined over all stores here."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        every = [store.shared_statistics() for store in self._stores]
        found = [each for each in every if each is not None]
        lease = GaugeMetricFamily(
            "agentrt_lease_seconds", "Time until agents are ended if the store cannot be reached"
        )
        lag = GaugeMetricFamily(
            "agentrt_replica_lag_seconds",
            "Time for which events of other servers have been unread",
        )
        commands = GaugeMetricFamily(
            "agentrt_commands_waiting", "Commands that wait for other servers"
        )
        waits = GaugeMetricFamily(
            "agentrt_command_wait_seconds", "Time for which the oldest of these commands has waited"
        )
        used = GaugeMetricFamily(
            "agentrt_database_connections", "Connections of all users of the database"
        )
        most = GaugeMetricFamily(
            "agentrt_database_connections_limit", "Maximum number of connections of the database"
        )
        takeovers = CounterMetricFamily(
            "agentrt_takeovers", "Sessions taken over from servers that had failed"
        )
        fenced = CounterMetricFamily(
            "agentrt_fenced", "Sessions that other servers have taken over from this one"
        )
        if found:
            lease.add_metric((), min(each.lease for each in found))
            lag.add_metric((), max(each.lag for each in found))
            commands.add_metric((), sum(each.commands for each in found))
            waits.add_metric((), max(each.waits for each in found))
            takeovers.add_metric((), sum(each.takeovers for each in found))
            fenced.add_metric((), sum(each.fenced for each in found))
        counted = [each for each in found if each.most_connections]
        if counted:
            used.add_metric((), max(each.connections for each in counted))
            most.add_metric((), min(each.most_connections for each in counted))
        yield from (lease, takeovers, fenced, lag, commands, waits, used, most)

    def _of_sites(self) -> Iterable[Metric]:
        """Yield figures about the clients of all servers of this process."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        found = [counts() for counts in self._sites.values()]
        viewers = GaugeMetricFamily("agentrt_viewers", "Connected clients")
        ended = CounterMetricFamily("agentrt_connections", "Failed connections", labels=("end",))
        if found:
            viewers.add_metric((), sum(each["clients"] for each in found))
            for end in ("refused", "dropped", "broken"):
                ended.add_metric((end,), sum(each[end] for each in found))
        yield from (viewers, ended)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Return cumulative buckets, as Prometheus expects them."""
    total, found = 0, []
    for bound, count in zip((*map(str, SECONDS), "+Inf"), histogram.buckets, strict=True):
        total += count
        found.append((bound, float(total)))
    return found
