"""The private names that several tests need, each module with the reason.

A test uses the public API if that can show the property; `tests/test_private_imports.py` holds
the number of the others.
"""
