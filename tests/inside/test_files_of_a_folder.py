"""The files of a folder: which are listed, which `@` offers, and which a prompt names.

The listing is compared with Git's for generated folders and rules. The completer gets every word
and the prompt every name, each of which would cost a program on a screen.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from base64 import b64decode
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agentrt._base import listing as _listing
from agentrt._base.listing import branch_of, is_ignored, likeliest, rules_of, walk
from agentrt._cli.screen.completion import PromptCompleter
from agentrt._cli.session_view import IMAGE_BYTES, prompt_of, text_of
from agentrt.events import Image, ResourceLink, Text
from agentrt.hosting import FolderView

GIT = shutil.which("git")
needs_git = pytest.mark.skipif(GIT is None, reason="needs git")


def make(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)


def git(top: Path, *command: str, given: Iterable[str] = ()) -> set[str]:
    """The names that a command of git's prints."""
    assert GIT is not None
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    base = [GIT, "-c", "init.defaultBranch=main", "-C", str(top)]
    subprocess.run([*base, "init", "-q"], check=True, env=env)
    names = "".join(f"{name}\0" for name in given).encode()
    done = subprocess.run([*base, *command], check=True, env=env, input=names, capture_output=True)
    return set(done.stdout.decode().split("\0")) - {""}


NAMES = ["a", "b.py", "c.log", "build", "x y", "[d]", "!e", "#f"]
names = st.sampled_from(NAMES)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
globs = st.one_of(
    names,
    st.sampled_from(
        ["*", "**", "*.py", "*.l?g", "[ab]*", "[!a]", "[^b]*", "b*", "?", "\\!e", "\\#f", "x*y"]
    ),
)
lines = st.tuples(
    st.sampled_from(["", "!"]),
    st.sampled_from(["", "/"]),
    st.lists(globs, min_size=1, max_size=3).map("/".join),
    st.sampled_from(["", "/", " ", "/**", "/*"]),
).map("".join)
ignores = st.lists(lines, max_size=4).map("\n".join)


def shown_files(view: FolderView, folder: str) -> Iterator[str]:
    """Yield the files that a person who opens every folder sees."""
    for name, kind, _ in view.folder(folder).entries:
        path = f"{folder}/{name}".removeprefix("/")
        if kind == "folder":
            yield from shown_files(view, path)
        else:
            view.file(path, 0, 1, encoded=False)
            yield path


