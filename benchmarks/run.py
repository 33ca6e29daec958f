"""Measure agentrt beside the limit, the reference and its peers, print the figures, and judge them.

    python benchmarks/run.py [--rounds 5] [--quick] [--workloads flood,turns] [--no-install]
                             [--contestants agentrt,limit] [--protocol acp] [--agentrt PYTHON]
                             [--no-pin] [--page]

Rounds are interleaved, each contestant once a round and in a process of its own. Shown are medians;
ratios are taken inside a round first, and that to "the best peer" is to the peer that was best in
the round. Hosts run on one processor and agents on the others, unless `--no-pin` is given. With
`--page`, agentrt is also measured alone (`ALONE`), and all figures become the page in the
documentation (`page.py`), with their raw rows. The exit code is 1 when a target was missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import lab
import page
from page import Round, median, number, ratio, reached, value
from workloads import WORKLOADS, Out, Target, Workload

CONTESTANTS = Path(__file__).parent / "contestants"
IMPORTS = {"agentrt": "import agentrt", "python": "import acp", "limit": "import trio, msgspec"}
SCRIPTS = {
    "agentrt": "agentrt.py",
    "reference": "reference.py",
    "limit": "limit.py",
    "python": "{protocol}_py.py",
    "typescript": "{protocol}_ts.mjs",
}


ALONE = (
    ("pauses.py", "--only", "many,long,growth"),
    ("pauses.py", "--only", "many,long", "--freeze"),
    ("crowd.py",),
    ("long.py",),
    ("store.py",),
)
"""What agentrt is measured at without others, for the page."""
SMALLER = ("crowd.py", "store.py")
"""Those that have a quick form."""


class Bench:
    """The contestants that exist here, and how each is run."""

    def __init__(
        self, *, quick: bool, install: bool, only: str | None = None, agentrt: str = sys.executable
    ) -> None:
        self.quick = quick
        self.only = None if only is None else only.split(",")
        self.agentrt = agentrt
        self.agent = lab.build_agent()
        self.peers = {protocol: lab.peer(protocol, install=install) for protocol in lab.PEERS}
        self.npm = lab.node_modules(install=install)
        home = lab.LAB / "home"
        home.mkdir(exist_ok=True)
        self.environment = {
            **os.environ,
            "HOME": str(home),
            "CLAUDE_CONFIG_DIR": str(home),
            "BENCH_NPM": str(self.npm),
        }

    def round(self, workload: Workload, protocol: str) -> Round:
        names = [name for name in workload.contestants if self.has(name, protocol)]
        measure = self.imported if workload.name == "import" else self.worked
        outs = {name: measure(workload, name, protocol) for name in names}
        shown = {name: out["chars"] for name, out in outs.items() if "chars" in out}
        whole = max(shown.values(), default=0)
        for name, chars in shown.items():
            if chars != whole:  # a host that loses text is not fast
                outs[name] = {"error": f"showed {chars} characters of {whole}"}
        return outs

    def has(self, contestant: str, protocol: str) -> bool:
        if self.only is not None and contestant not in self.only:
            return False
        if contestant == "typescript":
            return self.npm is not None
        return contestant != "python" or self.peers[protocol] is not None

    def interpreter(self, contestant: str, protocol: str) -> str:
        if contestant == "typescript":
            return "node"
        if contestant == "agentrt":
            return self.agentrt
        return str(self.peers[protocol]) if contestant == "python" else sys.executable

    def worked(self, workload: Workload, contestant: str, protocol: str) -> Out:
        parameters = workload.told(quick=self.quick) | {"protocol": protocol}
        file = lab.LAB / f"agent-{os.getpid()}.json"
        file.unlink(missing_ok=True)
        prompt = parameters.get("prompt", "").format(**parameters, file=file)
        spec = parameters | {"prompt": prompt, "agent": str(self.agent), "file": str(file)}
        script = CONTESTANTS / SCRIPTS[contestant].format(protocol=protocol)
        command = [self.interpreter(contestant, protocol), str(script), json.dumps(spec), protocol]
        start = time.monotonic_ns()
        try:
            ran = subprocess.run(
                command,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=spec["timeout"] + 30,
            )
            out: Out = json.loads(ran.stdout.splitlines()[-1])
        except subprocess.TimeoutExpired:
            return {"error": "does not end"}
        except (IndexError, ValueError):
            return {"error": ran.stderr.strip()[-300:] or f"exit code {ran.returncode}"}
        finally:
            file.unlink(missing_ok=True)
        if "first_ns" in out:
            out["first_ms"] = (out["first_ns"] - start) / 1e6
        return out | {"spec": parameters}

    def imported(self, workload: Workload, contestant: str, protocol: str) -> Out:
        """The CPU of the least disturbed of three imports."""

        def once() -> float:
            child = subprocess.Popen(
                [self.interpreter(contestant, protocol), "-c", IMPORTS[contestant]],
                env=self.environment,
            )
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            return (usage.ru_utime + usage.ru_stime) * 1e3

        return {"cpu_ms": min(once() for _ in range(3))}


def table(workload: Workload, protocol: str, rounds: list[Round], *, quick: bool) -> None:
    heads = [name for name in SCRIPTS if any(name in r for r in rounds)]
    print(f"\n{workload.name} · {protocol}: {workload.title.format(**workload.told(quick=quick))}")
    print(f"  {'':26}" + "".join(f"{head:>{10 if head == 'agentrt' else 19}}" for head in heads))
    for figure in workload.figures.values():
        row = ""
        for name in heads:
            row += f"{number(median([value(r.get(name), figure) for r in rounds])):>10}"
            if name != "agentrt":
                by = number(ratio(rounds, figure, name), ",.2f")
                row += f"  {'' if by == '-' else f'×{by}':<7}"
        print(f"  {figure.title:26}{row}".rstrip())
    for name in heads:
        errors = [r[name]["error"] for r in rounds if "error" in r.get(name, {})]
        if errors:
            print(f"  {name}: failed in {len(errors)} of {len(rounds)} rounds: {errors[0]}")


def judge(workload: Workload, target: Target, rounds: list[Round]) -> tuple[str, str]:
    """The verdict (PASS, FAIL or, without the other one, SKIP) and what it rests on."""
    figure = workload.figures[target.figure]
    claim = f"{workload.name} · {target.protocol}: {figure.title}"
    got = reached(target, figure, rounds)
    unit = "" if target.than is None else f" × the {target.than}'s"
    wanted = f"{'at least' if figure.rate else 'at most'} {number(target.bound)}{unit}"
    if got is None:
        lost = all("error" in r.get("agentrt", {"error": ""}) for r in rounds)
        who = "agentrt" if lost else f"the {target.than}"
        return "FAIL" if lost else "SKIP", f"{claim}: {wanted}, but {who} has no figure"
    good = got >= target.bound if figure.rate else got <= target.bound
    return "PASS" if good else "FAIL", f"{claim}: {number(got)}, {wanted}"


def judge_alone(row: dict[str, Any]) -> tuple[str, str]:
    """The same for a figure of agentrt alone."""
    reason = f"{row['figure']}: {number(median(row['values']))}, at most {number(row['at_most'])}"
    return "PASS" if page.holds(row) else "FAIL", reason


def machine() -> str:
    """Where and when this is measured."""
    size = "quick, " if "--quick" in sys.argv else ""
    loads, processors = os.getloadavg(), os.cpu_count() or 1
    shown = " ".join(f"{load:.1f}" for load in loads)
    busy = (
        ". Other programs kept the processors busy: rates and latencies tell little, so compare CPU"
        if min(loads) > processors
        else ""
    )
    return (
        f"{time.strftime('%-d %B %Y')} ({size}Python {platform.python_version()},"
        f" {processors} processors, load averages {shown}){busy}"
    )


def alone(*, quick: bool) -> list[dict[str, Any]]:
    """Run the benchmarks of agentrt alone, and read the rows of their figures."""
    with tempfile.NamedTemporaryFile("r", suffix=".jsonl") as rows:
        for name, *arguments in ALONE:
            arguments += ["--quick"] * (quick and name in SMALLER)
            print(f"\n=== {' '.join([name, *arguments])}", flush=True)
            script = Path(__file__).with_name(name)
            subprocess.run([sys.executable, script, "--rows", rows.name, *arguments])
        return [json.loads(line) for line in rows]


def pin() -> None:
    """Give the hosts one processor of their own: the kernel's placement moves a median sixfold.

    Their agents leave it for the others (`fakeagent.c`).
    """
    if not hasattr(os, "sched_setaffinity"):
        print("this system cannot pin processes: the kernel places them", file=sys.stderr)
    elif len(processors := os.sched_getaffinity(0)) > 1:
        os.sched_setaffinity(0, {max(processors)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, help="default: 5, quick: 2")
    parser.add_argument("--quick", action="store_true", help="smaller workloads, fewer rounds")
    parser.add_argument("--workloads", default=",".join(w.name for w in WORKLOADS))
    parser.add_argument("--protocol", choices=["acp", "claude"], help="default: both")
    parser.add_argument("--no-install", action="store_true", help="only peers that are there")
    parser.add_argument("--contestants", help="default: all; without the others no ratios")
    parser.add_argument(
        "--agentrt", default=sys.executable, help="a Python that has the agentrt to be measured"
    )
    parser.add_argument("--no-pin", action="store_true", help="let the kernel place host and agent")
    parser.add_argument("--page", action="store_true", help="write the page of the documentation")
    arguments = parser.parse_args()
    everywhere = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else set()
    if not arguments.no_pin:
        pin()
    where = machine()  # before anything runs: its load is none of ours
    chosen = arguments.workloads.split(",")
    bench = Bench(
        quick=arguments.quick,
        install=not arguments.no_install,
        only=arguments.contestants,
        agentrt=arguments.agentrt,
    )
    verdicts, rows = [], []
    for workload in (w for w in WORKLOADS if w.name in chosen):
        protocols = [p for p in workload.protocols if arguments.protocol in (None, p)]
        rounds: dict[str, list[Round]] = {protocol: [] for protocol in protocols}
        for _ in range(arguments.rounds or (2 if arguments.quick else 5)):
            for protocol in protocols:
                rounds[protocol].append(bench.round(workload, protocol))
        for protocol in protocols:
            table(workload, protocol, rounds[protocol], quick=bench.quick)
            rows += page.rows_of(workload, protocol, rounds[protocol])
        targets = [target for target in workload.targets if target.protocol in rounds]
        verdicts += [judge(workload, target, rounds[target.protocol]) for target in targets]
    if arguments.page:
        if everywhere:
            os.sched_setaffinity(0, everywhere)  # these place their processes themselves
        more = alone(quick=arguments.quick)
        page.write(where, rows + more)
        verdicts += [judge_alone(row) for row in more if row["at_most"] is not None]
    print()
    for verdict, reason in verdicts:
        print(f"{verdict}  {reason}")
    return any(verdict == "FAIL" for verdict, _ in verdicts)


if __name__ == "__main__":
    sys.exit(main())
