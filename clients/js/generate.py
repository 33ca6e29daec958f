"""Write the TypeScript types and the JSON Schema of `agentrt.v1`, from the structs of the server.

    python clients/js/generate.py

`tests/clients/test_generated.py` fails if the files differ from the structs. The reference
(`docs/reference/agentrt-v1.md`) is made from `PROTOCOL` as well, while it is built.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import sys
import textwrap
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec import field as field_of
from msgspec import inspect as shape

from agentrt import events
from agentrt._core.model import content
from agentrt._serve import commands, native_frames, refusal

HERE: Final = Path(__file__).resolve().parent
TYPES: Final = HERE / "src/wire.ts"
SCHEMA: Final = HERE / "schema/agentrt.v1.json"

SHAPES: Final[dict[tuple[str, str], tuple[str, dict[str, Any]]]] = {
    ("ItemUpdated", "patch"): (
        'Partial<Omit<Item, "tool">> & { tool?: Partial<ToolCall> | null }',
        {"type": "object"},
    ),
    ("ToolCall", "locations"): (
        "FileLocation[]",
        {"type": "array", "items": {"$ref": "#/$defs/FileLocation"}},
    ),
    ("Resource", "resource"): ("ResourceContents", {"$ref": "#/$defs/ResourceContents"}),
    ("PermissionOpened", "form"): ("FormSchema | null", {"type": ["object", "null"]}),
}
"""Fields that the server passes on without looking into them, and what agents put there."""


class FileLocation(Struct, omit_defaults=True):
    """A place in a file."""

    path: str
    """The path of the file."""
    line: int | None = None
    """The line, from 1."""


class ResourceContents(Struct, rename="camel", omit_defaults=True):
    """The content of a resource: `text` or `blob`."""

    uri: str
    """The URI of the resource."""
    mime_type: str | None = None
    """Its MIME type."""
    text: str | None = None
    """Its text."""
    blob: str | None = None
    """Its bytes, in base64."""
    cut: dict[str, content.Cut] | UnsetType = field_of(default=UNSET, name="_cut")
    """Members of which this is only a preview."""


class FormSchema(Struct, omit_defaults=True):
    """The JSON Schema of a form. Other keywords may occur."""

    type: str = ""
    """The JSON type."""
    title: str = ""
    """The label."""
    description: str = ""
    """The help text."""
    default: Any = None
    """The initial value."""
    format: str = ""
    """The format of a text, such as `email` or `date`."""
    enum: list[Any] = []
    """The possible values."""
    enumNames: list[str] = []
    """Labels of the possible values."""
    oneOf: list[FormChoice] = []
    """The possible values, with labels."""
    anyOf: list[FormChoice] = []
    """The possible values of the entries of a list, with labels."""
    items: FormSchema | None = None
    """The schema of the entries of a list."""
    properties: dict[str, FormSchema] = {}
    """The fields of an object."""
    required: list[str] = []
    """The fields that must be filled in."""
    minimum: float | None = None
    """The smallest number."""
    maximum: float | None = None
    """The largest number."""
    minLength: int | None = None
    """The minimum characters of a text."""
    maxLength: int | None = None
    """The maximum characters of a text."""
    pattern: str = ""
    """A regular expression for a text."""


class FormChoice(Struct, omit_defaults=True):
    """A possible value of a form's field."""

    const: Any
    """The value."""
    title: str = ""
    """The label."""


ALIASES: Final[dict[str, Any]] = {
    "Phase": events.Phase,
    "Origin": events.Origin,
    "Outcome": events.Outcome,
    "CancelledBy": events.CancelledBy,
    "ItemType": events.ItemType,
    "ItemStatus": events.ItemStatus,
    "Block": events.Block,
    "ToolContent": content.ToolContent,
    "ErrorCode": native_frames.ErrorCode,
}
"""Types that have a name of their own in TypeScript."""


@dataclass
class Field:
    """A field of a struct."""

    name: str
    typescript: str
    optional: bool
    default: Any
    description: str


@dataclass
class Declaration:
    """A struct: a frame, a command, an event or a part of one."""

    name: str
    cls: type[Struct]
    summary: str
    text: str
    tag: tuple[str, str] | None
    fields: list[Field]


@dataclass
class Group:
    """Declarations that belong together, and the name of the type that is any of them."""

    title: str
    union: str
    declarations: list[Declaration] = field(default_factory=list)


# --- names and descriptions


def _wire_name(cls: type[Struct]) -> str:
    """The name of a struct for clients: commands are named after their `type` and `op`."""
    if not issubclass(cls, commands.ViewerCommand | commands.Beat):
        return cls.__name__
    words = str(cls.__struct_config__.tag).split("_")
    if operation := _operation(cls):
        words += operation.split("_")
    return "".join(word.capitalize() for word in words) + "Command"


