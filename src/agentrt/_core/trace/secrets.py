"""The definition of secrets, and the scan that finds them in time proportional to the text.

The scan is one search for signs, each the start of a possible secret: a known prefix, a telling
name, credentials in a URL, an option of a command. A specific rule then judges each sign. It
examines a limited number of bytes, or bytes that are skipped afterwards. RE2
(https://github.com/google/re2) does the search, in one pass for any text.

The known prefixes are in `_core/token_shapes`. See docs/guides/tracing.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from itertools import islice
from typing import Any, Final

from ..token_shapes import SHAPES

REDACTED: Final = b"[redacted]"

WINDOW_BYTES: Final = 32 * 1024
"""Maximum number of bytes per search; other threads and tasks wait no longer than that."""
SIGN_COST_BYTES: Final = 512
"""Number of bytes that could be searched in the time for judging a sign; an upper bound."""
_MAX_SIGN_BYTES: Final = 512
"""Maximum length of a sign in bytes. Windows overlap by it."""
_PAIR_BEGINS_BYTES: Final = 200
"""Number of bytes before a telling name in which it must be called a name."""
_VALUE_BYTES: Final = 4096
"""Number of bytes in which the end of a value is expected."""

_WEBHOOKS: Final = (
    r"hooks\.slack\.com/(?:services|workflows|triggers)/"
    r"|discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/\d{1,30}/"
    r"|webhook\.office\.com/webhookb2/"
    r"|api\.telegram\.org/bot"
    r"|maker\.ifttt\.com/trigger/\w{1,60}/with/key/"
    r"|hooks\.zapier\.com/hooks/catch/"
)

# --- telling names

_STRONG: Final = (
    r"api[-_.]?key|access[-_.]?key|private[-_.]?key|secret(?:[-_.]?key(?:[-_.]?base)?)?"
    r"|(?:account|subscription|functions?|sharedaccess|shared[-_]access|encryption|signing"
    r"|master|storage|deploy|service|auth|session|client|hmac|jwt|aes|app)[-_.]?key"
    r"|token|passw(?:or)?d|passphrase|passcode|credentials?|authorization|bearer|set-cookie|cookie"
    r"|[-_.]pass|[-_.]pwd|[-_]pat|[-_]auth|[-_.]dsn|connection[-_]?string|[-_](?:key|token)-data"
    r"|sharedaccesssignature|webhook(?:[-_.]?url)?"
)
"""Endings of names whose value is a secret."""
_WEAK: Final = r"auth|pwd|pass|sig|signature"
"""Names whose value is a secret if it looks like one."""
_NOT: Final = frozenset(
    b"""progresstoken pagetoken nextpagetoken cancellationtoken eos_token bos_token pad_token
    unk_token sep_token cls_token mask_token stop_token end_token start_token
    continuationtoken""".split()
)
"""Names in protocols and libraries that have such an ending but no secret value."""
_QUOTE: Final = r"\\{0,63}[\"']?"
_SPACE: Final = r"[ \t]{0,64}"
_GAP: Final = r"(?:[\s,]|\\{1,7}[nrt]){1,28}"
"""The text between a name and its value in a list of both, such as a line break and indentation."""
_THEN: Final = r"(?:[ \t]|\\{0,63}[\"'][ \t]{0,8}[, ])"
"""The text between two words of a command, or of a list of words."""

_ACROSS_LINES: Final = ("pair", "block", "here")
"""Signs of secrets whose names, or whose commands, may be in an earlier line."""
_NEXT: Final = r"(?P<next>[ =]|\\{0,63}[\"'][ \t]{0,8}[, ])"
_PASSWORD_OPTIONS: Final = {
    # programs: a word that the command must contain, and the option before the password
    "docker|podman|nerdctl|buildah|skopeo|crane|helm|oras|az|oc|cf|ibmcloud": ("login", "-p"),
    "mongosh?|mongodump|mongorestore|mongoimport|mongoexport|cqlsh|rdesktop": ("", "-p"),
    "redis-cli": ("", "-a"),
    "sqlcmd|bcp|zip|unzip|mosquitto_pub|mosquitto_sub|ipmitool": ("", "-P"),
    "ldapsearch|ldapmodify|ldapadd|ldapdelete|ldapwhoami|ldappasswd": ("", "-w"),
    "openssl": ("", "-k"),
    "sshpass": ("", "-p ?"),
    "mysql|mariadb|mysqldump|mariadb-dump|mysqladmin|mysqlimport|7z|7za|7zr": (
        "",
        r"-p(?=[^\s\"'\\]|\\{0,63}[\"'][^\s,])",
    ),
    "xfreerdp|wlfreerdp": ("", "/p:"),
    "smbclient|rpcclient": ("", r"-U [\w.@-]{1,60}+%"),
    "lftp": ("", r"-u [\w.@-]{1,60}+,"),
    "useradd|usermod|psexec": ("", "-p"),
    "schtasks": ("", r"/rp(?=[ \"'\\])"),
    "security": ("password", "-w"),
}
"""Options for passwords with names that do not show it.

