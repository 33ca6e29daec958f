"""Monitoring of sessions in production: spans and metrics, made from their events."""
