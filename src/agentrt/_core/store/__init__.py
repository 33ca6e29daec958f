"""Stores, which keep sessions longer than the process that ran them."""
