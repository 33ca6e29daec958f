"""What production sees of sessions: spans and metrics, made of their events."""