def _operation(cls: type[Struct]) -> str:
    for each in msgspec.structs.fields(cls):
        if each.name == "op":
            return str(each.default)
    return ""


def described(cls: type[Struct]) -> dict[str, str]:
    """The descriptions of a struct's fields, those of its bases included.

    A field's description is the string after it, or else what the docstring of its class says in
    the sentences that name it.
    """
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not (isinstance(base, type) and issubclass(base, Struct)) or base is Struct:
            continue
        tree = _classes(base.__module__)[base.__name__]
        summary, _, text = inspect.cleandoc(ast.get_docstring(tree) or "").partition("\n\n")
        said = " ".join((summary + " " + text).split())
        for line, following in zip(tree.body, [*tree.body[1:], None], strict=True):
            if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)):
                continue
            name = line.target.id
            if (
                isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
                and isinstance(following.value.value, str)
            ):
                found[name] = " ".join(following.value.value.split())
            elif name not in found and (sentence := _sentence(said, name)):
                found[name] = sentence
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    """The classes at the top of a module's source."""
    source = __file__ if module == __name__ else sys.modules[module].__file__
    assert source is not None
    tree = ast.parse(Path(source).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _sentence(text: str, name: str) -> str:
    """The sentences of a docstring that begin with a field's name, without a `name: `."""
    parts = re.split(r"(?<=[.;]) (?:- )?(?=`|[A-Z])", text)
    about = [part.removeprefix("- ") for part in parts]
    about = [part.removesuffix(";") for part in about if part.startswith(f"`{name}`")]
    found = " ".join(part.removeprefix(f"`{name}`: ") for part in about)
    return found[:1].upper() + found[1:]


def _unwrapped(kind: type[Struct]) -> tuple[str, str]:
    summary, _, text = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
    return " ".join(_null(summary).split()), _null(text)


def _null(text: str) -> str:
    """The text for people who write JavaScript."""
    return re.sub(r"\bNone\b", "null", text)


# --- TypeScript


class _Reader:
    """Collects the structs below some types, and writes types as TypeScript."""

    def __init__(self) -> None:
        self.found: dict[type[Struct], shape.StructType] = {}
        self._naming = False
        self.sent: set[type[Struct]] = set()
        """Structs in commands: a client may leave out every field with a default."""

    def read(self, kind: Any, *, sent: bool) -> str:
        return self.type(shape.type_info(kind), sent)

    def type(self, kind: shape.Type, sent: bool) -> str:
        match kind:
            case shape.Metadata(type=inner):
                return self.type(inner, sent)
            case shape.StructType(cls=cls):
                if cls not in self.found or (sent and cls not in self.sent):
                    self.found.setdefault(cls, kind)
                    if sent:
                        self.sent.add(cls)
                    for each in kind.fields:
                        if (shaped := SHAPES.get((cls.__name__, each.name))) is None:
                            self.type(each.type, sent)
                        else:
                            self._name_shape(shaped[0])
                return _wire_name(cls)
            case shape.UnionType(types=types):
                if (alias := self._alias(kind)) is not None:
                    return alias
                kinds = [self.type(each, sent) for each in types if not _is_unset(each)]
                return " | ".join(dict.fromkeys(kinds))
            case shape.LiteralType(values=values):
                if (alias := self._alias(kind)) is not None:
                    return alias
                return " | ".join(json.dumps(value) for value in values)
            case shape.ListType(item_type=item) | shape.VarTupleType(item_type=item):
                inner = self.type(item, sent)
                return f"({inner})[]" if " " in inner else f"{inner}[]"
            case shape.DictType(value_type=value):
                return f"Record<string, {self.type(value, sent)}>"
            case shape.StrType():
                return "string"
            case shape.IntType() | shape.FloatType():
                return "number"
            case shape.BoolType():
                return "boolean"
            case shape.NoneType():
                return "null"
            case shape.AnyType() | shape.RawType():
                return "unknown"
        raise TypeError(f"{kind} is not known to clients/js/generate.py")

    def _alias(self, kind: shape.LiteralType | shape.UnionType) -> str | None:
        """The name of a type, or of the same type with null."""
        if self._naming:
            return None
        parts = _parts(kind)
        for name, alias in ALIASES.items():
            wanted = _parts(shape.type_info(alias))
            if parts - {None} == wanted:
                if isinstance(kind, shape.UnionType):
                    for each in kind.types:
                        self.type(each, isinstance(each, shape.StructType) and name == "Block")
                return f"{name} | null" if None in parts else name
        return None

    def alias(self, name: str) -> str:
        """The definition of a named type."""
        self._naming = True
        try:
            return self.read(ALIASES[name], sent=False)
        finally:
            self._naming = False

    def _name_shape(self, text: str) -> None:
        for cls in (FileLocation, ResourceContents, FormSchema):
            if cls.__name__ in text:
                self.read(cls, sent=True)

    def declaration(self, cls: type[Struct]) -> Declaration:
        info, about = self.found[cls], described(cls)
        sent = cls in self.sent
        summary, text = _unwrapped(cls)
        fields = []
        for each in info.fields:
            has_default = not each.required
            omitted = cls.__struct_config__.omit_defaults or each.default is UNSET
            written = SHAPES.get((cls.__name__, each.name), (None,))[0]
            if each.name == "op" and issubclass(cls, commands.ViewerCommand):
                has_default = False
            fields.append(
                Field(
                    name=each.encode_name,
                    typescript=written or self.type(each.type, sent),
                    optional=has_default and (sent or omitted),
                    default=_default(each),
                    description=_null(about.get(each.name, "")),
                )
            )
        tag = (info.tag_field, str(info.tag)) if info.tag_field is not None else None
        return Declaration(_wire_name(cls), cls, summary, text, tag, fields)


def _parts(kind: shape.Type) -> set[Any]:
    """The structs and literals of a union; None for null."""
    match kind:
        case shape.UnionType(types=types):
            return {part for each in types for part in _parts(each)}
        case shape.LiteralType(values=values):
            return set(values)
        case shape.StructType(cls=cls):
            return {cls}
        case shape.NoneType():
            return {None}
    return set() if _is_unset(kind) else {object()}


def _is_unset(kind: shape.Type) -> bool:
    return isinstance(kind, shape.CustomType) and kind.cls is msgspec.UnsetType


def _default(each: shape.Field) -> Any:
    if each.default is not msgspec.NODEFAULT:
        return None if each.default is UNSET else each.default
    if each.default_factory is not msgspec.NODEFAULT:
        return each.default_factory()
    return None


@cache
def protocol() -> tuple[list[Group], _Reader]:
    """All structs of the protocol, in their groups."""
    reader = _Reader()
    kinds = [*native_frames.RESULTS, commands.Beat]
    for kind in kinds:
        reader.read(kind, sent=True)
    results = list(dict.fromkeys(native_frames.RESULTS.values()))
    frames = list(get_args(native_frames.ServerFrame))
    for kind in (*frames, *results):
        reader.read(kind, sent=False)
    events_ = list(get_args(events.Event))
    taken = {*kinds, *frames, *events_, *results}
    rest = [cls for cls in reader.found if cls not in taken]
    groups = [
        Group("Commands", "ClientFrame"),
        Group("Results", "CommandResult"),
        Group("Server frames", "ServerFrame"),
        Group("Events", "Event"),
        Group("Parts", ""),
    ]
    for group, members in zip(groups, (kinds, results, frames, events_, rest), strict=True):
        group.declarations = [reader.declaration(cls) for cls in members]
    return groups, reader


HEAD: Final = (
    "Generated by clients/js/generate.py from the structs of the server (agentrt.v1). Do not edit."
)

TAIL: Final = """\
/** A snapshot, as far as the reducer needs it. */
export type Snapshot = Omit<SnapshotFrame, "type" | "session" | "epoch" | "seq">;

/** The answer to a command with this result. */
export type Ack<Result = unknown> =
  | (AckFrame & { ok: true; error?: undefined } & Result)
  | (AckFrame & { ok: false; error: CommandError });

type WithoutId<C> = C extends { id: string } ? Omit<C, "id"> : never;

/** A command without its id, which the connection chooses. */
export type CommandRequest = WithoutId<ClientFrame>;
"""


def typescript() -> str:
    """The types of the protocol in TypeScript."""
    groups, reader = protocol()
    parts = [f"// {HEAD}\n"]
    for group in groups:
        parts.append(f"// {group.title}\n")
        parts += [_interface(each) for each in group.declarations]
        if group.union:
            names = " | ".join(each.name for each in group.declarations)
            parts.append(f"export type {group.union} = {names};\n")
    parts += [f"export type {name} = {reader.alias(name)};\n" for name in ALIASES]
    cases = []
    for kind, result in native_frames.RESULTS.items():
        operation = _operation(kind)
        wanted = f'type: "{kind.__struct_config__.tag}"' + (
            f'; op: "{operation}"' if operation else ""
        )
        cases.append(f"  C extends {{ {wanted} }} ? {result.__name__} :")
    parts.append(
        "/** The result of a command. */\nexport type ResultOf<C> =\n"
        + "\n".join(cases)
        + "\n  never;\n"
    )
    codes = "\n".join(
        f"  /** {_text(each)} */\n  {each.name}: {each.value}," for each in refusal.CloseCode
    )
    parts.append(
        f"/** The codes of close frames. */\nexport const CloseCode = {{\n{codes}\n}} as const;\n"
    )
    return "\n".join([*parts, TAIL])


def _interface(each: Declaration) -> str:
    lines = [
        *_comment(f"{each.summary}\n\n{each.text}".strip(), ""),
        f"export interface {each.name} {{",
    ]
    if each.tag is not None:
        lines.append(f"  {each.tag[0]}: {json.dumps(each.tag[1])};")
    for one in each.fields:
        lines += _comment(one.description, "  ")
        lines.append(f"  {one.name}{'?' if one.optional else ''}: {one.typescript};")
    return "\n".join([*lines, "}\n"])


def _comment(text: str, indent: str) -> list[str]:
    if not text:
        return []
    if "\n" not in text and len(text) < 100:
        return [f"{indent}/** {text} */"]
    lines = [
        line
        for paragraph in text.split("\n\n")
        for line in (*textwrap.wrap(" ".join(paragraph.split()), 96), "")
    ]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines[:-1]), f"{indent} */"]


