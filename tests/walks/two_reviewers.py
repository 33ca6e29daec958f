"""Two agents in one nursery: a policy, a tool, a deadline, a budget and stored sessions."""

import trio

import agentrt
from agentrt.errors import BudgetExceeded
from agentrt.store import open_store, reopen_session

POLICY = agentrt.rules(allow=["Read", "Edit(*.txt)"], deny=["Bash(rm:*)"])
findings: list[str] = []


@agentrt.tool
async def record_finding(summary: str) -> str:
    """Record a finding of the review."""
    findings.append(summary)
    return "recorded"


async def review(prompts: list[str], store: agentrt.store.Store, ids: dict[str, str]) -> None:
    options = {"store": store, "permissions": POLICY, "tools": [record_finding]}
    async with agentrt.open_session("demo", **options) as session:
        ids[prompts[0]] = session.id
        for prompt in prompts:
            with trio.move_on_after(5):
                async with session.prompt(prompt) as turn:
                    pass
            print(prompts[0], turn.result.outcome, [each.title for each in turn.result.denials])


async def main() -> None:
    first = ['/tool record_finding {"summary": "no docstring"}', "run rm notes.txt"]
    second = ["create notes.txt with remember the milk", "/slow 60"]
    ids: dict[str, str] = {}
    async with open_store("sessions.db") as store:
        with agentrt.budget(turns=10, seconds=60) as spent:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(review, first, store, ids)
                nursery.start_soon(review, second, store, ids)
            try:
                async with reopen_session(ids[second[0]], store, permissions=POLICY) as session:
                    print([turn.outcome for turn in session.snapshot().turns])
                    while True:
                        await session.run("list the files")
            except BudgetExceeded as error:
                print(error.limit, spent.spent_turns)
    print(findings)


trio.run(main)
