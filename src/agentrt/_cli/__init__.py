"""agentrt in a terminal: one-shot mode, interactive sessions, and the other commands."""
