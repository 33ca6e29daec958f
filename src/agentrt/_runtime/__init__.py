"""Sessions, turns, processes and tools: the part of agentrt that runs under Trio."""
