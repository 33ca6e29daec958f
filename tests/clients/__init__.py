"""Clients of other people, unchanged, against the dialects that are theirs."""
