"""What a prompt names: files behind `@`."""

from __future__ import annotations

import pytest
from program import FAST_DEMO, Program


@pytest.mark.slow
def test_files_are_attached_on_the_command_line(program: Program) -> None:
    done = program.run(*FAST_DEMO, "-p", "/echo", "--attach", "missing.png", status=2)
    assert "--attach: there is no file 'missing.png'" in done.stderr
    (program.folder / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n and so on")
    attached = ("--attach", "notes.txt", "--attach", "x.png", "--output-format", "stream-json")
    told = program.run(*FAST_DEMO, "-p", "hello", *attached).stdout
    assert (program.folder / "notes.txt").as_uri() in told
    assert '"mimeType":"image/png"' in told.replace(" ", "")
