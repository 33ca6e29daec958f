"""The web frontend: many viewers of one log."""
