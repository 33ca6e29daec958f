"""The private names that several tests need, and the tests of the inside itself.

A test uses the public API if that can show the property. Each module here gives the reason why its
names or its tests cannot; `tests/test_private_imports.py` holds the number of the others.
"""
