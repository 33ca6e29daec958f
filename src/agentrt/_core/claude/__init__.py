"""Claude Code's stream-json and control protocol, without I/O. Nothing here imports Trio."""
