"""The names of all checks: no report leaves one out, and each has an agent that fails it.

A report names only the checks that were made. The command names all in the refusal of another name.
"""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr
from functools import cache
from typing import Literal

from in_process import main


@cache
def names_of_checks(protocol: Literal["acp", "codex"], version: Literal[1, 2] = 1) -> list[str]:
    """Return the names of all checks, in order."""
    options = ["--protocol", protocol]
    options += ["--acp-version", "2"] if version == 2 else []
    with redirect_stderr(io.StringIO()) as said:
        main(["conformance", *options, "--only", "none such", "--", sys.executable, "-c", ""])
    _, _, names = said.getvalue().strip().partition("checks: ")
    return names.split(", ")
