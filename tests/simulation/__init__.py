"""The whole runtime against agents in memory, decided by one seed.

`world.py` puts a session, its viewers and its agent together and takes one step after the other;
`rules.py` are the steps; `acp_agent.py`, `acp2_agent.py`, `claude_agent.py` and `codex_agent.py`
are programs that speak the protocols plausibly and break at any point; `checker.py` knows what must
hold, from the design's invariants and the wire's, and not from the code. `python -m simulation`
(with `tests` on the path) runs it; `kept.py` is the store of a session that is stored, `lives.py`
loses its host and goes on with the next one; `defects.py` are the mistakes that it must find.
"""
