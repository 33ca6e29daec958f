"""For programs that show sessions to people: the parts of a request, and text that is safe to show.

Text from an agent may contain escape sequences and characters that mislead a reader; `reveal`
spells them out.
"""

from ._core.model.difference import difference
from ._core.model.events import cut
from ._core.model.request_parts import TITLE_CHARS, PartKind, RequestPart, form_parts, request_parts
from ._core.model.reveal import reveal

__all__ = [
    # text
    "reveal",
    "cut",
    # requests
    "request_parts",
    "form_parts",
    "RequestPart",
    "PartKind",
    "TITLE_CHARS",
    # a session that was shown before
    "difference",
]
