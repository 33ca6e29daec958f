"""The built-in agent: `python -m agentrt.demo`, a real ACP agent without a model or a network.

With it you can try agentrt without installing anything else, and show a viewer everything that it
must handle: each `/command` demonstrates one feature. It also does small useful work on the folder
that it was opened in, requested in plain sentences.

Of agentrt's own code it uses the line and JSON-RPC parts (`_core/wire`), but nothing of the Agent
Client Protocol: otherwise a misreading of that specification could hide in both.

====================  ==========================================================================
`server.py`           the protocol's methods: sessions, prompts, cancels
`wire.py`             a JSON-RPC connection on two byte streams
`session.py`          a conversation: its settings, its history, remembered permissions
`turn.py`             the work on one prompt: text, tool calls, questions
`answer.py`           the choice of an answer to a prompt
`words.py` `jobs.py`  plain sentences, and the work that they request
`commands.py`         the `/commands`, which are in `shows.py`, `client.py` and `faults.py`
the others            helpers: files, child processes, an MCP client, saved sessions
====================  ==========================================================================
"""
