"""Tools, hooks and extensions that a program provides to its agent."""
