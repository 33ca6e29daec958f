"""The web frontend: many viewers, one story."""
