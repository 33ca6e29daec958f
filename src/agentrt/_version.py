"""The version, for those below the package's own names."""

__version__ = "0.1.0"
