"""Tests of the Claude Code side."""
