"""Sessions of a server, from another process: a client of `agentrt.v1`."""
