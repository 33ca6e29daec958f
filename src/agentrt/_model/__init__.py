"""The conversation, pure: content, events, the turn, the state and the numbered log."""
