"""Coverage-guided fuzzing of every target: `nox -s fuzz -- --seconds 60 acp_driver claude_driver`.

Each target runs in a process of its own, in which agentrt is instrumented, so that atheris sees
what its bytes reach. What is found is printed with its bytes in hexadecimal digits, which make it
happen again: `TARGETS[name](bytes.fromhex(digits))`. It is worth a test with a name of its own.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).parents[1]
LONGEST = 600
"""Bytes of one input: decisions enough for two dozen broken messages."""
SEEDS = 64


def fuzz(name: str, arguments: list[str]) -> None:
    """Does not return."""
    import atheris

    sys.path.insert(0, str(TESTS))
    with atheris.instrument_imports(include=["agentrt"]):
        from fuzz.targets import TARGETS

    atheris.Setup([sys.argv[0], *arguments], TARGETS[name])
    atheris.Fuzz()


def run(name: str, seconds: int, seed: int) -> bool:
    """Fuzz one target in a process of its own; whether nothing was found."""
    with tempfile.TemporaryDirectory() as folder:
        corpus, found = Path(folder, "corpus"), Path(folder, "found")
        corpus.mkdir()
        chance = random.Random(seed)
        for number in range(SEEDS):
            seed_bytes = chance.randbytes(chance.randrange(LONGEST))
            (corpus / str(number)).write_bytes(seed_bytes)
        limits = [f"-max_total_time={seconds}", f"-max_len={LONGEST}", "-timeout=60"]
        done = subprocess.run(
            [
                *(sys.executable, __file__, "--one", name, "--"),
                *limits,
                *(f"-seed={seed}", f"-artifact_prefix={found}", str(corpus)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        runs = re.search(r"Done (\d+) runs in (\d+) second", done.stdout)
        if done.returncode == 0 and runs is not None:
            print(f"{name:16} {int(runs[1]):9} runs in {runs[2]} s", flush=True)
            return True
        print(f"{name:16} FOUND SOMETHING\n{done.stdout[-6000:]}", flush=True)
        for artifact in Path(folder).glob("found*"):
            print(f"{artifact.name}: {artifact.read_bytes().hex()}", flush=True)
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(2**31))
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        fuzz(given.one, given.targets)
    sys.path.insert(0, str(TESTS))
    from fuzz.targets import TARGETS

    print(f"seed {given.seed}", flush=True)
    good = [run(name, given.seconds, given.seed) for name in given.targets or TARGETS]
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
