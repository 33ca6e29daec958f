"""Runs `agentrt conformance` on the real agents that are installed, on the scripted model, and
prints the table of `docs/project/conformance.md`.

    PYTHONPATH=tests python -m agents.conformance [--traces DIR] [--reports DIR] [AGENT ...]
    PYTHONPATH=tests python -m agents.conformance --acp-version 2 [AGENT ...]
    PYTHONPATH=tests python -m agents.conformance --table DIR

With --reports, each agent's report is kept as it was printed; --table makes the table of such.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .lab import model_server, prepare
from .modelserver.scripts import Shell, Text, prompt_for
from .recipes import CLAUDES, RECIPES, package_of
from .versions import agents_root

MARKS = {"passed": "✓", "failed": "✗", "different": "~", "unsupported": "–", "inconclusive": "?"}
SOURCE = Path(__file__).parents[2] / "src"
PROMPTS = {
    "--text": prompt_for([[Text("Hello from the scripted model.")]]),
    "--long": prompt_for([[Text("word " * 300, chunk=5, pace=0.1)]]),
    "--permission": prompt_for(
        [[Shell("touch agentrt-checked.txt")], [Text("The command is finished.")]]
    ),
}
SECONDS = "40"
"""For one check."""


def report_of(agent: str, traces: Path | None, acp_version: str = "1") -> dict[str, Any]:
    """What `agentrt conformance` says of an agent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with model_server(folder) as model:
            lab = prepare(agent, model, agents_root(), folder)
            protocol = "claude" if agent in CLAUDES else "codex" if agent == "codex" else "acp"
            argv = [sys.executable, "-m", "agentrt", "conformance", "--output-format=json"]
            argv += ["--timeout", SECONDS, "--protocol", protocol]
            if protocol == "acp":
                argv += ["--acp-version", acp_version]
            for option, prompt in PROMPTS.items():
                argv += [f"{option}={prompt}"]
            if traces is not None:
                argv += ["--traces", str(traces / agent)]
            argv += ["--", shlex.join(lab.argv)]
            env = {**lab.env, "PYTHONPATH": str(SOURCE)}
            done = subprocess.run(argv, env=env, cwd=lab.work, capture_output=True, check=False)
    if not done.stdout:
        raise SystemExit(f"{agent}: {done.stderr.decode()}")
    report: dict[str, Any] = json.loads(done.stdout)
    return {**report, "agent": agent}


def table(reports: list[dict[str, Any]]) -> str:
    """Return a table of checks by agents, and a list of the failures."""
    rows = [["check", "", *(f"`{report['agent']}`" for report in reports)]]
    rows.append(["---"] * len(rows[0]))
    by_agent = [{each["check"]: each for each in report["findings"]} for report in reports]
    for each in reports[0]["findings"]:
        found = [findings.get(each["check"]) for findings in by_agent]
        marks = [MARKS[one["verdict"]] if one is not None else "" for one in found]
        level = "" if each["level"] == "open" else each["level"]
        rows.append([f"[`{each['check']}`]({each['where']})", level, *marks])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", "Failed checks:", ""]
    for report in reports:
        for each in report["findings"]:
            if each["verdict"] == "failed":
                words = " ".join(each["words"].split())
                lines.append(f"- `{report['agent']}`, `{each['check']}` ({each['level']}): {words}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("agents", nargs="*", metavar="AGENT")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--reports", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--acp-version", default="1")
    options = parser.parse_args()
    if options.table is not None:
        files = sorted(options.table.glob("*.json"))
        print(table([json.loads(file.read_text()) for file in files]))
        return
    installed = [name for name in RECIPES if package_of(name).installed(agents_root())]
    reports = []
    for agent in options.agents or installed:
        reports.append(report_of(agent, options.traces, options.acp_version))
        if options.reports is not None:
            options.reports.mkdir(parents=True, exist_ok=True)
            (options.reports / f"{agent}.json").write_text(json.dumps(reports[-1], indent=1))
    print(table(reports))


if __name__ == "__main__":
    main()
