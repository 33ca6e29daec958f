"""Sandboxes for agents: the view of files and network that an agent's programs get."""