@pytest.mark.slow
@needs_git
@given(
    files=st.lists(paths, max_size=8),
    rules=st.dictionaries(
        st.sampled_from([".gitignore", "build/.gitignore", "a/b.py/.gitignore"]), ignores
    ),
)
@settings(max_examples=15, deadline=None)
def test_what_git_ignores_is_not_listed(files: list[str], rules: dict[str, str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for path in [*rules, *files]:
            try:
                make(top, {path: rules.get(path, "")})
            except (FileExistsError, NotADirectoryError, IsADirectoryError):
                continue  # the name of a folder that is a file, or the reverse
        listed = git(top, "ls-files", "-coz", "--exclude-standard")
        assert set(walk(top)) == listed
        assert set(shown_files(FolderView(str(top)), "")) == listed


@pytest.mark.slow
@needs_git
def test_a_pattern_means_what_it_means_to_git(tmp_path: Path) -> None:
    parts = [*"ab!#^][-*?", *(f"\\{each}" for each in "!#*][-")]
    inside = [*"a!^-]", "a-c", *(f"\\{each}" for each in "!]-a")]
    classes = [f"[{no}{one}{two}]" for no in ("", "!", "^") for one, two in permutations(inside, 2)]
    patterns = [*map("".join, permutations(parts, 2)), *parts, *classes]
    names = [*"abc!#^][-*?", "ax", "!a", "a!", "-a", "b-"]
    make(tmp_path, {f"{number}/.gitignore": each for number, each in enumerate(patterns)})
    paths = [f"{number}/{name}" for number in range(len(patterns)) for name in names]
    ignored = git(tmp_path, "check-ignore", "-z", "--no-index", "--stdin", given=paths)
    for number, pattern in enumerate(patterns):
        found = [name for name in names if is_ignored([name], rules_of(pattern), is_folder=False)]
        assert found == [name for name in names if f"{number}/{name}" in ignored], pattern


def test_files_stand_before_the_folders_beside_them_and_dot_files_among_them(
    tmp_path: Path,
) -> None:
    make(tmp_path, {"b/c": "", "z": "", ".env.example": "", "a/x": "", ".git/config": ""})
    make(tmp_path, {"node_modules/x/y.js": "", "__pycache__/z.pyc": ""})
    assert list(walk(tmp_path)) == [".env.example", "z", "a/x", "b/c"]


def test_the_rules_of_the_checkout_hold_in_its_folders(tmp_path: Path) -> None:
    make(tmp_path, {".git/HEAD": "", ".gitignore": "*.log\n/src/out\n/whole\n"})
    make(tmp_path, {"src/a.py": "", "src/a.log": "", "src/out/b": "", "whole/c": ""})
    assert list(walk(tmp_path / "src")) == ["a.py"]
    assert list(walk(tmp_path / "whole")) == ["c"]  # who works in it wants to see it


def test_an_ignore_file_of_its_own_counts_as_one_of_gits(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore": "a\n!b\n", ".ignore": "b\n", "a": "", "b": "", "c": ""})
    assert list(walk(tmp_path)) == [".gitignore", ".ignore", "c"]


def test_hidden_folders_come_last(tmp_path: Path) -> None:
    make(tmp_path, {".a/x": "", "b/y": ""})
    assert list(walk(tmp_path)) == ["b/y", ".a/x"]


def test_the_likeliest_stand_first() -> None:
    paths = ["z/main.py", "src/domain.py", "main.py", "src/main_test.py", "other.py", "Main/a"]
    expected = ["main.py", "Main/a", "src/main_test.py", "z/main.py", "src/domain.py"]
    assert likeliest(paths, "main", 50) == expected
    assert likeliest(paths, "main", 2) == expected[:2]


def test_characters_in_their_order_match_close_together_first() -> None:
    paths = ["a_long/bundle/of_extra/notes.py", "a/bar.py", "docs/abr.md", "src/a_b_r.py", "x/bra"]
    assert likeliest(paths, "abr", 50)[:3] == ["docs/abr.md", "a/bar.py", "src/a_b_r.py"]
    assert "x/bra" not in likeliest(paths, "abr", 50)


@given(st.lists(st.text("abc/", max_size=8)), st.text("abcA", max_size=4))
def test_matches_are_all_paths_with_the_characters_in_their_order(
    paths: list[str], words: str
) -> None:
    def has(path: str) -> bool:
        left = iter(path)
        return all(character in left for character in words.lower())

    found = likeliest(paths, words, 50)
    assert sorted(found) == sorted(path for path in paths if has(path))
    whole = [words.lower() in path for path in found]
    assert whole == sorted(whole, reverse=True)


def test_nothing_outside_is_listed_or_opened(tmp_path: Path) -> None:
    make(tmp_path, {"secret/key": "", "rules": "*"})
    top = tmp_path / "top"
    make(top, {"a/b": ""})
    (top / "link").symlink_to(tmp_path / "secret")
    (top / "file").symlink_to(tmp_path / "secret/key")
    (top / ".gitignore").symlink_to(tmp_path / "rules")
    os.mkfifo(top / "a/.gitignore")  # whoever opens it to read waits for a writer
    os.mkfifo(top / "pipe")
    assert list(walk(top)) == ["a/b"]


def test_what_becomes_a_link_while_it_is_listed_is_not_followed(tmp_path: Path) -> None:
    make(tmp_path, {"top/a/x": "", "top/b/y": "", "secret/key": ""})
    found = walk(tmp_path / "top")
    assert next(found) == "a/x"
    shutil.rmtree(tmp_path / "top/b")
    (tmp_path / "top/b").symlink_to(tmp_path / "secret")
    assert list(found) == []


def test_a_listing_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, {f"{name}/{number}": "" for name in "abc" for number in range(20)})
    monkeypatch.setattr(_listing, "MAX_FILES", 25)
    assert len(list(walk(tmp_path))) == 25
    monkeypatch.setattr(_listing, "MAX_ENTRIES", 10)
    assert len(list(walk(tmp_path))) < 10


def test_a_very_deep_folder_ends_the_way_down(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(200):
        deep /= "d"
    deep.mkdir(parents=True)
    make(tmp_path, {"a": "", "d/d/b": ""})
    assert list(walk(tmp_path)) == ["a", "d/d/b"]


@pytest.mark.slow
def test_hostile_rules_take_no_time(tmp_path: Path) -> None:
    """Each of them by trying all ways would take hours."""
    rules = ["*a" * 40 + "b", "**/" * 40 + "x", "[" * 500, "[!", "\\", "a" * 60_000]
    make(tmp_path, {".gitignore": "\n".join(rules), "a" * 200: "", "/".join("a" * 60): ""})
    assert len(list(walk(tmp_path))) == 3


def test_whoever_asks_can_end_it(tmp_path: Path) -> None:
    make(tmp_path, {"a": "", "b": ""})

    def alive() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        list(walk(tmp_path, alive))


def test_a_folder_with_the_name_of_an_ignore_file_has_no_rules(tmp_path: Path) -> None:
    make(tmp_path, {".gitignore/x": "", "a": ""})
    assert set(walk(tmp_path)) == {".gitignore/x", "a"}


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("ref: refs/heads/topic/one\n", "topic/one"),
        ("0123456789abcdef\n", None),
        ("ref: refs/heads/\x1b[31m\n", None),
        ("", None),
    ],
)
def test_the_branch_is_that_of_the_checkout(tmp_path: Path, head: str, branch: str | None) -> None:
    make(tmp_path, {"tree/.git/HEAD": head, "tree/src/a": "", "away/.git": "gitdir: ../tree/.git"})
    assert branch_of(tmp_path / "tree" / "src") == branch
    assert branch_of(tmp_path / "away") == branch
    assert branch_of(tmp_path) is None


def offered(folder: Path, text: str) -> list[str]:
    found = PromptCompleter(str(folder)).get_completions(Document(text), CompleteEvent())
    return [completion.text for completion in found]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    files = {
        ".gitignore": "*.log\n!keep.log\n/out/\n.secret\n",
        "src/.gitignore": "made.py\n!b.log\n",
        "src/code.py": "",
        "src/made.py": "",
        "src/b.log": "",
        "a.log": "",
        "keep.log": "",
        "out/x.txt": "",
        "src/out/y.txt": "",
        ".env": "",
        ".secret": "",
        ".github/flow.yml": "",
        "two words.txt": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_files_are_offered_but_for_ignored_and_hidden_ones(folder: Path) -> None:
    assert sorted(offered(folder, "see @")) == [
        '@"two words.txt"',
        "@keep.log",
        "@src/",
        "@src/b.log",
        "@src/code.py",
        "@src/out/",
        "@src/out/y.txt",
    ]


def test_a_leading_dot_asks_for_hidden_ones(folder: Path) -> None:
    assert offered(folder, "see @.e")[0] == "@.env"
    assert set(offered(folder, "see @.git")) == {
        *("@.gitignore", "@.github/", "@.github/flow.yml", "@src/.gitignore"),
    }
    assert offered(folder, "@.sec") == []


def test_rules_of_the_folders_above_count(folder: Path) -> None:
    assert sorted(offered(folder / "src", "@")) == ["@b.log", "@code.py", "@out/", "@out/y.txt"]


def test_without_a_repository_only_its_own_rules_count(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("a\n")
    inside = tmp_path / "b"
    inside.mkdir()
    (inside / "a").touch()
    (inside / "c").touch()
    assert offered(inside, "@") == ["@a", "@c"]
    assert offered(tmp_path, "@") == ["@b/", "@b/c"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("notes.txt", "a b.txt", "src/deep.py", ".hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("read @notes.txt", ["notes.txt"]),
        ("@src/deep.py, and (@notes.txt).", ["src/deep.py"]),
        ("see @src/ and @src/deep.py!", ["src/", "src/deep.py"]),
        ('look at @"a b.txt"', ["a b.txt"]),
        ("@.hidden @.hidden", [".hidden"]),
        ("mail me@notes.txt", []),
        ("@somebody and @types/node", []),
        ("@ and @@notes.txt", []),
        ("/review @notes.txt", []),
        ("@" + "x" * 5000, []),
        ("@a\0b", []),
    ],
)
def test_a_file_that_is_there_is_linked(project: Path, text: str, names: list[str]) -> None:
    first, *links = prompt_of(text, str(project))
    assert first == Text(text)
    assert [link.name for link in links if isinstance(link, ResourceLink)] == names
    assert [link.uri for link in links if isinstance(link, ResourceLink)] == [
        (project / name).as_uri() for name in names
    ]


def test_what_was_typed_can_be_had_back(project: Path) -> None:
    assert text_of(prompt_of("read @notes.txt", str(project))) == "read @notes.txt"


def test_an_image_is_sent_itself_to_an_agent_that_takes_images(project: Path) -> None:
    data = b"\x89PNG\r\n\x1a\n and so on"
    (project / "a b.png").write_bytes(data)
    (project / "fake.png").write_text("no image")
    text = 'look at @"a b.png" and @fake.png and @notes.txt'
    _, image, *links = prompt_of(text, str(project), images=True)
    assert isinstance(image, Image)
    assert (b64decode(image.data), image.mime_type) == (data, "image/png")
    assert [link.name for link in links if isinstance(link, ResourceLink)] == [
        "fake.png",
        "notes.txt",
    ]
    assert text_of([Text(text), image, *links]) == text
    _, *links = prompt_of(text, str(project))
    assert all(isinstance(link, ResourceLink) for link in links)


def test_an_image_that_is_too_large_is_a_link(project: Path) -> None:
    with (project / "large.png").open("wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.truncate(IMAGE_BYTES + 1)
    _, link = prompt_of("@large.png", str(project), images=True)
    assert isinstance(link, ResourceLink)
