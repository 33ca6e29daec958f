"""For programs that show sessions to people: the parts of a request, and text that is safe to show.

Text from an agent may contain escape sequences and characters that mislead a reader; `reveal`
spells them out.

`request_parts` divides a permission request into the parts that a person must see before allowing
it, such as the command, the paths and a change as a diff; `form_parts` does so for a form. Show all
of them completely: a part that is cut may hide the reason to reject.

`difference` compares the state that a viewer shows with a newer snapshot, and returns the events
that lead from one to the other. A viewer that was disconnected then needs no second way of updating
itself.
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
