"""Autobahn's cases for servers, on our connections.

    PYTHONPATH=tests python -m web.autobahn [--python2 PATH]

The suite needs Python 2.7, which hardly any machine has; so it is no part of the tests, which have
`test_websocket_frames.py` instead. It is installed into a folder of the cache. Left out are the
cases about binary messages, which are refused here (1.2, 9.2, 9.4, 9.6, 9.8), and those about
compression, which is not offered (12, 13). The exit code is 1 when a case fails.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import trio

from web.sockets import Echoes, everybody_is_let_in, site

SUITE = "autobahntestsuite==25.10.1"
CACHE = Path.home() / ".cache" / "agentrt-autobahn"
CASES = ["1.*", "2.*", "3.*", "4.*", "5.*", "6.*", "7.*", "9.*", "10.*"]
BINARY = ["1.2.*", "9.2.*", "9.4.*", "9.6.*", "9.8.*"]
FINE = {"OK", "INFORMATIONAL"}


def install(python: str) -> Path:
    """The suite's folder."""
    folder = CACHE / SUITE
    if not (folder / "autobahntestsuite").is_dir():
        command = [python, "-m", "pip", "install", "--quiet", "--target", str(folder), SUITE]
        subprocess.run(command, check=True)
        # pip makes no package of a namespace, and Python 2 knows no other.
        (folder / "zope" / "__init__.py").touch()
    return folder


async def run(python: str) -> dict[str, dict[str, str]]:
    """What became of each case."""
    folder = await trio.to_thread.run_sync(install, python)
    reports = CACHE / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    # The cases about limits send up to 16 MB, and some a hundred thousand frames.
    bounds = {"frame": 32 << 20, "ws_frames_per_s": 10**7, "ping": 3600.0}
    with everybody_is_let_in():  # the suite can show no token
        async with site(Echoes(), **bounds) as running:
            await trio.to_thread.run_sync(fuzz, python, folder, running.port)
            assert running.statistics().broken == 0
    told: dict[str, dict[str, str]] = json.loads((reports / "index.json").read_text())["agentrt"]
    return told


def fuzz(python: str, folder: Path, port: int) -> None:
    """Run the cases against a server."""
    spec = CACHE / "spec.json"
    server = {"agent": "agentrt", "url": f"ws://127.0.0.1:{port}/ws", "options": {"version": 18}}
    wanted = {
        "outdir": str(CACHE / "reports"),
        "servers": [server],
        "cases": CASES,
        "exclude-cases": BINARY,
        "exclude-agent-cases": {},
    }
    spec.write_text(json.dumps(wanted))
    suite = [python, "-m", "autobahntestsuite.wstest", "-m", "fuzzingclient", "-s", str(spec)]
    env = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(suite, env=env, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python2", default=shutil.which("python2.7"), metavar="PATH")
    python = parser.parse_args().python2
    if python is None:
        sys.exit("Autobahn's suite needs Python 2.7: say where it is with --python2")
    told = trio.run(run, python)
    bad = {case: each for case, each in told.items() if not outcome(each) <= FINE}
    for case, each in bad.items():
        print(case, each["behavior"], each["behaviorClose"])
    counts = Counter(each["behavior"] for each in told.values())
    print(f"{len(told)} cases: {', '.join(f'{n} {what}' for what, n in counts.items())}")
    sys.exit(bool(bad))


def outcome(case: dict[str, str]) -> set[str]:
    return {case["behavior"], case["behaviorClose"]}


if __name__ == "__main__":
    main()
