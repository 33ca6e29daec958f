"""A plugin of pytest, loaded before all others: where bytecode is kept.

With `PYTHONDONTWRITEBYTECODE`, each of the hundreds of programs that the tests start would compile
all of the package for itself, and each worker rewrite the assertions of every plugin.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path

if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
    cache = Path(__file__).parents[1] / ".pytest_cache/bytecode"
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(cache)
    sys.dont_write_bytecode = False
    # What pip has compiled, in spite of that variable, is looked for there as well.
    for compiled in Path(sysconfig.get_path("purelib")).rglob("__pycache__/*.pyc"):
        folder = cache / compiled.parents[1].relative_to("/")
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            (folder / compiled.name).symlink_to(compiled)
