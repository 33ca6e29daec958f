from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path

import msgspec
import trio

from postgres.server import make_guest, serving

from .history import check, disturbed
from .run import Plan, run
from .run import __doc__ as words


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="cluster", description=words, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for field in msgspec.structs.fields(Plan):
        name = f"--{field.name}"
        if field.type is bool:
            parser.add_argument(name, action="store_true")
        else:
            parser.add_argument(name, type=field.type, default=field.default, metavar="N")
    plan = msgspec.convert(vars(parser.parse_args()), Plan)
    folder = Path(tempfile.mkdtemp(prefix="agentrt-cluster-"))
    print(f"{plan}\nlogs are in {folder}; load {os.getloadavg()}", flush=True)
    with serving() as server:
        make_guest(server)
        outcome = trio.run(run, plan, folder, server)
    (folder / "history.json").write_bytes(msgspec.json.encode(outcome.history))
    for name, number in outcome.numbers.items():
        print(f"{number:10} {name}")
    print(f"load {os.getloadavg()}")
    found = check(outcome.history)
    if plan.rolling:
        found += disturbed(outcome.history)
    else:
        refusals = Counter(each for said in outcome.history.said for each in said.refused)
        for reason, count in refusals.most_common(12):
            print(f"{count:10} refused: {reason}")
    for each in found[:50]:
        print(f"WRONG: {each}")
    print(f"{len(found)} things are wrong" if found else "all is well")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
