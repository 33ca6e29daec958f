"""`python -m modelserver`: serve until standard input ends; the first line printed is the URL."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

import trio

from .server import serve


def main() -> None:
    parser = argparse.ArgumentParser(prog="modelserver", description="Scripted models on loopback.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, help="NDJSON file that notes each request and its end")
    parser.add_argument("--bodies", type=Path, help="folder that receives whole request bodies")
    asked = parser.parse_args()
    trio.run(partial(serve, port=asked.port, log=asked.log, bodies=asked.bodies))


if __name__ == "__main__":
    main()
