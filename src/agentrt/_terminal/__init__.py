"""agentrt in a terminal: one-shot, a line-by-line conversation, and the agents' check."""