def _text(code: refusal.CloseCode) -> str:
    return close_codes()[code.name]


def close_codes() -> dict[str, str]:
    """The meaning of each close code, by its name."""
    tree = _classes(refusal.__name__)["CloseCode"]
    found = {}
    for line, following in itertools.pairwise(tree.body):
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            assert isinstance(following, ast.Expr)
            assert isinstance(following.value, ast.Constant)
            found[line.targets[0].id] = " ".join(str(following.value.value).split())
    return found


# --- JSON Schema


def json_schema() -> dict[str, Any]:
    """The protocol as JSON Schema: a frame of either side, and `$defs` for all of its parts."""
    groups, reader = protocol()
    every = [each for group in groups for each in group.declarations]
    _, found = msgspec.json.schema_components([each.cls for each in every], ref_template="{name}")
    names = {each.cls.__name__: each.name for each in every}
    if len(names) < len(every):
        raise TypeError("two structs of the protocol have the same name")
    defs: dict[str, Any] = {}
    for each in every:
        about = found[each.cls.__name__]
        about["title"] = each.name
        about["description"] = f"{each.summary}\n\n{each.text}".strip()
        properties = about.get("properties", {})
        for one, info in zip(each.fields, reader.found[each.cls].fields, strict=True):
            if (shaped := SHAPES.get((each.cls.__name__, info.name))) is not None:
                properties[one.name] = dict(shaped[1])
            if one.description:
                properties[one.name] = {**properties[one.name], "description": one.description}
            if info.name == "op" and issubclass(each.cls, commands.ViewerCommand):
                properties["op"].pop("default", None)
                about.setdefault("required", []).append("op")
        defs[each.name] = about
    for group in groups:
        if group.union:
            refs = [{"$ref": each.name} for each in group.declarations]
            defs[group.union] = {"title": group.union, "anyOf": refs}
    known = defs.keys()
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:agentrt:agentrt.v1",
        "$comment": HEAD,
        "title": "agentrt.v1",
        "description": "A text message of the WebSocket: a command, a frame, or several frames.",
        "anyOf": [
            {"$ref": "ClientFrame"},
            {"$ref": "ServerFrame"},
            {"type": "array", "items": {"$ref": "ServerFrame"}},
        ],
        "$defs": {name: defs[name] for name in sorted(known)},
    }

    def resolved(value: Any) -> Any:
        if isinstance(value, dict):
            changed = {key: resolved(each) for key, each in value.items()}
            if isinstance(at := value.get("$ref"), str) and not at.startswith("#"):
                changed["$ref"] = f"#/$defs/{names.get(at, at)}"
            return changed
        if isinstance(value, list):
            return [resolved(each) for each in value]
        return value

    return resolved(schema)  # type: ignore[no-any-return]


def unexplained() -> list[str]:
    """The commands without a result, and the codes of refusals without a meaning."""
    kinds = {kind for table in commands.COMMANDS.values() for kind in table.values()}
    without = kinds - {*native_frames.RESULTS, commands.Beat}
    codes = {*get_args(native_frames.ErrorCode)} - {*native_frames.ERROR_CODES}
    return [*(kind.__name__ for kind in without), *codes]


def undescribed() -> list[str]:
    """The structs and fields of the protocol that have no description."""
    groups, _ = protocol()
    every = [each for group in groups for each in group.declarations]
    found = [each.cls.__name__ for each in every if not each.summary]
    return found + [
        f"{each.cls.__name__}.{one.name}"
        for each in every
        for one in each.fields
        if not one.description and one.name not in ("_meta", "op")
    ]


def files() -> dict[Path, str]:
    """The generated files and their contents."""
    schema = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    return {TYPES: typescript(), SCHEMA: schema}


def main() -> None:
    """Write all generated files."""
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
