"""agentrt runs a coding agent's conversation as a tree of Trio tasks."""
