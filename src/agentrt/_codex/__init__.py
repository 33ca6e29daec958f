"""The protocol of `codex app-server`: messages, driver (pure)."""