After an option of one letter comes another word, after others the password itself.
"""
_PASSWORD_PROGRAMS: Final = "|".join(_PASSWORD_OPTIONS)

_BETWEEN: Final = r"(?:[ \t:]|\\{0,63}[\"'][ \t]{0,8},[ \t]{0,8}\\{0,63}[\"'])"
"""The text between two words of a command, or of a list of words, up to the second word."""
_STORES: Final = (
    rf"(?:secrets?|kv|vault|keyvault|secretsmanager|ssm|config){_BETWEEN}(?:secret{_BETWEEN})?"
    r"(?:set|put|add|create|write|update|patch)(?:-secret(?:-value)?|-parameter)?"
    rf"|create{_BETWEEN}secret{_BETWEEN}generic"
)
"""Commands that put a secret into a store of secrets."""

_SIGNS: Final = (
    ("shape", "|".join(prefix for prefix, _ in SHAPES)),
    ("jwt", r"eyJ[\w-]"),
    ("pem", r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"),
    ("url", r"://[^/\s\"'\\@]{1,256}@"),
    ("hook", _WEBHOOKS),
    ("pair", rf"(?i:{_STRONG}){_QUOTE}{_GAP}{_QUOTE}(?i:value){_QUOTE}{_SPACE}[:=]"),
    ("block", rf"(?i:{_STRONG}){_QUOTE}{_SPACE}:[ \t]{{0,8}}[|>]"),
    ("name", rf"(?i:{_STRONG}|{_WEAK}){_QUOTE}{_SPACE}[:=>]"),
    ("element", rf"<[\w:.-]{{0,60}}(?i:{_STRONG})[ \t][^<>]{{1,200}}>"),
    ("scheme", r"(?i:bearer|basic)[ \t]"),
    (
        "option",
        r"--?(?i:[a-z][\w-]{0,30}[-_])?(?i:(?:store|key)?pass(?:word|wd|phrase|in|out)?|token"
        r"|secret|api-?key|key-id|oauth2-bearer|access-key|secret-key|requirepass|pat"
        rf"|credentials?|authorization){_THEN}",
    ),
    (
        "variable",
        r"(?:setx|ENV|set -[A-Za-z]{1,4}) [A-Z0-9_]{0,60}"
        r"(?:TOKEN|KEY|SECRET|PASSWORD|PASSWD|PASS|CREDENTIALS?) |_auth(?:Token|) |requirepass "
        rf"|(?:config|configure)(?: set| --?[a-z]{{1,20}}){{0,3}} [\w./:-]{{0,80}}(?i:{_STRONG}) ",
    ),
    ("user", r"-(?:u|-user|U|-proxy-user)(?:[ =]|\\{0,63}[\"'])"),
    ("cookie", r"-[A-Za-z]{0,8}b(?:[ =]|\\{0,63}[\"'])|--cookie(?:[ =]|\\{0,63}[\"'])"),
    ("login", rf"(?:{_PASSWORD_PROGRAMS}){_THEN}"),
    ("account", rf"(?:htpasswd|rabbitmqctl){_THEN}"),
    ("netrc", r"(?:machine|login) [^\s\"\\]{1,100} "),
    ("sql", r"(?i:identified by|password)[ \t]\\{0,63}['\"]"),
    ("piped", r"(?:echo|printf)[ \t]"),
    ("here", r"<<"),
    ("stored", rf"(?:{_STORES}){_THEN}"),
    ("share", r"(?i:net(?:\.exe)? use[ \t])"),
    ("member", r"(?i:net(?:\.exe)? user[ \t])"),
)

Span = tuple[int, int] | None
"""Start and end of a secret."""


def _bytes(pattern: str) -> re.Pattern[bytes]:
    """Compile a pattern for bytes, with ASCII classes."""
    return re.compile(pattern.encode(), re.ASCII)


@lru_cache(maxsize=1)
def _which() -> re.Pattern[bytes]:
    """Return the pattern that identifies the sign at a position."""
    return _bytes("|".join(f"(?P<{name}>{pattern})" for name, pattern in _SIGNS))


_Search = Callable[[bytes, int, int], int]
"""Returns the position of the first sign between two positions, or -1."""


@lru_cache(maxsize=1)
def load() -> _Search:
    """Return the search for signs. It is compiled once, which takes some hundredths of a second."""
    return _compiled([name for name, _ in _SIGNS])


@lru_cache(maxsize=1)
def _load_across_lines() -> _Search:
    """Return the search for signs of secrets that may be in a later line than their name."""
    return _compiled(_ACROSS_LINES)


def _compiled(names: Sequence[str]) -> _Search:
    """Compile the search for some signs.

    RE2 searches in linear time; only at a place that it finds do Python's patterns decide.
    """
    source = "|".join(f"(?:{pattern})" for name, pattern in _SIGNS if name in names).encode()
    re2: Any = import_module("re2")
    options = re2.Options()
    options.never_capture = True
    options.max_mem = 32 * 1024 * 1024
    options.encoding = re2.Options.Encoding.LATIN1
    find = re2.compile(source, options=options).search

    def search(data: bytes, start: int, end: int) -> int:
        """Search in a part of the data, without a copy."""
        found = find(data, start, end)
        return -1 if found is None else int(found.start())

    return search


def has_sign(data: bytes) -> bool:
    """Return True if the data may contain a secret."""
    return load()(data, 0, len(data)) >= 0


def without_secrets(line: bytes) -> Iterator[bytes | None]:
    """Yield the line with each secret replaced, in parts, and None after each `WINDOW_BYTES`.

    Joining the parts that are not None gives the line.
    """
    if not (len(line) > WINDOW_BYTES or has_sign(line)):
        yield line
        return
    yield from _Scanner(line).parts()


def without_secrets_across_lines(text: bytes) -> bytes:
    """Return a text of several lines without the secrets whose names are in an earlier line."""
    search, which, scanner = _load_across_lines(), _which().match, _Scanner(text)
    parts: list[bytes] = []
    done = at = 0
    while (place := search(text, at, len(text))) >= 0:
        at = place + 1
        sign = which(text, place)
        match "" if sign is None else sign.lastgroup:
            case "pair":
                span = _pair_in(text, place)
            case "block":
                assert sign is not None
                span = scanner.block(sign)
            case "here":
                assert sign is not None
                span = scanner.here(sign)
            case _:
                continue
        if span is not None and done <= span[0] < span[1]:
            parts += (text[done : span[0]], REDACTED)
            done = at = span[1]
    return b"".join((*parts, text[done:]))


def _pair_in(text: bytes, place: int) -> Span:
    """Match a name and its value, which ends with its line, in a text of several lines."""
    start = max(0, place - _PAIR_BEGINS_BYTES)
    value = text.find(b"\n", place, place + _MAX_SIGN_BYTES) + 1 or place
    last = text.find(b"\n", value, value + _VALUE_BYTES)
    scanner = _Scanner(text[start : last if last >= 0 else value + _VALUE_BYTES])
    scanner.is_json = False
    sign = _which().match(scanner.line, place - start)
    if sign is None or sign.lastgroup != "pair" or (span := scanner.pair(sign)) is None:
        return None
    end = start + span[1]
    if span[1] == len(scanner.line) and last < 0:  # the text after a value is skipped
        end = text.find(b"\n", end)
    return start + span[0], len(text) if end < 0 else end


class _Scanner:
    """A single pass through one line."""

    def __init__(self, line: bytes) -> None:
        """Begin with a line. In JSON, an unescaped quotation mark ends a string."""
        self.line = line
        self.is_json = line.lstrip()[:1] in (b"{", b"[")
        self.no_jwt_before = 0
        self._found: dict[bytes, int] = {}

    def parts(self) -> Iterator[bytes | None]:
        """Yield the parts as `without_secrets`."""
        line, search, which = self.line, load(), _which().match
        done = at = 0
        worked = 0
        while at < len(line):
            end = min(len(line), at + WINDOW_BYTES)
            place = search(line, at, end)
            if place < 0:
                worked += end - at
                if end == len(line):
                    break
                at = max(at + 1, end - _MAX_SIGN_BYTES)
            else:
                worked += place - at + SIGN_COST_BYTES
                sign = which(line, place)
                span = None if sign is None else _JUDGES[str(sign.lastgroup)](self, sign)
                if span is not None and span[0] >= done and span[1] > span[0]:
                    if line[span[0] : span[1]] != REDACTED:
                        yield line[done : span[0]]
                        yield REDACTED
                        done = span[1]
                    at = max(span[1], place + 1)
                    worked += span[1] - span[0]
                else:
                    at = place + 1
            if worked >= WINDOW_BYTES:
                worked = 0
                yield None
        yield line[done:]

    # --- the judgement of each sign

    def shape(self, sign: re.Match[bytes]) -> Span:
        """Match a key or token with a known prefix."""
        start = sign.start()
        # First, because a key may be long: otherwise each of the signs in it is matched to its end.
        if _BEGINS.match(self.line, start) is None:
            return None
        found = _shape().match(self.line, start)
        return None if found is None else (start, found.end())

    def jwt(self, sign: re.Match[bytes]) -> Span:
        """Match a JSON Web Token."""
        start = sign.start()
        if start < self.no_jwt_before or _BEGINS.match(self.line, start) is None:
            return None
        found = _JWT.match(self.line, start)
        if found is None or found["rest"] is None:
            # Neither does one that begins later in the same run.
            self.no_jwt_before = start if found is None else found.end()
            return None
        return start, found.end()

    def pem(self, sign: re.Match[bytes]) -> Span:
        """Match up to the key's end, or the end of the string that contains it."""
        quote = self._next(b'"', sign.end())
        end = self._next(b"-----END ", sign.end())
        if end < quote:
            last = _PEM_END.match(self.line, end)
            return sign.start(), end if last is None else last.end()
        return sign.start(), quote - _backslashes(self.line, quote, sign.end())

    def _next(self, part: bytes, start: int) -> int:
        """Return the next position of a part, or the end of the line. Searches nothing twice."""
        known = self._found.get(part, -1)
        if known < start:
            place = self.line.find(part, start)
            known = self._found[part] = len(self.line) if place < 0 else place
        return known

    def url(self, sign: re.Match[bytes]) -> Span:
        """Match the password in a URL, or a random user name."""
        user, colon, password = sign[0][3:-1].partition(b":")
        start, end = sign.start() + 3, sign.end() - 1
        if _is_random(user, 16):
            return start, end
        return (end - len(password), end) if colon and password else None

    def hook(self, sign: re.Match[bytes]) -> Span:
        """Match the secret part of a webhook's URL."""
        found = _HOOK.match(self.line, sign.end())
        return None if found is None else found.span()

    def scheme(self, sign: re.Match[bytes]) -> Span:
        """Match the value after `Bearer` or `Basic`."""
        found = _SCHEME_VALUE.match(self.line, sign.end())
        if found is None or _continues(self.line, sign.start()):
            return None
        is_basic = sign[0][:1] in b"bB" and sign[0][1:2] in b"aA"
        value = found["value"]
        likely = _is_random(value, 8) or value.endswith(b"=") if is_basic else _is_random(value, 8)
        return found.span("value") if likely or len(value) >= 24 else None

    def option(self, sign: re.Match[bytes]) -> Span:
        """Match the word after an option such as `--token`."""
        if _continues(self.line, sign.start()):
            return None
        return self._argument(sign.end())

    def variable(self, sign: re.Match[bytes]) -> Span:
        """Match the word after the name of a variable or a setting, as in `ENV API_KEY value`."""
        found = self._argument(sign.end())
        return found if found is not None and _is_random(self.line[slice(*found)], 8) else None

    def _argument(self, start: int) -> Span:
        """Match a word of a command, or of a list of words, without its quotation marks."""
        line, found = self.line, _BEFORE_WORD.match(self.line, start)
        assert found is not None
        at, quote = found.end(), found["quote"]
        if line[at : at + 1] == b"-":
            return None
        if quote == b'"':
            end = self._end_of_string(at, len(found["escapes"]))
        elif quote == b"'":
            end = _end_in_apostrophes(line, at)
        elif found["escapes"] or found["comma"] or line[start - 1 : start] == b",":
            return None  # a number in a list of words, for example
        else:
            word = _WORD.match(line, at)
            end = at if word is None else word.end()
        if end - at < 4:
            return None
        if end - at < 100 and _PLACEHOLDER.fullmatch(line[at:end]) is not None:
            return None
        return at, end

    def user(self, sign: re.Match[bytes]) -> Span:
        """Match the password in the option `-u USER:PASSWORD` of curl and similar programs."""
        before = self.line[max(0, sign.start() - 300) : sign.start()]
        if not (b"curl" in before or b"wget" in before or b"http" in before or b"smb" in before):
            return None
        found = _USER.match(self.line, sign.end())
        return None if found is None else found.span("value")

    def cookie(self, sign: re.Match[bytes]) -> Span:
        """Match the cookies, but not the file of cookies, in an option of curl."""
        if b"curl" not in self.line[max(0, sign.start() - 300) : sign.start()]:
            return None
        found = _COOKIES.match(self.line, sign.end())
        return None if found is None else found.span("value")

    def login(self, sign: re.Match[bytes]) -> Span:
        """Match the password option of a program such as `sshpass` or `mysql`."""
        if _continues(self.line, sign.start()):
            return None
        program = _PROGRAM.match(self.line, sign.start())
        assert program is not None
        assert program.lastgroup is not None
        command = _COMMAND.match(self.line, sign.end())
        assert command is not None
        if _LOGIN_WORDS[program.lastgroup] not in command[0]:
            return None
        found = _LOGINS[program.lastgroup].search(self.line, *command.span())
        if found is None:
            return None
        if found["next"]:
            return self._argument(found.end())
        attached = _ATTACHED.match(self.line, found.end())
        return None if attached is None else attached.span("value")

    def account(self, sign: re.Match[bytes]) -> Span:
        """Match the password in the arguments of a program that sets one."""
        words = list(islice(_ARGUMENT.finditer(self.line, sign.end()), _MAX_ARGUMENTS))
        options = b"".join(word[0] for word in words if word[0].startswith(b"-"))
        names = [word for word in words if not word[0].startswith(b"-")]
        if sign[0].startswith(b"htpasswd"):
            place = 0 if b"b" not in options else 1 if b"n" in options else 2
        else:
            place = 2 if names and names[0][0] in _WITH_PASSWORD else 0
        if not 0 < place <= len(names):
            return None
        closing = _CLOSING.match(self.line, names[place - 1].end())
        return None if closing is None else self._argument(closing.end())

    def netrc(self, sign: re.Match[bytes]) -> Span:
        """Match the password of a netrc entry."""
        found = _NETRC.match(self.line, sign.end())
        return None if found is None else found.span("value")

    def sql(self, sign: re.Match[bytes]) -> Span:
        """Match a quoted password in SQL."""
        quote = sign.end() - 1
        depth = _backslashes(self.line, quote, sign.start())
        if self.line[quote : quote + 1] == b'"':
            if self.is_json and not depth:
                return None
            return quote + 1, self._end_of_string(quote + 1, depth)
        return quote + 1, _end_in_apostrophes(self.line, quote + 1)

    def piped(self, sign: re.Match[bytes]) -> Span:
        """Match the text that a command gets from `echo`, if it reads a secret."""
        front = _ECHO_OPTIONS.match(self.line, sign.end())
        assert front is not None
        found = self._argument(front.end())
        if found is None:
            return None
        pipe = _PIPE.match(self.line, found[1])
        return found if pipe is not None and _reads_secret(pipe[0]) else None

    def here(self, sign: re.Match[bytes]) -> Span:
        """Match a here-string or a here-document for a command that reads a secret."""
        line, start = self.line, sign.start()
        before = max(line.rfind(each, start - 200 if start > 200 else 0, start) for each in _ENDS)
        reads = _reads_secret(line[max(before, start - 200, 0) : start])
        if line[sign.end() : sign.end() + 1] == b"<":
            found = self._argument(sign.end() + 1)
            if found is None or reads:
                return found
            after = _COMMAND.match(line, found[1], found[1] + 200)
            return found if after is not None and _reads_secret(after[0]) else None
        document = _HERE_DOCUMENT.match(line, sign.end()) if reads else None
        if document is None:
            return None
        ends = document["break"] + document["word"]
        end = line.find(ends, document.end(), document.end() + _VALUE_BYTES)
        if end < 0:  # the last line may be indented
            end = line.find(document["word"], document.end(), document.end() + _VALUE_BYTES)
        return None if end < 0 else (document.end(), end)

    def stored(self, sign: re.Match[bytes]) -> Span:
        """Match the values that a command puts into a store of secrets.

        From the first value of several to the last one: also the names between them.
        """
        if _continues(self.line, sign.start()):
            return None
        command = _COMMAND.match(self.line, sign.end() - 1)
        assert command is not None
        if (option := _STORED_OPTION.search(self.line, *command.span())) is not None:
            return self._argument(option.end())
        if b"config" in sign[0] and b"--secret" not in command[0]:
            return None
        pairs = islice(_STORED_PAIR.finditer(self.line, *command.span()), _MAX_ARGUMENTS)
        spans = [span for pair in pairs if (span := self._argument(pair.end())) is not None]
        return (spans[0][0], spans[-1][1]) if spans else None

    def share(self, sign: re.Match[bytes]) -> Span:
        """Match the password for a shared folder of Windows."""
        found = _SHARE.match(self.line, sign.end())
        return None if found is None else self._argument(found.end())

    def member(self, sign: re.Match[bytes]) -> Span:
        """Match the password that a user of Windows gets."""
        found = _MEMBER.match(self.line, sign.end())
        span = None if found is None else self._argument(found.end())
        if span is None or _is_random(self.line[slice(*span)], 4):
            return span
        rest = _COMMAND.match(self.line, span[1])
        return span if rest is not None and b" /" in rest[0] else None

    def name(self, sign: re.Match[bytes]) -> Span:
        """Match the value that belongs to a telling name."""
        line = self.line
        front = line[max(0, sign.start() - 80) : sign.start()]
        begins = _FRONT.search(front)
        prefix = front if begins is None else front[begins.end() :]
        parts = _NAME.match(line, sign.start())
        assert parts is not None
        name = (prefix + parts["name"]).lower()
        if name in _NOT:
            return None
        weak = parts["strong"] is None or (len(prefix) == 0 and parts["strong"][:1] in b"-_.")
        if parts["strong"] is None and (prefix and prefix[-1:] not in b"-_."):
            return None  # the end of a longer word, such as bypass
        depth, quote, then = len(parts["escapes"]), parts["quote"], parts["then"]
        if then == b">":
            start = sign.start() - len(prefix)
            opened = _ELEMENT_BEGINS.search(line[max(0, start - 100) : start])
            return None if opened is None else self._element(parts.end())
        cookies = _COOKIE.match(parts["name"]) and _COOKIES.match(line, parts.end())
        if cookies and not quote:
            return cookies.span("value")
        if quote == b'"':
            return self._in_json(parts.end(), depth, weak)
        return self._assigned(parts.end(), weak, in_apostrophes=quote == b"'")

    def _in_json(self, start: int, depth: int, weak: bool) -> Span:
        """Match `"name": "value"`, with the same number of backslashes before each quotation
        mark.
        """
        opened = _OPENING.match(self.line, start)
        if opened is None or len(opened["escapes"]) != depth:
            return None
        return self._judged(opened.end(), self._end_of_string(opened.end(), depth), weak)

    def pair(self, sign: re.Match[bytes]) -> Span:
        """Match a telling name and its value in a list, such as `name: X_TOKEN, value: VALUE`."""
        front = self.line[max(0, sign.start() - _PAIR_BEGINS_BYTES) : sign.start()]
        key = _VALUE_KEY.search(sign[0])
        if _NAMED_SO.search(front) is None or key is None:
            return None
        if key["quote"] == b'"':
            return self._in_json(sign.end(), len(key["escapes"]), weak=False)
        return self._assigned(sign.end(), weak=False, in_apostrophes=key["quote"] == b"'")

    def block(self, sign: re.Match[bytes]) -> Span:
        """Match the lines of a block after a telling name, in YAML."""
        found = _BLOCK.match(self.line, sign.end())
        return None if found is None else found.span("value")

    def element(self, sign: re.Match[bytes]) -> Span:
        """Match the content of an element with attributes and a telling name."""
        return self._element(sign.end())

    def _element(self, start: int) -> Span:
        """Match the content of an element of XML."""
        found = _XML.match(self.line, start)
        return None if found is None else found.span("value")

    def _assigned(self, start: int, weak: bool, *, in_apostrophes: bool) -> Span:
        """Match `NAME=value` and `name: value`, with or without quotation marks around the
        value.
        """
        found = _ASSIGNED.match(self.line, start)
        if found is None:
            return None
        depth, value = len(found["escapes"]), found.end()
        if found["quote"] == b'"':
            if self.is_json and not depth:  # the end of the string that contains it
                return None
            return self._judged(value, self._end_of_string(value, depth), weak)
        if found["quote"] == b"'":
            return self._judged(value, _end_in_apostrophes(self.line, value), weak)
        if depth or in_apostrophes:
            return None
        # Code, such as a::token::b or token:value, unless the value looks generated.
        weak |= self.line[start - 1 : start] == b":" and not found["space"]
        scheme = _SCHEME.match(self.line, value)
        first = value if scheme is None else scheme.end()
        # A value may be long and full of signs, so its beginning decides.
        begins = _BARE.match(self.line, first, first + 200)
        if begins is None or _CODE.match(self.line, value) is not None:
            return None
        if self._judged(*begins.span(), weak) is None:
            return None
        bare = _BARE.match(self.line, first)
        return None if bare is None else bare.span()

    def _judged(self, start: int, end: int, weak: bool) -> Span:
        """Return the span of a value, unless it is a placeholder.

        `weak`: the name alone does not show that it is a secret, so the value must look generated.
        """
        value = self.line[start : min(end, start + 200)]
        if end - start < 100 and _PLACEHOLDER.fullmatch(value) is not None:
            return None
        if weak and (b"/" in value[:1] or not _is_random(value, 6)):
            return None
        return start, end

    def _end_of_string(self, start: int, depth: int) -> int:
        """Return the end of a JSON string whose quotation marks have `depth` backslashes."""
        line, at = self.line, start
        while (quote := line.find(b'"', at)) >= 0:
            escapes = _backslashes(line, quote, start)
            # End of an enclosing string, or of this one after backslashes that are all escaped.
            if escapes < depth or (escapes - depth) % (2 * (depth + 1)) == 0:
                return quote - min(escapes, depth)
            at = quote + 1
        return len(line)


