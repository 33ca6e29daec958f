"""Modules of the package that run as separate processes."""

from __future__ import annotations

import pkgutil
from pathlib import Path
from types import ModuleType


def python_program(module: ModuleType) -> list[str]:
    """Return the arguments for Python to run a module of the package as a program: the path of its
    file, or, in a zip archive, its source."""
    if module.__file__ is not None and Path(module.__file__).is_file():
        return [module.__file__]
    package, _, name = module.__name__.rpartition(".")
    source = pkgutil.get_data(package, f"{name}.py")
    assert source is not None
    return ["-c", source.decode()]
