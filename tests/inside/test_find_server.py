"""The server that a command attaches to, and its token.

Servers on other machines are only named here: nothing may send them a token to find out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt._cli.servers import find_server
from inside.command_line import UsageError


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.3.2.1:8000", True),
        ("http://[::1]:8000", True),
        ("http://localhost", True),
        ("ws://agents.localhost:1", True),
        ("https://agents.example", True),
        ("wss://agents.example:8443", True),
        ("http://agents.example", False),
        ("agents.example:8000", False),
        ("http://192.168.0.7:8000", False),
        ("http://localhost.example", False),
        ("http://[fe80::1]:8000", False),
    ],
)
def test_a_token_is_not_sent_to_another_machine_in_clear(
    url: str, private: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTRT_SERVE_TOKEN", "a-token-that-somebody-has-said")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert find_server(url, insecure=True)[1] == "a-token-that-somebody-has-said"
    if private:
        find_server(url)
    else:
        with pytest.raises(UsageError, match="unencrypted"):
            find_server(url)
