"""What an agent does with what a host may send: checks against its protocol, each with a process of
its own.

`peer.py` is the host's end of the wire, which may be as odd as a check likes; `acp.py`, `codex.py`
(both by way of `rpc.py`) and `claude.py` speak the protocols on it. The other files are checks, by
what they are about; `run.py` runs them.
"""
