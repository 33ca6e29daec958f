"""Forms that an agent asks the user to fill in (elicitations), one field after the other."""

from __future__ import annotations

from typing import Any, Final

from ...display import reveal
from ...events import JsonObject
from ..text import revealed_line

_YES_NO: Final = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}

TITLE_CHARS: Final = 40
"""Characters of a field's title and default that the prompt shows."""


class InvalidValue(ValueError):
    """The typed text is not a valid value of the field."""


class FormField:
    """One field of a form: a property of its JSON schema."""

    def __init__(self, name: str, schema: Any, required: bool) -> None:
        self.name = name
        self.required = required
        self._schema: JsonObject = schema if isinstance(schema, dict) else {}
        self._title = str(self._schema.get("title") or name)
        self.default: Any = self._schema.get("default")
        self.type = self._schema.get("type", "string")
        source = self._schema
        if self.type == "array" and isinstance(self._schema.get("items"), dict):
            source = self._schema["items"]
        self._choices = _choices(source)

    @property
    def known(self) -> bool:
        """True if a value of its type can be typed in a line."""
        if self.type == "array":
            return bool(self._choices)
        return self.type in ("string", "integer", "number", "boolean")

    def lines(self) -> list[str]:
        """Return the agent's text to show above the prompt, including everything the prompt
        shortens.
        """
        lines = (
            [revealed_line(self._title)]
            if revealed_line(self._title, TITLE_CHARS) != revealed_line(self._title)
            else []
        )
        lines += reveal(str(self._schema.get("description") or "")).expandtabs(4).splitlines()
        lines += [
            f"{n}  {revealed_line(label)}" for n, (_, _, label) in enumerate(self._choices, 1)
        ]
        if len(default := revealed_line(str(self.default or ""))) > TITLE_CHARS:
            lines.append(f"Default (Enter): {default}")
        return lines

    @property
    def prompt(self) -> str:
        """The text before the cursor."""
        hints = []
        if self.type == "array":
            hints.append("numbers separated by commas")
        elif self.type == "boolean":
            hints.append("y or n")
        elif self._choices or self.type in ("integer", "number"):
            hints.append("a number")
        if self.default is not None:
            default = self.default if not isinstance(self.default, bool) else "ny"[self.default]
            hints.append(f"Enter for {revealed_line(str(default), TITLE_CHARS)}")
        elif not self.required:
            hints.append("Enter to skip")
        title = revealed_line(self._title, TITLE_CHARS)
        return f"{title} ({'; '.join(hints)}): " if hints else f"{title}: "

    def read(self, line: str) -> Any:
        """Return the value of a typed line; None leaves the field out.

        Raises `InvalidValue`.
        """
        line = line.strip()
        if not line:
            if self.default is not None or not self.required:
                return self.default
            raise InvalidValue("An answer is required.")
        if self.type == "array":
            return [self._chosen(part.strip()) for part in line.split(",")]
        if self._choices:
            return self._chosen(line)
        try:
            match self.type:
                case "boolean":
                    return _YES_NO[line.lower()]
                case "string":
                    self._within(len(line), "minLength", "maxLength", " characters")
                    return line
                case "integer":
                    value: float = int(line)
                case _:
                    value = float(line)
        except InvalidValue:
            raise
        except (KeyError, ValueError):
            raise InvalidValue(
                "Type y or n." if self.type == "boolean" else "Type a number."
            ) from None
        self._within(value, "minimum", "maximum", "")
        return value

    def _within(self, value: float, low: str, high: str, unit: str) -> None:
        """Raise `InvalidValue` if a value or a length is outside the limits of the schema."""
        least, most = self._schema.get(low), self._schema.get(high)
        if isinstance(least, int | float) and value < least:
            raise InvalidValue(f"At least {least}{unit}.")
        if isinstance(most, int | float) and value > most:
            raise InvalidValue(f"At most {most}{unit}.")

    def _chosen(self, text: str) -> Any:
        """Return the value of a choice, given by its number, its value or its name."""
        if text.isdecimal() and 1 <= int(text) <= len(self._choices):
            return self._choices[int(text) - 1][0]
        for value, name, _ in self._choices:
            if text.casefold() in (str(value).casefold(), name.casefold()):
                return value
        raise InvalidValue(f"Type a number from 1 to {len(self._choices)}.")


def fields_of(form: JsonObject) -> list[FormField] | None:
    """Return the fields of a form that can be typed in a line.

    Returns None if a required field cannot be typed.
    """
    properties = form.get("properties")
    required = form.get("required")
    needed = required if isinstance(required, list) else []
    if not isinstance(properties, dict):
        return []
    fields = [FormField(str(name), each, name in needed) for name, each in properties.items()]
    if any(field.required and not field.known for field in fields):
        return None
    return [field for field in fields if field.known]


def _choices(schema: JsonObject) -> list[tuple[Any, str, str]]:
    """Return the allowed values, each with its name and its full label."""
    values = schema.get("enum")
    if isinstance(values, list):
        names = schema.get("enumNames")
        labels = names if isinstance(names, list) and len(names) == len(values) else values
        pairs = zip(values, labels, strict=True)
        return [(value, str(name), _named(value, str(name))) for value, name in pairs]
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        if isinstance(options, list):
            return [
                (option["const"], str(option.get("title") or option["const"]), _label(option))
                for option in options
                if isinstance(option, dict) and "const" in option
            ]
    return []


def _label(option: JsonObject) -> str:
    label = _named(option["const"], str(option.get("title") or option["const"]))
    description = option.get("description")
    return f"{label}: {description}" if description else label


def _named(value: Any, name: str) -> str:
    """Return the name of a value, followed by the value if that is different."""
    return name if name == str(value) else f"{name} ({value})"
