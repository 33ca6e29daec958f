"""A client of `agentrt.v1`: sessions of a server, from another process."""
