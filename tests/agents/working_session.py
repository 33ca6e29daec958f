"""A whole working session in a real terminal: Claude Code on a scripted model, in tmux.

`python -m agents.working_session` (from `tests/`) writes its screens into
`docs/guides/repl.md`; the test of the same name compares them with the page.
"""

from __future__ import annotations

import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from terminal.tmux import Tmux, in_tmux

from .lab import Lab, model_server, prepare
from .versions import agents_root

PAGE = Path(__file__).parents[2] / "docs/guides/repl.md"
FENCE = re.compile(
    r"(?<=<!-- screen: )([\w-]+)( -->\n```\{code-block\} text\n)(.*?)(?=```\n)", re.DOTALL
)
READY = "● ready"
ASLEEP = "● paused"  # no agent runs until the next prompt
STARTS = {
    "answer": "❯ Why",
    "question": "❯ Repair",
    "edited": "❯ Repair",
    "running": "❯ Now run",
    "stopped": "❯ Now run",
    "resume": "❯ /resume",
    "resumed": "❯ Now run",
}
"""Where each screen begins: how much is above depends on how high the prompt has been."""
SIZE = (100, 44)
"""Columns and rows of the terminal: the question is shown in full."""
HOME = "/home/you"
BASKET = """\
def total(prices: list[int]) -> int:
    total = 1
    for price in prices:
        total += price
    return total
"""


@contextmanager
def _home() -> Iterator[Path]:
    """A folder whose path is as long as `HOME`, so that rows are shortened and wrapped alike."""
    parent = Path("/tmp")
    digits = len(HOME) - len(f"{parent}/")
    home = parent / secrets.token_hex(digits // 2)
    home.mkdir(mode=0o700)
    try:
        yield home
    finally:
        shutil.rmtree(home, ignore_errors=True)


def working_session(lab: Lab, folder: Path) -> dict[str, str]:
    """Run the session and return its screens by name."""
    screens: dict[str, str] = {}
    path = f"{Path(lab.argv[0]).parent}:{lab.env['PATH']}"
    env = {**lab.env, "PATH": path, "TERM": "tmux-256color"}
    command = [sys.executable, "-m", "agentrt", "--agent", "claude"]
    with _home() as home:
        work = home / "shop"
        work.mkdir()
        (work / "basket.py").write_text(BASKET)
        (folder / "first").mkdir()
        with in_tmux(folder / "first", command, cwd=work, env=env, size=SIZE) as it:
            _work(it, screens)
        assert (work / "basket.py").read_text() == BASKET.replace("total = 1", "total = 0")
        (folder / "second").mkdir()
        with in_tmux(folder / "second", command, cwd=work, env=env, size=SIZE) as it:
            _come_back(it, screens)
    return {
        name: text[text.rindex(STARTS[name]) :].replace(str(home), HOME)
        for name, text in screens.items()
    }


def _work(it: Tmux, screens: dict[str, str]) -> None:
    it.until(READY)
    it.enter("Why is the total wrong? [[why]]")
    it.until("^The total is one too high, because total starts at 1:", "^❯$")
    screens["answer"] = it.until("^ 2 run the tests$", READY)

    it.enter("Repair it, please. [[repair]]")
    screens["question"] = it.until(r"Allow this\?", "│ .    total = 0", r"^y/.*\?$")
    it.enter("y")
    screens["edited"] = it.until("Repaired: total starts at zero now.", READY)

    it.enter("Now run the tests. [[tests]]")
    it.until(r"sleep 297", "working")
    it.enter("And another thing: [[again]]")
    it.type("a draft that stays")
    screens["running"] = it.until("^⏎ And another thing", "^❯ a draft that stays$", "[1-9] s$")
    it.key("C-c")
    stopped = ("^— cancelled$", "paused · Enter resumes", "^❯ a draft that stays$", READY)
    screens["stopped"] = it.until(*stopped)
    it.key("C-c")
    it.until("^❯$")
    it.key("Enter")
    it.until("^Another answer.$", READY)
    it.until(READY, gone="ctrl-c again")
    it.key("C-d")
    it.until("^exit status 0$")


def _come_back(it: Tmux, screens: dict[str, str]) -> None:
    it.until(READY)
    it.enter("/resume")
    screens["resume"] = it.until(r"^❯ /resume 1$", r"^  1  .* · claude · ")
    it.key("Enter")
    it.until("^Another answer.$", ASLEEP)
    it.enter("One more: [[text]]")
    screens["resumed"] = it.until("^Hello from the scripted model.$", READY)
    it.key("C-d")
    it.until("^exit status 0$")


def settled(screen: str) -> str:
    """A screen without what is another thing each time: versions, seconds, shares, spinners."""
    screen = re.sub(r"claude \d\S*", "claude VERSION", screen)
    screen = re.sub(r"\d+(\.\d+)? s\b", "N s", screen)
    screen = re.sub(r"\d+% context · \$[\d.]+|\d+% context|[\d,]+ tokens", "USAGE", screen)
    screen = re.sub(r"just now|\d+ \w+ ago", "AGO", screen)
    return re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", screen)


def shown(page: str) -> dict[str, str]:
    """The screens of the documentation."""
    return {name: text.rstrip("\n") for name, _, text in FENCE.findall(page)}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with model_server(folder) as model:
            screens = working_session(prepare("claude", model, agents_root(), folder), folder)
    page = PAGE.read_text()
    PAGE.write_text(FENCE.sub(lambda m: f"{m[1]}{m[2]}{screens[m[1]].strip()}\n", page))


if __name__ == "__main__":
    main()
