"""The page's modules that need no browser: terminals, diffs, what is safe to show, numbers."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from consent.asked import shown_to_decide
from tables import for_each

from .kit import needs_packages, running

pytestmark = needs_packages

Call = Callable[..., Any]


@pytest.fixture(scope="module")
def call() -> Iterator[Call]:
    with running("modules.mjs") as node:
        yield lambda *given: node.ask(list(given))


# --- terminals


@given(text=st.text("ab\n", max_size=40), limit=st.integers(1, 50))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cut_output_is_its_end_from_the_beginning_of_a_line(
    call: Call, text: str, limit: int
) -> None:
    shown = call("ansi", "lastLines", text, limit)
    assert text.endswith(shown)
    assert len(shown) <= limit or text == ""
    assert bool(shown) == bool(text)
    before = text[: len(text) - len(shown)]
    assert before == "" or before.endswith("\n") or "\n" not in shown.rstrip("\n")


def pieces(call: Call, text: str) -> list[dict[str, str]]:
    told = call("ansi", "pieces", text)
    assert isinstance(told, list)
    return told


def screen(call: Call, text: str) -> str:
    return "".join(piece["text"] for piece in pieces(call, text))


def test_colours_and_weight_are_kept(call: Call) -> None:
    red = "#ff938a"
    assert pieces(call, "a\x1b[1;91mb\x1b[22mc\x1b[0md\x1b[4;9me") == [
        {"text": "a", "style": ""},
        {"text": "b", "style": "bold", "color": red},
        {"text": "c", "style": "", "color": red},
        {"text": "d", "style": ""},
        {"text": "e", "style": "under struck"},
    ]


@pytest.mark.parametrize(
    ("code", "front", "back"),
    [
        ("38;5;214", "#ffaf00", None),
        ("38;2;10;200;10", "#0ac80a", None),
        ("38:2::10:200:10", "#0ac80a", None),
        ("38;5;255", "#eeeeee", None),
        ("48;5;226", "#", "#ffff00"),
        ("7", "#21262a", "#e4e6e3"),
        ("30;47", "#", "#c9cdc9"),
    ],
)
def test_all_colours_are_shown(call: Call, code: str, front: str, back: str | None) -> None:
    (piece,) = pieces(call, f"\x1b[{code}mx")
    assert piece["color"].startswith(front)
    assert piece.get("background") == back


@pytest.mark.parametrize("paper", [[0, 0, 0], [0x21, 0x26, 0x2A], [118, 118, 118], [255, 255, 0]])
@pytest.mark.parametrize(
    "ink", [[0, 0, 128], [0, 0, 0], [255, 0, 0], [255, 255, 255], [90, 90, 90]]
)
def test_every_colour_can_be_read(call: Call, ink: list[int], paper: list[int]) -> None:
    shown = call("ansi", "readable", ink, paper)
    assert call("ansi", "contrast", shown, paper) >= 4.5


@pytest.mark.parametrize(
    ("written", "seen"),
    [
        ("10 %\r20 %\rdone\r\nnext", "done\nnext"),
        ("12 of 20\r13", "13 of 20"),
        ("12 of 20\r\x1b[K13", "13"),
        ("ab\b\bc", "cb"),
        ("wrong\r\x1b[2Kright", "right"),
        ("one\ntwo\x1b[1A\x1b[1GONE\x1b[1B\x1b[1GTWO", "ONE\nTWO"),
        ("a\nb\nc\x1b[2A\x1b[Jx", "ax"),
        ("\x1b[2;3Hx", "\n  x"),
        ("old\x1b[2J\x1b[Hnew", "new"),
        ("a\x1b[5Cb", "a     b"),
        ("menu\x1b[?1049h\x1b[Hfull\x1b[?1049lback", "menuback"),
        ("\u6f22\u5b57\x1b[2Dx", "\u6f22x"),
        ("x" * 1_000 + "\n" + "y", "x" * 1_000 + "\ny"),
        ("a\n\n\nb\n\n", "a\n\n\nb"),
        ("a  \n   b", "a  \n   b"),
    ],
)
def test_the_cursor_moves_as_in_a_terminal(call: Call, written: str, seen: str) -> None:
    assert screen(call, written) == seen


@pytest.mark.parametrize(
    "hidden",
    [
        "\x1b]0;title\x07",
        "\x1b]8;;http://evil.example\x1b\\",
        "\x1b]52;c;aGk=\x07",
        "\x1bPq#0\x1b\\",
        "\x9b31m",
        "\x1b(B",
        "\x1b[6n",
        "\x1b[c",
        "\x07",
    ],
)
def test_no_escape_is_left_with_or_without_a_screen(call: Call, hidden: str) -> None:
    assert screen(call, f"a{hidden}b") == "ab"
    assert call("ansi", "stripped", f"a{hidden}b").replace("\x07", "") == "ab"


@pytest.mark.parametrize(
    ("text", "needed"),
    [("a\n\tb\r\n", False), ("a\rb", True), ("\x1b[1m", True), ("a\b", True), ("漢", False)],
)
def test_lines_alone_need_no_screen(call: Call, text: str, needed: bool) -> None:
    assert call("ansi", "needsScreen", text) is needed


@pytest.mark.parametrize(
    "text", ["\x1b[9999999C" * 4_000, "\x1b[31m\x1b[0m" * 4_000, "\x1b[" * 20_000]
)
def test_no_output_takes_long(call: Call, text: str) -> None:
    assert screen(call, text) == ""


# --- code


def words(tree: list[Any]) -> str:
    return "".join(each if isinstance(each, str) else words(each["inner"]) for each in tree)


def size(tree: list[Any]) -> int:
    return sum(1 if isinstance(each, str) else 1 + size(each["inner"]) for each in tree)


@pytest.mark.parametrize("line", ["x = 1\n", "def f(a='b'): pass\n", "((", "f'{a}'", "# only\n"])
@pytest.mark.parametrize("count", [1, 100, 3_000])
def test_code_is_whole_and_its_beginning_has_colours_however_long_it_is(
    call: Call, line: str, count: int
) -> None:
    text = "import os\n" + line * count
    tree = call("parsers", "colours", "python", text)
    assert tree[0] == {"style": "hljs-keyword", "inner": ["import"]}
    assert words(tree) == text
    assert size(tree) <= 4_001


# --- what a tool gave back


def reading(call: Call, text: str, **tool: Any) -> dict[str, Any]:
    told = call("output", "reading", tool, text)
    assert isinstance(told, dict)
    return told


INIT = "import os\n\n__all__ = []\n* a\n"


def test_a_file_that_was_read_is_code_with_the_numbers_of_its_lines(call: Call) -> None:
    read = reading(call, INIT, kind="read", locations=[{"path": "/a/__init__.py", "line": 7}])
    assert read == {"as": "code", "text": INIT.rstrip("\n"), "language": "py", "first": 7}


@pytest.mark.parametrize("form", ["{:6}→{}", "{}\t{}", "{:6}\t{}", "{}→{}"])
def test_the_numbers_that_claude_writes_become_those_beside_the_lines(
    call: Call, form: str
) -> None:
    lines = ["import os", "", "7\t8", "__all__ = []"]
    text = "\n".join(form.format(number, line) for number, line in enumerate(lines, 20))
    for behind in ("", "\n\n<system-reminder>\nwords\n</system-reminder>\n"):
        read = reading(
            call, text + behind, kind="read", name="Read", locations=[{"path": "/a/b.py"}]
        )
        assert (read["text"], read["first"]) == ("\n".join(lines), 20)
        assert read.get("behind", "") == behind.strip()


def test_a_table_that_counts_its_rows_is_not_a_numbered_file(call: Call) -> None:
    table = "1\ta\n2\tb\n"
    read = reading(call, table, kind="read", name="read_file", locations=[{"path": "t.tsv"}])
    assert (read["text"], read["first"]) == (table.rstrip("\n"), 1)


@pytest.mark.parametrize(
    ("tool", "text", "shown"),
    [
        ({"kind": "execute"}, "# not a title", "terminal"),
        ({"kind": "execute"}, "```console\n$ ls\n```", "terminal"),
        ({"kind": "read"}, "what a task wrote", "terminal"),
        ({"kind": "search"}, "a.py:1:__init__", "code"),
        ({"kind": "edit", "locations": [{"path": "a.md"}]}, "# not a title", "code"),
        ({"kind": "read", "locations": [{"path": "a.md"}]}, "# not a title", "code"),
        ({"kind": "read", "locations": [{"path": "a"}]}, "```md\n# not a title\n```", "code"),
        ({"kind": "fetch"}, "# not a title", "words"),
        ({"kind": "other"}, "# not a title", "words"),
        ({}, "__init__", "words"),
        (None, "__init__", "words"),
        ({"kind": "other"}, "```py\n__init__\n```", "code"),
        ({"kind": "other"}, "```py\na\n```\nb\n```py\nc\n```", "words"),
        ({"kind": "other"}, "````\n```\na\n```\n````", "code"),
        ({"kind": "other"}, "```markdown\n# A title\n```", "markdown"),
        ({"kind": "think"}, "# A title", "markdown"),
        ({"kind": "switch_mode"}, "# A plan", "markdown"),
    ],
)
def test_what_a_tool_gave_back_is_shown_as_what_it_is(
    call: Call, tool: dict[str, Any] | None, text: str, shown: str
) -> None:
    assert call("output", "reading", tool, text)["as"] == shown


# --- paths


@pytest.mark.parametrize(
    ("words", "good"),
    [
        ("src/agentrt/__init__.py", True),
        ("src/a.py:12", True),
        ("src/a.py:12:3", True),
        ("/etc/nginx/nginx.conf", True),
        ("./run.sh", True),
        ("README.md", True),
        ("Makefile", True),
        ("deploy/Dockerfile", True),
        ("~/notes.txt", True),
        ("os.path", False),
        ("a.b()", False),
        ("and/or", False),
        ("https://a.example/b.py", False),
        ("//a/b.py", False),
        ("x = y.py", False),
        ("", False),
        (".", False),
        ("1.5", False),
    ],
)
def test_words_that_name_a_file_can_be_pressed(call: Call, words: str, good: bool) -> None:
    assert call("paths", "namesFile", words) is good


# --- diffs


def test_a_diff_has_the_lines_that_differ_and_three_around_them(call: Call) -> None:
    before = "".join(f"{n}\n" for n in range(1, 31))
    after = before.replace("10\n", "ten\n").replace("25\n", "")
    parts = call("review", "hunks", before, after)
    shown = [[f"{line['sign']}{line['text']}" for line in part] for part in parts]
    assert shown == [
        [" 7", " 8", " 9", "-10", "+ten", " 11", " 12", " 13"],
        [" 22", " 23", " 24", "-25", " 26", " 27", " 28"],
    ]
    assert [parts[1][4][key] for key in ("before", "after")] == [26, 25]
    assert call("review", "summary", parts) == "+1 −2"


lines = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=12).map("\n".join)


@given(before=lines, after=lines)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_two_versions_can_be_compared(call: Call, before: str, after: str) -> None:
    parts = call("review", "hunks", before, after)
    for part in parts:
        assert any(line["sign"] != " " for line in part)
        for line in part:
            if line["before"] is not None:
                assert before.split("\n")[line["before"] - 1] == line["text"]
            if line["after"] is not None:
                assert after.split("\n")[line["after"] - 1] == line["text"]
    assert bool(parts) is (before != after)


# --- what is safe


@pytest.mark.parametrize(
    ("address", "href"),
    [
        ("https://a.example/b?c#d", "https://a.example/b?c#d"),
        ("mailto:a@b.example", "mailto:a@b.example"),
        ("javascript:alert(1)", None),
        ("JaVaScRiPt:alert(1)", None),
        (" javascript:alert(1)", None),
        ("java\nscript:alert(1)", None),
        ("data:text/html,<script>", None),
        ("vbscript:x", None),
        ("file:///etc/passwd", None),
        ("blob:x", None),
        ("/healthz", None),
        ("//evil.example", None),
        ("#top", None),
        ("https://", None),
        ("", None),
    ],
)
def test_a_link_leads_to_the_web_or_nowhere(call: Call, address: str, href: str | None) -> None:
    assert call("safe", "link", address) == href


@pytest.mark.parametrize(
    ("type", "data", "good"),
    [
        ("image/png", "aGk=", True),
        ("IMAGE/PNG; x=y", "aGk=", True),
        ("audio/wav", "aGk=", True),
        ("image/svg+xml", "aGk=", False),
        ("text/html", "aGk=", False),
        ("image/png", 'aGk=" onerror="x', False),
        ("image/png", "", False),
    ],
)
def test_only_pictures_and_sounds_become_data(call: Call, type: str, data: str, good: bool) -> None:
    assert (call("safe", "dataUrl", type, data) is not None) is good


@pytest.mark.parametrize("mark", ["\u202e", "\u2066", "\u061c", "\x1b", "\x9b", "\x07", "\x00"])
def test_nothing_in_running_text_turns_or_moves_what_stands_beside_it(
    call: Call, mark: str
) -> None:
    assert mark not in call("safe", "running", f"a{mark}b")


@pytest.mark.parametrize("mark", ["\u200b", "\u00ad", "\u2028", "\ufeff", "\U000e0041", "\u3164"])
def test_every_character_of_a_title_is_seen(call: Call, mark: str) -> None:
    assert call("safe", "plain", f"a{mark}b") == "a\ufffdb"


def test_what_a_terminal_does_not_show_a_page_does_not_either(call: Call) -> None:
    everything = [chr(code) for code in range(0x20, 0x110000) if not 0xD800 <= code <= 0xDFFF]
    for start in range(0, len(everything), 0x8000):
        part = "".join(everything[start : start + 0x8000])
        assert call("safe", "plain", part) == shown_to_decide(part)


def test_a_long_title_is_cut_in_the_middle(call: Call) -> None:
    title = call("safe", "oneLine", f"rm -rf {'x' * 500} /home", 40)
    assert len(title) <= 40
    assert title.startswith("rm -rf")
    assert title.endswith("/home")


# --- numbers


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.9, "59 s"), (60, "1:00"), (3725, "1:02:05")]
)
def test_a_duration_is_short(call: Call, seconds: float, text: str) -> None:
    assert call("format", "duration", seconds) == text


@pytest.mark.parametrize(
    ("number", "text"), [(999, "999"), (31_400, "31.4K"), (200_000, "200K"), (1_250_000, "1.3M")]
)
def test_a_count_is_rounded(call: Call, number: int, text: str) -> None:
    assert call("format", "count", number) == text


@pytest.mark.parametrize(
    ("path", "folder", "shown"),
    [("/a/b/c", "/a", "b/c"), ("/a-evil/b", "/a", "/a-evil/b"), ("/a/b", "/a/", "b")],
)
def test_a_path_is_shown_as_seen_from_the_session(
    call: Call, path: str, folder: str, shown: str
) -> None:
    assert call("format", "within", path, folder) == shown


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///a/b%20c.md", "b c.md"),
        ("attachment:notes.txt", "notes.txt"),
        ("demo://note", "note"),
        ("100%", "100%"),
    ],
)
def test_a_file_is_called_by_the_end_of_its_address(call: Call, uri: str, name: str) -> None:
    assert call("format", "fileName", uri) == name


# --- changes

WORDS = st.lists(st.sampled_from(["one", "two", " ", "(", "é", "="]), max_size=12).map("".join)


@given(before=WORDS, after=WORDS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_two_lines_are_the_same_but_for_the_words_that_differ(
    call: Call, before: str, after: str
) -> None:
    def rest(text: str, places: list[int]) -> str:
        ends = [0, *places, len(text)]
        return "".join(text[a:b] for a, b in zip(ends[::2], ends[1::2], strict=True))

    old, now = call("review", "wordsThatDiffer", before, after)
    if old or now:
        assert rest(before, old) == rest(after, now)
    for text, places in ((before, old), (after, now)):
        assert places == sorted(places)
        pieces = call("review", "marked", [{"text": text, "style": "", "differs": False}], places)
        assert "".join(piece["text"] for piece in pieces) == text


LINES = st.lists(st.sampled_from(["a", "b", "", "-", "+ ", "@@"]), max_size=8)


@given(before=LINES, after=LINES)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_patch_has_the_lines_of_the_versions_that_it_is_of(
    call: Call, before: list[str], after: list[str]
) -> None:
    told = difflib.unified_diff(before, after, "a/x", "b/x", n=99, lineterm="")
    parts = call("review", "patched", "".join(f"{line}\n" for line in told))
    if before == after:
        assert parts == []
        return
    [lines] = parts
    assert [line["text"] for line in lines if line["sign"] != "+"] == before
    assert [line["text"] for line in lines if line["sign"] != "-"] == after
    pairs = call("review", "paired", lines)
    assert [old["text"] for old, _ in pairs if old] == before
    assert [now["text"] for _, now in pairs if now] == after


def tool(id: str, turn: str, path: str, old: str | None, new: str, **fields: str) -> dict[str, Any]:
    diff = {"type": "diff", "path": path, "oldText": old, "newText": new}
    return {"id": id, "type": "tool", "turn": turn, "status": "completed", **fields} | {
        "tool": {"content": [diff]}
    }


def test_changes_that_go_on_from_each_other_are_one(call: Call) -> None:
    items = [
        tool("1", "t1", "/a", "x", "y"),
        tool("2", "t1", "/b", None, "n"),
        tool("3", "t2", "/a", "y", "z"),
        tool("4", "t2", "/a", "other", "part"),
        tool("5", "t2", "/a", "part", "never", status="denied"),
    ]
    found = {
        each["path"]: [(change["before"], change["after"]) for change in each["changes"]]
        for each in call("changed", "changedFiles", items, None)
    }
    assert found == {"/a": [("x", "z"), ("other", "part")], "/b": [(None, "n")]}
    [of_turn] = call("changed", "changedFiles", items[:3], "t2")
    assert [(c["before"], c["after"]) for c in of_turn["changes"]] == [("y", "z")]
    assert call("changed", "changingTurns", items) == ["t1", "t2"]


# --- runs of calls

ITEMS = st.lists(
    st.tuples(
        st.sampled_from(["tool", "tool", "tool", "thought", "text"]),
        st.sampled_from(["completed", "completed", "failed", "running"]),
        st.sampled_from(["read", "execute", "edit"]),
        st.sampled_from(["t1", "t2"]),
    ),
    max_size=14,
)


@given(given_items=ITEMS)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_item_is_in_one_line_and_only_quiet_calls_share_one(
    call: Call, given_items: list[tuple[str, str, str, str]]
) -> None:
    items = [
        {"id": str(at), "type": type, "status": status, "turn": turn, "tool": {"kind": kind}}
        for at, (type, status, kind, turn) in enumerate(given_items)
    ]
    rows = call("runs", "inRuns", items)
    assert [id for row in rows for id in row["ids"]] == [item["id"] for item in items]
    for row in rows:
        inner = [items[int(id)] for id in row["ids"]]
        if len(inner) == 1:
            continue
        calls = [item for item in inner if item["type"] == "tool"]
        assert len(calls) >= 3
        assert inner[0] in calls
        assert inner[-1] in calls
        assert len({item["turn"] for item in inner}) == 1
        assert all(item["status"] == "completed" for item in calls)
        assert all(item["tool"]["kind"] in ("read", "execute") for item in calls)
        assert all(item["type"] in ("tool", "thought") for item in inner)


# --- completion


@given(paths=st.lists(st.text("abc/", max_size=8)), letters=st.text("abcA", max_size=4))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_page_offers_all_paths_with_the_letters_in_their_order(
    call: Call, paths: list[str], letters: str
) -> None:
    def has(path: str) -> bool:
        left = iter(path)
        return all(letter in left for letter in letters.lower())

    found = call("fuzzy", "bestMatches", paths, letters)
    assert sorted(found) == sorted(path for path in paths if has(path))
    whole = [letters.lower() in path for path in found]
    assert whole == sorted(whole, reverse=True)


# --- shortcuts


@for_each("typing", [False, True])
@for_each("key", ["/", "n", "?", "o", "k", "K", "N", "x", "constructor"])
@for_each("held", ["", "ctrlKey", "metaKey", "altKey", "ctrlKey metaKey"])
def test_only_plain_keys_outside_fields_and_ctrl_k_are_shortcuts(
    call: Call, typing: bool, key: str, held: str
) -> None:
    names = ("ctrlKey", "metaKey", "altKey", "shiftKey")
    pressed = {name: name in held.split() for name in names}
    expected = None
    if held in ("ctrlKey", "metaKey") and key.lower() == "k":
        expected = "palette"
    elif not held and not typing:
        expected = {"/": "search", "n": "new", "?": "shortcuts", "o": "outline"}.get(key)
    assert call("keys", "actionOf", {"key": key, **pressed}, typing) == expected


# --- the view of a file


COLOURED = st.recursive(
    st.text("ab\n", max_size=6),
    lambda inner: st.fixed_dictionaries(
        {"style": st.just("hljs-string"), "inner": st.lists(inner, max_size=3)}
    ),
    max_leaves=8,
)


@given(tree=st.lists(COLOURED, max_size=5))
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_the_lines_of_a_coloured_text_are_the_lines_of_the_text(call: Call, tree: Any) -> None:
    lines = call("review", "colouredLines", tree)
    texts = ["".join(piece["text"] for piece in line) for line in lines]
    assert texts == words(tree).split("\n")


# --- formulas

TEX = st.sampled_from(
    [
        "x", "^{2}", "_i", r"\frac{a}{b}", r"\sqrt[3]{x}", r"\sum", r"\left(", r"\right)", "{", "}",
        r"\begin{matrix}a&b\\c\end{matrix}", r"\text{<img src=x onerror=alert(1)>}", r"\color{red}",
        r"\href{javascript:alert(1)}{x}", r"\includegraphics{https://a.example/x}",
        r"\class{dock}{x}",
        r"\style{position:fixed}{x}", r"\id{page}{x}", r"\def\a{\a\a}", r"\a", r"\htmlData{a=b}{x}",
        r"\url{https://a.example}", r"\rule{9em}{9em}", r"\kern9em", "&", "#", "%", "~",
        "ü", "\u202e",
    ]
)  # fmt: skip
LOOKS = {
    "accent", "accentunder", "columnalign", "columnlines", "columnspacing", "depth", "display",
    "displaystyle", "fence", "form", "height", "largeop", "linethickness", "lspace", "mathsize",
    "mathvariant", "maxsize", "minsize", "movablelimits", "notation", "rowlines", "rowspacing",
    "rspace", "scriptlevel", "separator", "stretchy", "symmetric", "voffset", "width",
}  # fmt: skip


def parts_of(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
        for child in tree["children"]:
            yield from parts_of(child)


@given(source=st.lists(TEX, max_size=8).map("".join), display=st.booleans())
@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_formula_becomes_elements_without_power(call: Call, source: str, display: bool) -> None:
    """Whatever TeX an agent writes: no link, no picture, no style, no name."""
    for part in parts_of(call("math", "formula", source, display)):
        assert part["tag"].startswith("m") or part["tag"] == "none"
        assert part["tag"] not in ("maction", "menu", "meta", "meter", "map", "marquee", "mark")
        assert set(part["looks"]) <= LOOKS
        assert not any("url" in value.lower() for value in part["looks"].values())
