"""The conversation model, without I/O: content, events, turn, state and the numbered log."""
