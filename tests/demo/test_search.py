"""The search, without the agent around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrt.demo import search as module
from agentrt.demo.search import SearchMatches, search


def alive() -> None:
    """The search may always go on."""


def names(found: SearchMatches) -> list[str]:
    return sorted({hit.path.name for hit in found.hits})


def make(folder: Path, *files: str) -> None:
    for name in files:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a needle\n")


def test_what_git_ignores_is_not_searched(tmp_path: Path) -> None:
    make(tmp_path, "a.txt", "b.log", "keep.log", "build/c.txt", "sub/build/d.txt", "sub/e.txt")
    make(tmp_path, "sub/only/f.txt", "only/g.txt", ".git/h.txt", "node_modules/i.txt")
    (tmp_path / ".gitignore").write_text("# a comment\n\n*.log\n!keep.log\n/build/\n/sub/only\n")
    (tmp_path / "sub" / ".gitignore").write_text("e.txt\n")
    found = search(tmp_path, "needle", alive)
    assert names(found) == ["a.txt", "d.txt", "g.txt", "keep.log"]


def test_a_pattern_may_have_stars_for_folders(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c.txt", "a/c.txt", "c.txt", "d/e.txt")
    (tmp_path / ".gitignore").write_text("**/c.txt\n")
    assert names(search(tmp_path, "needle", alive)) == ["e.txt"]


def test_upper_case_matters_only_if_it_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Needle\n")
    assert search(tmp_path, "needle", alive).hits
    assert search(tmp_path, "Needle", alive).hits
    assert not search(tmp_path, "NEEDLE", alive).hits


def test_binary_and_large_files_and_links_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / "large").write_bytes(b"needle" + b" " * module.MAX_FILE_BYTES)
    (tmp_path / "outside").symlink_to("/etc")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert not search(tmp_path, "needle", alive).hits


def test_a_long_line_is_cut_and_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"needle \xff " + b"x" * 1000)
    [hit] = search(tmp_path, "needle", alive).hits
    assert hit.text.startswith("needle \ufffd ")
    assert len(hit.text) == module.MAX_LINE_CHARS


def test_the_number_of_hits_and_files_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("needle\n" * (module.MAX_HITS + 50))
    (tmp_path / "b.txt").write_text("needle\n")
    found = search(tmp_path, "needle", alive)
    assert (len(found.hits), found.complete) == (module.MAX_HITS, False)
    monkeypatch.setattr(module, "MAX_FILES", 1)
    assert search(tmp_path, "nothing", alive).complete is False


def test_a_search_can_be_stopped(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    with pytest.raises(Stop):
        search(tmp_path, "needle", stop)
