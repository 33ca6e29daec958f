"""agentrt runs a coding agent's conversation as a tree of Trio tasks, and gives the same numbered
events to everyone who watches.

The layers, each importing only what is below it: the terminal and the web frontends; the runtime
(sessions, turns, processes, tools); the drivers `_acp` and `_claude`, which do not know each other;
the wire and the model, which know neither processes nor clocks.

Importing it costs next to nothing: everything public is imported when the first name is used.
"""

import typing as _typing

from ._version import __version__ as __version__

if _typing.TYPE_CHECKING:
    from ._public import *  # noqa: F403 - what it imports is what is public


def __getattr__(name: str) -> object:
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import _public

    found = {key: value for key, value in vars(_public).items() if not key.startswith("_")}
    globals().update(found, __all__=sorted(found))
    if name == "__all__":
        return sorted(found)
    try:
        return found[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None


def __dir__() -> list[str]:
    from . import _public

    return sorted({*globals(), *(name for name in vars(_public) if not name.startswith("_"))})
