"""The files of a project that make programs run, and the ways to write their names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt import Allow, Deny, PermissionRequest, rules
from agentrt._core.project_files import PROJECT_FILES, protected_file
from agentrt.agents import BUILT_IN
from agentrt.permissions import allow_all, ask
from inside.agents import PROJECT_RULES, describe_measures
from inside.drivers import NotAllowed, Roots

PATHS = sorted({file.path.replace("*", "x") for file in PROJECT_FILES if file.protected})
FREE = [
    "README.md", ".gitignore", ".gitattributes", ".github/workflows/ci.yml", ".env", "Makefile",
    "package.json", ".claude/notes.md", ".claude/CLAUDE.md", "AGENTS.md", "GEMINI.md", "a.git/x",
    "src/git/config", "claude/settings.json", ".cursor/rules/x.mdc", ".kiro/steering/x.md",
    "settings.json", "hooks.json", "docs/.claude.md", "mcp.json", ".env.example", "hooks/x.py",
]  # fmt: skip
"""What agents are for, and nothing runs unasked."""


def spellings(path: str) -> list[str]:
    """Names that some file system takes for the same."""
    first, *rest = path.split("/")
    tail = "".join(f"/{part}" for part in rest)
    return [
        path,
        path.upper(),
        path.title(),
        f"sub/folder/{path}",
        f"./{path}",
        f"sub/../{path}",
        f"sub//{path}",
        f"{first}.{tail}",
        f"{first} {tail}",
        f"{first}\u200c{tail}",
        f"\u200e{first}{tail}",
        f"{first}::$DATA{tail}",
        path.replace("s", "\u017f"),  # which is an s in upper case
        path.translate({ord("i"): "\uff49", ord("."): "\uff0e"}),
    ]


def walk(path: str) -> list[str]:
    """The parts of a path as a walk along it meets them."""
    way: list[str] = []
    for part in path.split("/"):
        if part == "..":
            way.pop()
        elif part not in ("", "."):
            way.append(part)
    return way


def test_each_spelling_of_each_file_is_protected() -> None:
    for spelling in (spelling for path in PATHS for spelling in spellings(path)):
        assert protected_file(walk(spelling)), spelling
        assert protected_file([*walk(spelling), "below"]), spelling


def test_ordinary_files_are_not() -> None:
    assert [path for path in FREE if protected_file(path.split("/"))] == []


@given(st.lists(st.text(max_size=30), max_size=12), st.sampled_from(PATHS), st.text(max_size=20))
def test_nothing_around_it_hides_a_protected_file(before: list[str], path: str, below: str) -> None:
    assert protected_file([*before, *path.split("/"), below])


@given(st.lists(st.text(), max_size=300))
def test_any_path_has_an_answer(parts: list[str]) -> None:
    assert protected_file(parts) is None or parts


def test_each_file_of_an_agent_is_one_of_the_catalogue_s() -> None:
    named = {agent for file in PROJECT_FILES for agent in file.agents}
    assert named <= BUILT_IN.keys()
    assert named == BUILT_IN.keys() - {"demo"}
    assert PROJECT_RULES.keys() == BUILT_IN.keys()


def test_all_names_of_the_settings_of_fast_agent_are_known() -> None:
    for name in ("fast-agent.yaml", "fast-agent.config.yaml", "fast-agent.secrets.yaml"):
        assert protected_file([name]) is not None


# --- files through agentrt


@pytest.fixture
def roots(tmp_path: Path) -> Roots:
    (tmp_path / "sub" / "folder").mkdir(parents=True)
    return Roots([str(tmp_path)])


@pytest.mark.slow
def test_an_agent_writes_none_of_them(roots: Roots, tmp_path: Path) -> None:
    for place, path in enumerate(PATHS):
        spelling = spellings(path)[place % len(spellings(path))]
        with pytest.raises(NotAllowed), roots.locate(f"{tmp_path}/{spelling}", writing=True):
            pass
        with pytest.raises(NotAllowed):
            roots.check(f"{tmp_path}/{spelling}", writing=True)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["folder", "sub"]


def test_an_agent_writes_ordinary_files(roots: Roots, tmp_path: Path) -> None:
    for path in FREE:
        with roots.locate(f"{tmp_path}/{path}", writing=True) as place:
            assert place.name == path.rpartition("/")[2]


def test_a_newline_in_a_folder_s_name_hides_nothing(roots: Roots, tmp_path: Path) -> None:
    with (
        pytest.raises(NotAllowed),
        roots.locate(f"{tmp_path}/a\nb/.git/config", writing=True),
    ):
        pass


# --- permission rules


def edit(folder: Path, path: str) -> PermissionRequest:
    return PermissionRequest(
        title="Edit", tool="Edit", input={"file_path": f"{folder}/{path}"}, cwd=str(folder)
    )


@pytest.mark.parametrize("rule", ["Edit", "Edit(**)", "*", "Edit(/**)"])
def test_no_rule_for_edits_allows_one(tmp_path: Path, rule: str) -> None:
    policy = rules(allow=[rule])
    for place, path in enumerate(PATHS):
        spelling = spellings(path)[place % 4]
        assert isinstance(policy(edit(tmp_path, spelling)), Deny), spelling


def test_ordinary_edits_are_allowed_by_it(tmp_path: Path) -> None:
    for path in FREE:
        assert rules(allow=["Edit"])(edit(tmp_path, path)) == Allow()


def test_a_person_is_asked_where_there_is_one(tmp_path: Path) -> None:
    request = edit(tmp_path, ".vscode/tasks.json")
    assert rules(allow=["Edit"], otherwise=ask)(request) == ask(request)
    assert rules(allow=["Edit"], otherwise=allow_all)(request) == Allow()


@pytest.mark.parametrize("rule", ["Edit(.vscode/**)", "Edit(.vscode/tasks.json)"])
def test_a_rule_that_names_it_allows_it(tmp_path: Path, rule: str) -> None:
    assert rules(allow=[rule])(edit(tmp_path, ".vscode/tasks.json")) == Allow()
    assert isinstance(rules(allow=[rule, "Edit"])(edit(tmp_path, ".git/config")), Deny)


def test_a_link_to_one_is_one(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "link").symlink_to(".git")
    assert isinstance(rules(allow=["Edit"])(edit(tmp_path, "link/config")), Deny)


def test_it_may_be_read(tmp_path: Path) -> None:
    request = PermissionRequest(
        title="", tool="Read", input={"file_path": f"{tmp_path}/.git/config"}, cwd=str(tmp_path)
    )
    assert rules(allow=["Read"])(request) == Allow()


# --- the documentation

PAGE = Path(__file__).parents[1] / "docs/guides/trust.md"


def generated(page: str, name: str) -> str:
    """The lines between the marks of that name."""
    return page.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def agents_table() -> str:
    rows = ["| agent | in a folder that is not trusted | lost by it | not prevented |"]
    rows.append("|---|---|---|---|")
    for name, row in PROJECT_RULES.items():
        cells = "; ".join(describe_measures(row)), row.lost or "–", row.residue or "–"
        rows.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(rows) + "\n"


def files_list() -> str:
    """The protected files by their effect."""
    by_effect: dict[str, list[str]] = {}
    for file in PROJECT_FILES:
        if file.protected:
            by_effect.setdefault(file.effect, []).append(f"`{file.path}`")
    return "".join(
        f"- {effect[0].upper()}{effect[1:]}: {', '.join(dict.fromkeys(paths))}\n"
        for effect, paths in by_effect.items()
    )


def test_the_page_shows_the_tables_of_the_code() -> None:
    """To bring it up to date: `python tests/test_project_files.py`."""
    page = PAGE.read_text()
    assert generated(page, "agents") == agents_table()
    assert generated(page, "files") == files_list()


if __name__ == "__main__":
    text = PAGE.read_text()
    for each, made in (("agents", agents_table()), ("files", files_list())):
        text = text.replace(f"<!-- {each} -->\n{generated(text, each)}", f"<!-- {each} -->\n{made}")
    PAGE.write_text(text)
