"""Checks of an agent against its protocol: its reactions to the messages that a host may send. Each
check has its own process.

`peer.py` is the host's end of the connection, which can send any bytes that a check needs;
`acp.py`, `acp2.py`, `codex.py` (all through `rpc.py`) and `claude.py` add the protocols. The other
files are checks, grouped by subject; `run.py` runs them.
"""
