"""Stores in PostgreSQL, which several processes may share."""
