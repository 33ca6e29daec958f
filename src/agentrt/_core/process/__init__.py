"""The agent's process: its start, its pipes, and the end of everything that it has started."""
