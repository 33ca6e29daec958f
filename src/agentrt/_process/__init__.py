"""The agent's process: its start and its pipes, and the end of everything that it has started."""