_JUDGES: Final[dict[str, Callable[[_Scanner, re.Match[bytes]], Span]]] = {
    name: getattr(_Scanner, name) for name, _ in _SIGNS
}

_HEX: Final = "[0-9A-Fa-f]"
_BEGINS: Final = _bytes(
    rf"(?<![A-Za-z0-9_])|(?<=\\[abefnrtv])|(?<=\\u{_HEX}{{4}})|(?<=\\x{_HEX}{{2}})"
    rf"|(?<=%{_HEX}{{2}})|(?<=[0-9\[;(][A-Za-z])"
)
"""The start of a word.

Also matches after the escapes of JSON and others, and after terminal color codes, which end in a
letter or a digit that is not part of the word.
"""


@lru_cache(maxsize=1)
def _shape() -> re.Pattern[bytes]:
    """Return the pattern for tokens of known services, compiled once."""
    return _bytes("|".join(f"(?:{prefix})(?:{rest})" for prefix, rest in SHAPES))


_JWT: Final = _bytes(r"eyJ[\w-]{8,}+(?P<rest>\.[\w-]{8,}+(?:\.[\w-]*+)*+)?")
PEM_BEGINS: Final = _bytes(r"-----BEGIN [A-Z0-9 ]{0,40}\Z")
_PEM_END: Final = _bytes(r"-----END [A-Z0-9 ]{0,40}(?:PRIVATE KEY-----)?")
_HOOK: Final = _bytes(r"[\w/.:@-]{8,}")
_SCHEME_VALUE: Final = _bytes(r"[ \t]{0,8}(?P<value>[\w.~+/=-]{8,})")
_SCHEME: Final = _bytes(
    r"(?i:bearer|basic|token|bot|apikey|api-key|digest|negotiate|splunk|key)[ \t]{1,8}"
)
_BEFORE_WORD: Final = _bytes(
    r"[ \t]{0,8}(?P<comma>,?)[ \t]{0,8}(?P<escapes>\\{0,63})(?P<quote>[\"']?)"
)
_WORD: Final = _bytes(r"(?:[^\s\"'\\,;&|(){}\[\]<>]|,(?=[^\s\"'\\,\]}]))+")
_USER: Final = _bytes(
    r"[ \t=]{0,4}(?:[ \t]{0,8},?[ \t]{0,8}\\{0,63}[\"'])?[^\s:\"'\\/]{0,100}:"
    r"(?P<value>[^\s\"'\\]{3,})"
)
_PROGRAM: Final = _bytes(
    "|".join(f"(?P<p{at}>{each})(?![\\w-])" for at, each in enumerate(_PASSWORD_OPTIONS))
)
_LOGINS: Final = {
    f"p{at}": _bytes(rf"(?<=[\s\"']){option}" + (_NEXT if len(option) == 2 else f"{_NEXT}?"))
    for at, (_, option) in enumerate(_PASSWORD_OPTIONS.values())
}
_LOGIN_WORDS: Final = {
    f"p{at}": word.encode() for at, (word, _) in enumerate(_PASSWORD_OPTIONS.values())
}
_COMMAND: Final = _bytes(r"[^;&|\n]{0,400}")
_ATTACHED: Final = _bytes(r"(?:\\{0,63}[\"'])?(?P<value>[^\s\"'\\-][^\s\"'\\]{2,})")
_ARGUMENT: Final = _bytes(r"[^\s\"'\\,;&|]{1,100}")
_MAX_ARGUMENTS: Final = 8
"""Number of arguments among which the password of an account is expected."""
_CLOSING: Final = _bytes(r"\\{0,63}[\"']?")
_WITH_PASSWORD: Final = (b"add_user", b"change_password", b"authenticate_user")
_READS_SECRET: Final = _bytes(
    r"chpasswd|--(?:\w{1,20}-){0,2}stdin|--with-token|--passphrase-fd|-pass(?:in|out)? stdin"
    r"|\bsudo (?:-[A-Za-z]{1,4} ){0,3}-[A-Za-z]{0,4}S|secrets? (?:set|put|create|add)"
    r"|\bcryptsetup |\bsmbpasswd |\bhtpasswd -[A-Za-z]{0,4}i|\bkv put |\bssh-add -"
)
"""A command that reads a secret from its standard input."""
_READING: Final = (b"pass", b"stdin", b"token", b"cret", b"sudo", b"crypt", b"kv p", b"ssh-add")
"""Words one of which is in every such command."""
_ECHO_OPTIONS: Final = _bytes(
    r"[ \t]{0,8}(?:-[neE]{1,3}[ \t]{1,8}){0,2}"
    r"(?:\\{0,63}[\"']?%s(?:\\{1,63}n)?\\{0,63}[\"']?[ \t]{1,8})?"
)
_PIPE: Final = _bytes(r"\\{0,63}[\"']?[ \t]{0,8}\|[^;&\n]{1,200}+")
_ENDS: Final = (b";", b"&", b"|", b"\n")
"""Ends of a command."""
_HERE_DOCUMENT: Final = _bytes(
    r"-?[ \t]?\\{0,63}[\"']?(?P<word>[A-Za-z_]\w{0,40})\\{0,63}[\"']?[ \t]{0,8}"
    r"(?P<break>\r?\n|\\{1,63}n)"
)
_STORED_OPTION: Final = _bytes(
    r"(?<=[\s\"'])(?:-b|--body|--(?:secret-(?:string|binary)|value|string-data|text))"
    r"(?:[ =]|\\{0,63}[\"'][ \t]{0,8}[, ]|(?=\\{0,63}[\"'])|(?<=-b))"
)
_STORED_PAIR: Final = _bytes(
    r"(?:--from-literal[ =]\\{0,63}[\"']?|(?<=[\s\"']))\w[\w./-]{0,80}=(?!@)"
)
_SHARE: Final = _bytes(
    r"[ \t]{0,8}(?:[A-Za-z]:[ \t]{1,8}|\*[ \t]{1,8})?\\{2,64}[\w.$-][\w.$\\ -]{0,200}?[ \t]{1,8}"
    r"(?:/[^\s]{1,100}[ \t]{1,8}){0,3}(?![/*\s])"
)
_MEMBER: Final = _bytes(r"[ \t]{0,8}[^\s/\"'\\]{1,100}[ \t]{1,8}(?![/*\s])")
_COOKIES: Final = _bytes(
    r"[ \t=]{0,4}(?:[ \t]{0,8},?[ \t]{0,8}\\{0,63}[\"'])?"
    r"(?P<value>[\w.-]{1,100}=(?:[^\s\"'\\;]|; ?(?=[\w.-]))+)"
)
_NETRC: Final = _bytes(r"(?:login [^\s\"\\]{1,100} )?password (?P<value>[^\s\"\\]{3,})")
_NAME: Final = _bytes(
    rf"(?P<name>(?P<strong>(?i:{_STRONG}))|(?i:{_WEAK}))(?P<escapes>\\{{0,63}})(?P<quote>[\"']?)"
    rf"{_SPACE}(?P<then>[:=,>])"
)
_FRONT: Final = _bytes(r"[^\w.-](?=[\w.-]*+\Z)")
"""The last character before a name that does not belong to it."""
_OPENING: Final = _bytes(rf"{_SPACE}(?P<escapes>\\{{0,63}})\"")
_NAMED_SO: Final = _bytes(
    rf"(?i:name|key|header|variable|id){_QUOTE}{_SPACE}[:=]{_SPACE}{_QUOTE}[\w.:-]{{0,80}}\Z"
)
_VALUE_KEY: Final = _bytes(r"(?i:value)(?P<escapes>\\{0,63})(?P<quote>[\"']?)[ \t]{0,64}[:=]\Z")
_ELEMENT_BEGINS: Final = _bytes(
    r"<(?:[\w:.-]{1,40}[ \t][^<>]{0,40}(?:name|key|id)=\\{0,63}[\"'])?\Z"
)
_COOKIE: Final = _bytes(r"(?i:(?:set-)?cookie)")
_BLOCK: Final = _bytes(
    r"[-+0-9]{0,2}[ \t]{0,8}(?P<break>\r?\n|\\{1,63}n)(?P<indent>[ \t]{1,40})"
    r"(?P<value>[^\r\n\"\\]+(?:(?P=break)(?P=indent)[^\r\n\"\\]+)*)"
)
"""A block of lines, in YAML."""
_ASSIGNED: Final = _bytes(r"(?:>|=)?(?P<space>[ \t]{0,64})(?P<escapes>\\{0,63})(?P<quote>[\"']?)")
_BARE: Final = _bytes(r"[^\s\"'\\,;&{}<>]{6,}")
_CODE: Final = _bytes(
    r"\[|[A-Za-z_][\w.]{0,100}[(\[]|(?:None|null|true|false|undefined|string|number|boolean|bytes"
    r"|Optional|os\.environ|process\.env|env\.|self\.|this\.|secrets\.|config\.|settings\.)"
    r"(?![A-Za-z0-9])"
)
"""An expression or a type, not a value."""
_PLACEHOLDER: Final = _bytes(
    r"\$\{[\w.:-]{1,80}\}?|\$\(?[A-Za-z_]\w{0,80}\)?|\{\{[^}]{1,80}\}?\}?|<[\w .|-]{1,80}>|%[sd]"
    r"|\{[\w.]{0,60}\}|\*{3,}|\.{3,}|x{4,16}|X{4,16}|\[redacted\]"
)
_XML: Final = _bytes(r"(?P<value>[^<>\s][^<>]{0,4000})</")


