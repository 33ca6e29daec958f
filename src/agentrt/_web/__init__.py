"""The web frontend: many viewers, one log."""
