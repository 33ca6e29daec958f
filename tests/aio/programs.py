"""Programs on asyncio that are ended in the middle of a turn, and say what is left. Run with the
name of one: `python -m aio.programs NAME`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import psutil

from agentrt import aio

Main = Callable[[], Coroutine[Any, Any, None]]


async def in_a_turn(then: Callable[[], object]) -> None:
    async with aio.open_session("demo") as session:
        async with session.prompt("/slow 60") as turn:
            print("in a turn", flush=True)
            async for _ in turn:
                then()
                await asyncio.sleep(60)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def fail() -> None:
    raise ZeroDivisionError


async def interrupted() -> None:
    await in_a_turn(interrupt)


async def failed() -> None:
    await in_a_turn(fail)


async def left() -> None:
    """Its main function returns while another task is in a turn."""
    running = asyncio.Event()
    task = asyncio.create_task(in_a_turn(running.set))
    await running.wait()
    assert not task.done()


async def cancelled() -> None:
    """One of its tasks is in a turn and cancelled there; the program goes on to its end."""
    running = asyncio.Event()
    async with aio.open_session("demo") as session:

        async def turn() -> None:
            async with session.prompt("/slow 60") as turn:
                async for _ in turn:
                    running.set()

        task = asyncio.create_task(turn())
        await running.wait()
        print("in a turn", flush=True)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert session.state.turn is None
        print([turn.outcome for turn in session.log.state.turns.values()])
    assert asyncio.all_tasks() == {asyncio.current_task()}


def by_hand(main: Main) -> None:
    """Without `asyncio.run`, which has a handler of its own for SIGINT."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(main())
    finally:
        rest = asyncio.all_tasks(loop)
        for task in rest:
            task.cancel()
        if rest:
            loop.run_until_complete(asyncio.wait(rest))
        loop.close()


def on_uvloop(main: Main) -> None:
    import uvloop

    uvloop.run(main())


ENDINGS = (interrupted, failed, left, cancelled)


def main() -> None:
    # Whatever a shell has started in the background inherits it as ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    programs: dict[str, Main] = {each.__name__: each for each in ENDINGS}
    runs: dict[str, Callable[[Main], None]] = {
        "asyncio": lambda program: asyncio.run(program()),
        "by_hand": by_hand,
        "uvloop": on_uvloop,
    }
    try:
        runs[sys.argv[1]](programs[sys.argv[2]])
    except (KeyboardInterrupt, ZeroDivisionError) as error:
        print(type(error).__name__)
    busy = {each.name for each in threading.enumerate() if each is not threading.main_thread()}
    print("threads", sorted(name for name in busy if not name.startswith("Trio thread ")))
    print("processes", psutil.Process().children(recursive=True))


if __name__ == "__main__":
    main()
