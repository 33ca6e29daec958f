"""Prints the README's table of agents, from a full run of the scenarios.

    python tests/agents/table.py [--denials] [--junit FILE]

With --junit, the table is made from the report of a run that already happened
(`pytest tests/agents/test_scenarios.py --junitxml=FILE`). With --denials it is the table of
docs/guides/permissions.md, from a run of `test_denials.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from expectations import EXPECTATIONS
from versions import HERE, PACKAGES

SCENARIOS = {
    "text": "a_text_is_answered",
    "tool": "an_allowed_command_is_run",
    "deny": "a_denied_tool_call_does_nothing",
    "cancel: text": "a_cancel_while_text_streams_ends_the_turn",
    "at once": "a_cancel_right_behind_the_prompt_ends_the_turn",
    "command": "a_cancel_while_a_command_sleeps_ends_the_turn",
    "question": "a_cancel_at_an_open_permission_ends_the_turn",
    "two prompts": "each_of_two_prompts_gets_its_own_answer",
    "kill -9": "after_a_kill_the_next_prompt_is_answered",
    "own tool": "an_agent_calls_a_tool_of_this_process",
}
LACKS = {"deny": "asks", "question": "asks", "own tool": "takes_tools"}
"""By column, the ability without which an agent cannot do it."""
MARKS = {"passed": "✓", "failed": "✗", "skipped": "not installed", "": ""}


def outcomes(report: Path) -> dict[str, dict[str, str]]:
    """How each scenario went, by agent and test name without `test_`."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for case in ElementTree.parse(report).iter("testcase"):
        name, _, agent = case.attrib["name"].removesuffix("]").partition("[")
        parts = {child.tag for child in case}
        bad = parts & {"failure", "error"}
        outcome = "failed" if bad else "skipped" if "skipped" in parts else "passed"
        found[agent][name.removeprefix("test_")] = outcome
    return found


def table(report: Path) -> str:
    went = outcomes(report)
    rows = [["agent", "version", "protocol", *SCENARIOS, "notes"]]
    for name, expected in EXPECTATIONS.items():
        package = PACKAGES[name]
        able = {column: getattr(expected, lack) for column, lack in LACKS.items()}
        marks = [
            MARKS[went[name].get(test, "")] if able.get(column, True) else "–"
            for column, test in SCENARIOS.items()
        ]
        title = f"{package.title} (`{name}`)"
        rows.append([title, package.version, package.protocol, *marks, expected.notes])
    rows.insert(1, ["---"] * len(rows[0]))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def denials(report: Path) -> str:
    """The table of what becomes of denied calls."""
    rows = [
        '| agent | after "always" | in its other modes | after a plan | in a second session |',
        "|---|---|---|---|---|",
    ]
    for each in ElementTree.parse(report).iter("property"):
        if each.attrib["name"] == "row":
            rows.append(each.attrib["value"])
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print the table of agents.")
    parser.add_argument("--junit", type=Path, metavar="FILE")
    parser.add_argument("--denials", action="store_true")
    asked = parser.parse_args()
    make, tests = (denials, "test_denials.py") if asked.denials else (table, "test_scenarios.py")
    if asked.junit:
        print(make(asked.junit))
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        argv = [
            sys.executable,
            "-m",
            "pytest",
            HERE / tests,
            "-q",
            "--slow",
            f"--junitxml={report}",
        ]
        run = subprocess.run(argv, stdout=sys.stderr)
        print(make(report))
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
