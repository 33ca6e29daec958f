"""What a trace leaves out."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt.tracing import REDACTED
from redacted import redacted, redacted_command
from tables import for_each

SECRETS = {
    "a key's shape": "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUv",
    "a forge's token": "ghp_0123456789abcdefghij0123456789abcdef",
    "a fine-grained one": "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuvw",
    "a cloud's key": "AKIAIOSFODNN7EXAMPLE",
    "a chat's token": "xoxb-123456789012-abcdefghij",
    "a signed token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
    "a map's key": "AIzaSyA1234567890abcdefghijklmnopqrstuv",
}


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_what_has_a_known_shape_is_replaced_wherever_it_stands(secret: str) -> None:
    line = json.dumps({"text": f"use {secret} for it"})
    shown = redacted(line)
    assert json.loads(shown) == {"text": f"use {REDACTED} for it"}


@for_each("secret", SECRETS.values())
@for_each(
    "lead",
    ["\n", "\t", "\r\n", "\f", "é", "ß", "日", "\x1b[31m", "\x1b[0K", "\\x1b[1m", "%3D", '"', "\0"],
)
def test_it_is_replaced_behind_whatever_is_no_letter_of_its_own(lead: str, secret: str) -> None:
    once = {"text": f"use{lead}{secret}{lead}for"}
    twice = {"text": json.dumps(once)}
    for value, ascii_only in itertools.product((once, twice), (True, False)):
        line = json.dumps(value, ensure_ascii=ascii_only)
        assert secret not in redacted(line)


@pytest.mark.parametrize("word", ["task-manager-of-a-service", "a_npm_package_and_its_name"])
def test_what_is_a_part_of_a_longer_word_stays(word: str) -> None:
    line = json.dumps({"text": f"the {word}\n{word}"})
    assert redacted(line) == line


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "ACCESS_TOKEN", "client_secret", "password", "x-api-key"]
)
def test_what_stands_behind_a_telling_name_is_replaced_in_json(name: str) -> None:
    line = json.dumps({name: 'hunter2 \\"or\n', "other": 'hun"ter'})
    assert json.loads(redacted(line)) == {name: REDACTED, "other": 'hun"ter'}


def test_json_inside_a_string_of_json_is_looked_through() -> None:
    line = json.dumps({"text": json.dumps({"password": "hunter2", "user": "me"})})
    inner = json.loads(json.loads(redacted(line))["text"])
    assert inner == {"password": REDACTED, "user": "me"}


@pytest.mark.parametrize(
    "text",
    [
        "password:@",
        "DB_PASSWD:@",
        "SharedAccessSignature=sr=@",
        "Ocp-Apim-Subscription-Key: @",
        "x-functions-key: @",
        "client-key-data: @",
        "keytool -storepass @",
        "openssl rsa -passin pass:@",
        "curl --oauth2-bearer @ https://example.com",
        "npm config set //registry.example.com/:_authToken @",
        "setx API_KEY @",
        "ENV SERVICE_TOKEN @",
        "set -gx API_KEY @",
        "requirepass @",
    ],
)
@pytest.mark.parametrize("depth", range(3))
def test_a_secret_is_found_in_each_way_to_write_it(text: str, depth: int) -> None:
    line = text.replace("@", "Zk3vQ8rT1xWm5YbN")
    for _ in range(depth):
        line = json.dumps({"text": line})
    assert "Zk3v" not in redacted(line)


@pytest.mark.parametrize(
    "text",
    [
        "std::token::next",
        "token:value",
        "password:required",
        "key-value:Pair",
        "ENV PUBLIC_KEY path",
        "requirepass is a setting",
        "set -x TOKEN and more",
    ],
)
def test_code_and_prose_with_such_a_name_stay(text: str) -> None:
    assert redacted(text) == text


@for_each("password", ['hun"ter\\2', "a\\", "ü\n/ë", '\\"', "x" * 300])
@for_each("ascii_only", [True, False])
@for_each("depth", range(4))
def test_all_of_it_is_replaced_however_deep_it_is(
    depth: int, ascii_only: bool, password: str
) -> None:
    value: object = {"env": [{"name": "API_KEY", "value": password}], "password": password, "x": 1}
    for _ in range(depth):
        value = {"text": json.dumps(value, ensure_ascii=ascii_only)}
    shown = json.loads(redacted(json.dumps(value, ensure_ascii=ascii_only)))
    for _ in range(depth):
        shown = json.loads(shown["text"])
    tail = shown["password"].removeprefix(REDACTED)
    assert tail in ("", "\\")  # the last one stands right in front of the quotation mark
    assert shown["env"] == [{"name": "API_KEY", "value": REDACTED + tail}]
    assert shown["x"] == 1


def test_a_piece_of_it_is_replaced() -> None:
    line = json.dumps({"text": '{"password": "hunt'})
    assert json.loads(redacted(line)) == {"text": f'{{"password": "{REDACTED}'}
    assert "hunt" not in redacted('{"password": "hunt')


def test_what_is_assigned_in_quotes_is_replaced_in_a_string_of_json() -> None:
    for text in ("A_TOKEN='ab c'\nB='x'", 'A_TOKEN="ab c"\nB="x"', "{'a_token': 'ab c'}"):
        line = json.dumps({"text": text, "y": ["token=", 1, "token: ", "x"]})
        shown = json.loads(redacted(line))
        assert shown == {"text": text.replace("ab c", REDACTED), "y": ["token=", 1, "token: ", "x"]}


def test_the_variables_and_headers_of_mcp_servers_lose_their_secrets() -> None:
    pairs = [
        {"name": "Authorization", "value": "Bearer abcdefghijkl"},
        {"name": "DB_PASSWORD", "value": "hunter2"},
        {"name": "HOME", "value": "/home/me"},
    ]
    shown = json.loads(redacted(json.dumps({"env": pairs})))["env"]
    assert [each["value"] for each in shown] == [REDACTED, REDACTED, "/home/me"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("export GITHUB_TOKEN=abcdefg123 && ls", f"export GITHUB_TOKEN={REDACTED} && ls"),
        ("Authorization: Bearer abcdefgh12345", f"Authorization: Bearer {REDACTED}"),
        ("curl -H 'x-api-key: abcdefgh'", f"curl -H 'x-api-key: {REDACTED}'"),
        ("psql postgresql://me:pass@host/db", f"psql postgresql://me:{REDACTED}@host/db"),
        ("https://host:8000/a?b=c@d", "https://host:8000/a?b=c@d"),
        ('API_KEY="ab cd" # mine', f'API_KEY="{REDACTED}" # mine'),
        ("API_KEY='ab cd' # mine", f"API_KEY='{REDACTED}' # mine"),
        ("{'password': 'ab cd', 'user': 'me'}", f"{{'password': '{REDACTED}', 'user': 'me'}}"),
        ("aws_secret_access_key = abcdefgh", f"aws_secret_access_key = {REDACTED}"),
        ("Authorization: Basic bWU6aHVudGVyMg==", f"Authorization: Basic {REDACTED}"),
        ("a basic understanding of it", "a basic understanding of it"),
    ],
)
def test_assignments_headers_and_urls_in_plain_text_are_redacted(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_numbers_of_tokens_and_the_protocols_own_names_stay() -> None:
    line = json.dumps({"inputTokens": 12, "token": 5, "progressToken": "p1", "keys": "enter"})
    assert redacted(line) == line


def test_a_value_that_the_agent_was_given_is_found_as_json_writes_it() -> None:
    line = json.dumps({"text": json.dumps({"x": 'squea"mish\\ossifrage'})})
    assert "ossifrage" not in redacted(line, secrets=['squea"mish\\ossifrage'])


def test_a_short_value_is_no_secret_of_its_own() -> None:
    assert redacted('{"x": true}', secrets=["true"]) == '{"x": true}'


def test_a_rule_of_the_program_comes_on_top() -> None:
    shown = redacted(
        "Project X uses password=hunter22", rule=lambda line: line.replace("Project X", "(it)")
    )
    assert shown == f"(it) uses password={REDACTED}"


def test_nothing_of_a_line_gets_out_for_which_the_programs_rule_fails() -> None:
    def rule(line: str) -> str:
        raise ValueError(line)

    assert redacted("a\nb", rule=rule) == f"{REDACTED}\n{REDACTED}"


def test_a_commands_options_lose_their_secrets() -> None:
    words = ["agent", "--api-key", "abc", "--model", "x", "--token=abcdefgh"]
    shown = ["agent", "--api-key", REDACTED, "--model", "x", f"--token={REDACTED}"]
    assert redacted_command(words) == shown


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["token", "api_key", "name", "value", "x", "Authorization"]), inner
        )
    ),
    max_leaves=10,
)


@given(json_values)
def test_json_stays_json_with_the_same_keys(value: object) -> None:
    def shape(value: object) -> object:
        if isinstance(value, dict):
            return {key: shape(each) for key, each in value.items()}
        if isinstance(value, list):
            return [shape(each) for each in value]
        return type(value)

    line = json.dumps(value)
    assert shape(json.loads(redacted(line))) == shape(value)
