"""Finds every regular expression of the package: in its Python modules and in the page."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import agentrt

ROOT: Final = Path(agentrt.__file__).parent
PAGE: Final = ROOT / "_serve" / "page"
FUNCTIONS: Final = (
    "compile",
    "search",
    "match",
    "fullmatch",
    "sub",
    "subn",
    "findall",
    "finditer",
    "split",
)
ANCHORED: Final = {"match", "fullmatch"}


class Found(NamedTuple):
    """A pattern, where it is, and whether it is only matched at one place of a text."""

    where: str
    pattern: str
    flags: int
    anchored: bool


class Unreadable(NamedTuple):
    """A pattern that is made while the program runs."""

    where: str
    source: str


@cache
def modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.walk_packages([str(ROOT)], "agentrt.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


CALL: Final = re.compile(rf"\.(?:{'|'.join(FUNCTIONS)})\b")


@cache
def trees() -> dict[str, ast.Module]:
    """The modules by name; those without any use of a pattern are empty."""
    texts = {
        each.__name__: Path(each.__file__ or "").read_text(encoding="utf-8") for each in modules()
    }
    return {name: ast.parse(text if CALL.search(text) else "") for name, text in texts.items()}


@cache
def nodes() -> dict[str, list[ast.AST]]:
    """All nodes of each module's tree."""
    return {name: list(ast.walk(tree)) for name, tree in trees().items()}


@cache
def in_python() -> tuple[list[Found], list[Unreadable]]:
    """Those of the Python modules, and where one could not be read."""
    uses: dict[tuple[str, str], set[str]] = defaultdict(set)
    for where, every in nodes().items():
        for node in every:
            if isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
                used = node.value
                if isinstance(used, ast.Call) and isinstance(used.func, ast.Name):
                    used = used.func  # a function that compiles the pattern at its first call
                name = getattr(used, "id", getattr(used, "attr", None))
                if name is not None:
                    uses[where, name].add(node.attr)
                    if not name.startswith("_"):
                        uses["", name].add(node.attr)
    found: dict[tuple[str, int], Found] = {}

    def add(where: str, pattern: str | bytes, flags: int, how: set[str]) -> None:
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        if isinstance(pattern, bytes):
            flags |= re.ASCII
        anchored = bool(how) and how <= ANCHORED
        kept = int(flags) & ~(re.UNICODE | re.DEBUG)
        known = found.get((text, kept))
        if known is None or (known.anchored and not anchored):
            found[text, kept] = Found(where, text, kept, anchored)

    unreadable = []
    for module in modules():
        for name, value in list(vars(module).items()):
            if _makes_a_pattern(value, module):
                value = value()
            for each in _patterns(value):
                key = module.__name__ if name.startswith("_") else "", name
                direct = uses[key] if isinstance(value, re.Pattern) else set()
                how = direct or {
                    method
                    for target in _loop_variables(module)
                    for method in uses[module.__name__, target] - {"split"}  # that of strings
                }
                add(f"{module.__name__}.{name}", each.pattern, each.flags, how)
        for node in nodes()[module.__name__]:
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "re"):
                continue
            if node.func.attr not in FUNCTIONS:
                continue
            where = f"{module.__name__}:{node.lineno}"
            try:
                pattern = _evaluated(node.args[0], module)
                flags = _flags(node, module)
            except NameError:
                unreadable.append(Unreadable(module.__name__, ast.unparse(node.args[0])))
                continue
            if node.func.attr != "compile" or not _is_global(node, module):
                how = {node.func.attr} - {"compile"}
                add(where, pattern, flags, how)
    return list(found.values()), unreadable


@cache
def _loop_variables(module: ModuleType) -> set[str]:
    """What things are called that loops go through: patterns, among others."""
    return {
        ast.unparse(node.target)
        for node in nodes()[module.__name__]
        if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension)
    }


def _makes_a_pattern(value: Any, module: ModuleType) -> bool:
    """Whether it is a function that compiles a pattern when it is first wanted."""
    made = getattr(value, "__wrapped__", None)
    here = hasattr(value, "cache_info") and getattr(made, "__module__", "") == module.__name__
    return here and str(made.__annotations__.get("return")).startswith("re.Pattern")


def _is_global(call: ast.Call, module: ModuleType) -> bool:
    """Whether what is compiled becomes a global, which is looked at by its name."""
    tree = trees()[module.__name__]
    return any(
        inner is call
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for inner in ast.walk(node.value)
    )


