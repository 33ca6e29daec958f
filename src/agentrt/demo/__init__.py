"""The built-in agent: `python -m agentrt.demo`, a real ACP agent without a model or a network.

It is there so that a first try of agentrt needs nothing else installed, and so that a viewer can be
shown everything it must handle, on request: each `/command` shows one thing. It also does small
useful work on the folder it was opened in, asked for in plain words.

Of agentrt's own side it uses the lines and JSON-RPC (`_wire`), and nothing of the Agent Client
Protocol: a misreading of that specification must not be able to hide in both.

====================  ==========================================================================
`server.py`           the protocol's methods: sessions, prompts, cancels
`wire.py`             a JSON-RPC connection on two byte streams
`session.py`          a conversation: its settings, its history, what was allowed
`turn.py`             one prompt's work: what it says, its tool calls, its questions
`answer.py`           what a prompt is answered with
`words.py` `jobs.py`  plain words, and the work they ask for
`commands.py`         the `/commands`, which are in `shows.py`, `client.py` and `faults.py`
the others            what these need: files, child processes, an MCP client, saved sessions
====================  ==========================================================================
"""
