"""The core: everything that embedding a session loads."""