def _evaluated(node: ast.expr, module: ModuleType) -> str | bytes:
    """A pattern's text; what is put into it by `re.escape` is a letter."""

    class Escaped(ast.NodeTransformer):
        def visit_Call(self, call: ast.Call) -> ast.expr:
            if ast.unparse(call.func) == "re.escape":
                return ast.copy_location(ast.Constant("a"), call)
            self.generic_visit(call)
            return call

    expression = ast.fix_missing_locations(ast.Expression(Escaped().visit(node)))
    value = eval(compile(expression, module.__name__, "eval"), dict(vars(module)))
    if not isinstance(value, str | bytes):
        raise NameError(ast.unparse(node))
    return value


def _flags(call: ast.Call, module: ModuleType) -> int:
    given = [each.value for each in call.keywords if each.arg == "flags"]
    if isinstance(call.func, ast.Attribute) and call.func.attr in (
        "compile",
        "search",
        "match",
        "fullmatch",
        "findall",
        "finditer",
    ):
        position = 1 if call.func.attr == "compile" else 2
        given += call.args[position : position + 1]
    if not given:
        return 0
    return int(eval(compile(ast.Expression(given[0]), "flags", "eval"), dict(vars(module))))


def _patterns(value: Any, depth: int = 4) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, str | bytes | int):
        return  # most of what tables hold
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _patterns(each, depth - 1)
    elif depth and isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from _patterns(each, depth - 1)
    elif depth and isinstance(value, partial):
        yield from _patterns((value.func, value.args), depth - 1)
    elif depth and callable(value) and isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__
    elif depth and isinstance(value, type) and value.__module__.startswith("agentrt"):
        yield from _patterns(tuple(vars(value).values()), depth - 1)
    elif depth and isinstance(fields := getattr(type(value), "__struct_fields__", None), tuple):
        yield from _patterns(tuple(getattr(value, name, None) for name in fields), depth - 1)


# --- JavaScript

_SKIPPED: Final = re.compile(
    r"//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'"
)
_TEMPLATE: Final = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))*(`|\$\{)", re.DOTALL)
_LITERAL: Final = re.compile(r"/((?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+)/([a-z]*)")
_BEFORE: Final = re.compile(
    r"(?:[(,=:\[!&|?{};+\-*%~^<>]|=>|\b(?:return|typeof|case|of|in)|\$\{)\s*$"
)


def in_the_page() -> tuple[list[Found], list[Unreadable]]:
    """Those of the page's own modules."""
    found, unreadable = [], []
    for file in sorted(PAGE.glob("*.[jt]s*")):
        source = file.read_text(encoding="utf-8")
        for line, pattern, flags in literals(source):
            text, how = as_python(pattern, flags)
            found.append(Found(f"{file.name}:{line}", text, how, "y" in flags))
        for each in re.finditer(r"new RegExp\((.*)", source):
            unreadable.append(Unreadable(file.name, each[1]))
    return found, unreadable


def literals(source: str) -> Iterator[tuple[int, str, str]]:
    """The regular expressions of a module, with their lines and flags."""
    at, braces = 0, [0]
    while at < len(source):
        if skipped := _SKIPPED.match(source, at):
            at = skipped.end()
            continue
        mark = source[at]
        if mark == "`" or (mark == "}" and braces[-1] == 0 and len(braces) > 1):
            if mark == "}":
                braces.pop()
            rest = _TEMPLATE.match(source, at + 1)
            assert rest is not None
            at = rest.end()
            if rest[1] == "${":
                braces.append(0)
            continue
        braces[-1] += (mark == "{") - (mark == "}")
        tag = source[at - 1 : at] == "<" or source[at + 1 : at + 2] == ">"  # of JSX
        if mark == "/" and not tag and (found := _LITERAL.match(source, at)):
            before = source[max(0, at - 40) : at]
            if not before.strip() or _BEFORE.search(before):
                yield source.count("\n", 0, at) + 1, found[1], found[2]
                at = found.end()
                continue
        at += 1


def as_python(pattern: str, flags: str) -> tuple[str, int]:
    """A pattern of JavaScript's in the words of Python's."""
    text = pattern.replace("\\/", "/").replace("(?<", "(?P<").replace("(?P<=", "(?<=")
    text = text.replace("(?P<!", "(?<!").replace("[^]", r"[\s\S]")
    text = re.sub(r"\\k<(\w+)>", r"(?P=\1)", text)
    text = re.sub(r"\\u\{([0-9a-fA-F]+)\}", lambda m: f"\\U{int(m[1], 16):08x}", text)
    text = re.sub(r"\\[pP]\{[^}]*\}", r"\\u00e9-\\uffff", text) if "[" in text else text
    text = re.sub(r"\\[pP]\{[^}]*\}", r"[\\u00e9-\\uffff]", text)
    if "m" not in flags:
        text = re.sub(r"(?<!\\)\$(?=$|\)|\|)", r"\\Z", text)
    how = (
        (re.IGNORECASE if "i" in flags else 0)
        | (re.MULTILINE if "m" in flags else 0)
        | (re.DOTALL if "s" in flags else 0)
    )
    return text, how
