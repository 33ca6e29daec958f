"""The diffs of changes that Codex reports.

Broken and partial patches are read, which Codex itself does not write.
"""

from __future__ import annotations

from agentrt._core.codex.messages import FileUpdateChange, UpdatePatchChangeKind
from agentrt._core.codex.speech import diffs


def test_a_change_is_shown_part_by_part() -> None:
    patch = (
        "@@ -1,2 +1,2 @@\n one\n-two\n+2\n@@ -9 +9 @@\n-nine\n+9\n\\ No newline at end of file\n"
    )
    change = FileUpdateChange(path="a", kind=UpdatePatchChangeKind(move_path="b"), diff=patch)
    assert [(d.path, d.old_text, d.new_text) for d in diffs(change)] == [
        ("b", "one\ntwo\n", "one\n2\n"),
        ("b", "nine\n", "9\n"),
    ]