def _backslashes(line: bytes, end: int, start: int) -> int:
    """Return the number of backslashes directly before `end`, counting from `start`."""
    at, size = end, 64
    while at > start:
        part = line[max(start, at - size) : at]
        other = len(part.rstrip(b"\\"))
        at -= len(part) - other
        if other:
            break
        size = WINDOW_BYTES
    return end - at


def _end_in_apostrophes(line: bytes, start: int) -> int:
    """Return the end of a text in apostrophes, which also ends with the string around it."""
    found = _APOSTROPHE.search(line, start)
    if found is None:
        return len(line)
    end = found.start()
    return end - _backslashes(line, end, start) if found[0] == b'"' else end


_APOSTROPHE: Final = _bytes(r"['\"]|\\[nr]")


def _continues(line: bytes, start: int) -> bool:
    """Return True if the text there is the rest of a longer word."""
    return _BEGINS.match(line, start) is None or line[max(0, start - 1) : start] == b"-"


def _is_random(value: bytes, shortest: int) -> bool:
    """Return True if a text looks generated: it has letters and digits, and is long enough."""
    value = value[:200]
    if len(value) < shortest:
        return False
    letters = _LETTER.search(value) is not None
    return letters and _DIGIT.search(value) is not None


def _reads_secret(command: bytes) -> bool:
    """Return True if a command reads a secret from its standard input.

    The words are looked for first, which is a hundred times faster than the pattern.
    """
    likely = any(word in command for word in _READING)
    return likely and _READS_SECRET.search(command) is not None


_LETTER: Final = _bytes(r"[A-Za-z]")
_DIGIT: Final = _bytes(r"\d")


_OPTION: Final = _bytes(rf"--?[\w.-]{{0,80}}?(?P<name>(?i:{_STRONG}|{_WEAK}))")


def is_telling_option(word: bytes) -> bool:
    """Return True if the word after this word of a command is a secret."""
    found = _OPTION.fullmatch(word)
    return found is not None and word.lstrip(b"-").lower() not in _NOT
