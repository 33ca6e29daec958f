"""The exit status of a program in a sandbox.

It is judged as a number, also where no sandbox can be built.
"""

from __future__ import annotations

import signal


def test_a_signal_inside_the_sandbox_is_told_from_a_status() -> None:
    from agentrt._core.process.entry import signalled_status

    assert signalled_status(128 + signal.SIGTERM) == -signal.SIGTERM
    assert [signalled_status(code) for code in (0, 1, 127, 128, 255)] == [0, 1, 127, 128, 255]
