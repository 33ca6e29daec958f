"""The version, in a module that any other can import."""

__version__ = "0.1.0"
