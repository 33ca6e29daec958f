"""Images in the scrollback of terminals that can show them."""

from __future__ import annotations

import re
import struct
from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("prompt_toolkit", reason='pip install "agentrt[repl]"')

from agentrt._cli.screen.pictures import PICTURE_BYTES, picture, picture_protocol
from agentrt.events import Image
from inside.screen import Drawing, Painter, ScrollingText


def printed(page: ScrollingText) -> str:
    return re.sub(r"\x1b\[\d*m", "", page.take())


def png(width: int, height: int, more: bytes = b"") -> Image:
    data = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + more
    return Image(b64encode(data).decode(), "image/png")


@pytest.mark.parametrize(
    ("env", "protocol"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1"}, "kitty"),
        ({"TERM": "xterm-ghostty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "iterm"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, "iterm"),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "1"}, None),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "1", "TMUX": "x"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
    ],
)
def test_the_protocol_is_that_of_the_terminal(env: dict[str, str], protocol: str | None) -> None:
    assert picture_protocol(env) == protocol


def test_kitty_gets_chunks_that_it_must_not_answer() -> None:
    shown = picture(png(800, 400, b"x" * 10_000), "kitty", 80, 16)
    assert shown is not None
    height = shown.count("\n")
    chunks = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", shown)
    assert chunks[0][0] == f"a=T,f=100,q=2,C=1,c=64,r={height},m=1"
    assert [head for head, _ in chunks[1:]] == ["m=1"] * (len(chunks) - 2) + ["m=0"]
    assert "".join(data for _, data in chunks) == png(800, 400, b"x" * 10_000).data
    assert all(len(data) <= 4096 for _, data in chunks)


@pytest.mark.parametrize(
    ("size", "cells"),
    [((8, 16), (1, 1)), ((1, 1), (1, 1)), ((8000, 1600), (80, 8)), ((16, 16000), (1, 16))],
)
def test_an_image_keeps_its_proportions_and_fits(
    size: tuple[int, int], cells: tuple[int, int]
) -> None:
    shown = picture(png(*size), "iterm", 80, 16) or ""
    assert f"width={cells[0]};height={cells[1]};" in shown
    assert shown.count("\n") == cells[1]


@pytest.mark.parametrize(
    "image",
    [
        Image("no base64\x1b[2J", "image/png"),
        Image(b64encode(b"<svg/>").decode(), "image/svg+xml"),
        png(0, 10),
        png(8, 8, b"x" * PICTURE_BYTES),
        Image("", "image/png"),
    ],
)
def test_what_cannot_be_shown_is_only_named(image: Image) -> None:
    page = ScrollingText(Painter(colour=False), lambda: 80)
    Drawing(page, "kitty").image(image)
    assert re.fullmatch(r"  \[image: image/\S+, [\d,]+ kB\]\n", printed(page))


SHOWN = re.compile(
    r"\n{1,16}\x1b\[\d+A(\x1b_G[a-zA-Z0-9=,]*;[A-Za-z0-9+/=]*\x1b\\)+\r\x1b\[\d+B"
    r"|\n{1,16}\x1b\[\d+A\x1b\]1337;File=[a-zA-Z0-9=;]*:[A-Za-z0-9+/=]*\x07\r\x1b\[\d+B"
)


@given(
    st.sampled_from([b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", b"GIF89a", b"\xff\xd8\xff\xc0", b""]),
    st.binary(max_size=40),
    st.sampled_from(["kitty", "iterm"]),
)
def test_no_image_can_be_another_sequence(start: bytes, rest: bytes, protocol: str) -> None:
    image = Image(b64encode(start + rest).decode(), "image/png")
    shown = picture(image, protocol, 80, 16)  # type: ignore[arg-type]
    assert shown is None or SHOWN.fullmatch(shown)
