"""The protocol of `codex app-server`, without I/O: messages and driver."""
