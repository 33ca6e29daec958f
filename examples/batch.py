"""Run a folder of prompts, several at a time, each with a deadline.

    python examples/batch.py PROMPTS RESULTS

`PROMPTS` contains one `.txt` file per prompt. The answer of each goes to a file of the same name in
`RESULTS`. The exit status is 1 if a prompt had no answer.
"""

import os
import sys

import trio

import agentrt

AGENT = os.environ.get("EXAMPLE_AGENT", "demo")
AT_A_TIME = 2
DEADLINE_S = 60


async def run(
    prompt: trio.Path, results: trio.Path, limiter: trio.CapacityLimiter, failed: list[str]
) -> None:
    async with limiter:
        result: agentrt.TurnResult | None = None
        async with agentrt.open_session(AGENT, cwd=".", permissions=agentrt.deny_all) as session:
            with trio.move_on_after(DEADLINE_S):
                result = await session.run(await prompt.read_text(), check=False)
        if result is None:
            outcome = "timed out"
        else:
            outcome = result.outcome
            await (results / prompt.name).write_text(result.text)
        if outcome != "completed":
            failed.append(prompt.name)
        print(f"{prompt.name}: {outcome}")


async def main(prompts: trio.Path, results: trio.Path) -> int:
    await results.mkdir(exist_ok=True)
    limiter = trio.CapacityLimiter(AT_A_TIME)
    failed: list[str] = []
    async with trio.open_nursery() as nursery:
        for prompt in sorted(await prompts.glob("*.txt")):
            nursery.start_soon(run, prompt, results, limiter, failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(trio.run(main, trio.Path(sys.argv[1]), trio.Path(sys.argv[2])))
