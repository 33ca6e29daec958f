"""What is listed of a folder: what git would list, and nothing outside.

The listing is compared with Git's for generated folders and rules, without a session for each.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentrt._base import listing as _listing
from agentrt._base.listing import branch_of, is_ignored, likeliest, rules_of, walk
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
