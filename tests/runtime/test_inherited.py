"""What an agent has of its host's environment, and what only if it is given to it."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

import agentrt
from agentrt._cli.setup import agents_environment
from agentrt._core.process.inherited import inherited
from agentrt.config import Config, ServeSettings, load_config
from hostile.kit import SHORT, bad_agent
from tables import for_each


@for_each(
    "name",
    [
        *("SECRET", "MY_SECRET", "TOKEN", "GITHUB_TOKEN", "NPM_TOKEN", "AGENTRT_SERVE_TOKEN"),
        *("AGENTRT_SERVE_VIEWER_TOKEN", "PASSWORD", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD"),
        *("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "STRIPE_API_KEY", "STRIPE_KEY", "APIKEY"),
        *("SSH_PRIVATE_KEY", "PRIVATE_KEY_PEM", "SENTRY_DSN", "SESSION_COOKIE", "GITLAB_PAT"),
        *("DJANGO_SECRET_KEY", "secret_key_base", "AZURE_CREDENTIALS", "DB_CONNECTION_STRING"),
        *("GPG_PASSPHRASE", "SMTP_PASS", "VAULT_TOKEN", "authToken"),
        *("GOOGLE_CLIENT_SECRET", "CURSOR_DB_PASSWORD", "DOCKER_AUTH_CONFIG", "REDISCLI_AUTH"),
        *("OPENAI_WEBHOOK_SECRET", "GOOGLE_OAUTH_CLIENT_SECRET", "GOOGLE_PRIVATE_KEY", "MYAPIKEY"),
        *("GEMINI_SMTP_KEY", "CLAUDE_DATABASE_TOKEN", "HF_COOKIE", "OPENAI_SIGNING_KEY"),
        *("AUTHORIZATION", "SMTP_PW", "LDAP_BINDPW", "DBPASS", "dbpass", "STOREPASS", "APP_PW"),
        *("SSL_KEYFILE", "UVICORN_SSL_KEYFILE", "TLS_KEY_FILE", "HTPASSWD"),
        *("SLACK_WEBHOOK_URL", "NPM_CONFIG__AUTH", "MISTRAL_DB_DSN", "AZURE_OPENAI_CREDENTIALS"),
    ],
)
def test_what_looks_like_a_secret_stays_behind(name: str) -> None:
    assert inherited({name: "x"}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "postgres://app:hunter2@db/app"),
        ("REDIS", "redis://:hunter2@cache:6379"),
        ("BROKER_URL", "amqp+ssl://a:b@c"),
        ("DB", "jdbc:postgresql://app:hunter2@db/app"),
        ("DB", "postgres://app:hun/ter2@db/app"),
        ("DB", "jdbc:mysql://db/app?user=app&password=hunter2"),
        ("FLAGS", "--index-url https://me:mine@index/simple"),
        ("REMOTE", "https://ghp_0123456789abcdefghij@github.com/me/it.git"),
        ("STORE", "https://store/blob?sv=2024&sig=abc"),
        ("GOOGLE_STORE", "postgres://app:hunter2@db/app"),
        ("PEM", "-----BEGIN RSA PRIVATE KEY-----\nx"),
        ("MINE", "ghp_" + "0123456789abcdefghij0123"),
        ("STRIPE", "sk_" + "live_0123456789abcdefghij0123"),
        ("K8S", "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
        ("FLAGS", "--with hf_" + "a1b2c3d4e5f6g7h8i9j0k1l2m3"),
        ("NOTIFY", "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/abcdefghij"),
    ],
)
def test_a_url_with_a_password_stays_behind(name: str, value: str) -> None:
    assert inherited({name: value}) == {}


@for_each(
    "name",
    [
        *(
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "USER",
            "SHELL",
            "LANG",
            "TERM",
            "TMPDIR",
            "VIRTUAL_ENV",
        ),
        *("SSH_AUTH_SOCK", "JAVA_HOME", "CARGO_HOME", "GOPATH", "NODE_ENV", "EDITOR", "MONKEY"),
        *("KEYBOARD", "XDG_SESSION_ID", "COMPASS_DIR", "PATIENT", "SECRETARY", "TOKENIZERS_X"),
        *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "OPENAI_API_KEY"),
        *("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "MISTRAL_API_KEY"),
        *("HF_TOKEN", "COPILOT_GITHUB_TOKEN", "AZURE_OPENAI_API_KEY", "ANTHROPIC_BASE_URL"),
        *("OPENAI_ORG_ID", "GOOGLE_CLOUD_PROJECT", "XAUTHORITY", "GIT_AUTHOR_NAME", "OPENAI_KEY"),
        *("OPENROUTER_API_KEY", "XAI_API_KEY", "MOONSHOT_API_KEY", "DASHSCOPE_API_KEY"),
    ],
)
def test_what_agents_need_is_inherited(name: str) -> None:
    assert inherited({name: "x"}) == {name: "x"}


def test_a_url_without_a_password_and_a_proxy_are_inherited() -> None:
    kept = {
        "API_URL": "https://example.com/a:b@c",
        "HTTPS_PROXY": "http://me:mine@proxy:8080",
        "http_proxy": "http://me:mine@proxy:8080",
        "ME": "me@example.com",
        "SSH": "ssh://git@github.com/me/it.git",
        "PROXY": "https://proxy:8080/@scope",
        "OPENAI_BASE_URL": "https://me:mine@gateway/v1",
    }
    assert inherited(kept) == kept


async def environment_of_agent(**options: object) -> dict[str, str]:
    async with agentrt.open_session(bad_agent(), limits=SHORT, **options) as session:  # type: ignore[arg-type]
        environ: dict[str, str] = psutil.Process(session.agent.pid).environ()
        return environ


async def test_secrets_of_the_host_are_absent_from_an_agent_unless_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2")
    monkeypatch.setenv("BUILD_FLAVOUR", "sweet")
    seen = await environment_of_agent()
    assert "SHOP_API_KEY" not in seen
    assert seen["BUILD_FLAVOUR"] == "sweet"
    assert (await environment_of_agent(env=os.environ))["SHOP_API_KEY"] == "hunter2"


async def test_a_given_environment_is_the_whole_of_it() -> None:
    given = {"PATH": os.defpath, "SHOP_API_KEY": "hunter2"}
    seen = await environment_of_agent(env=given)
    assert set(seen) - {"AGENTRT_GUARD", "LC_CTYPE"} == set(given)


async def test_what_the_agent_s_entry_says_counts_in_any_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("BUILD_FLAVOUR", "sweet")
    command = bad_agent().command
    env = {"MY_TOKEN": "mine"}
    agent = agentrt.agents.acp(command, env=env, unset_env=["BUILD_FLAVOUR"])
    async with agentrt.open_session(agent, limits=SHORT) as session:
        seen = psutil.Process(session.agent.pid).environ()
    assert seen["MY_TOKEN"] == "mine"
    assert "BUILD_FLAVOUR" not in seen
    assert sys.executable in command


async def test_a_runtime_inherits_no_more_than_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "hunter2")
    async with agentrt.open_runtime(limits=SHORT) as runtime:
        session = await runtime.create(bad_agent())
        assert "SHOP_API_KEY" not in psutil.Process(session.agent.pid).environ()


def test_the_command_line_passes_its_person_s_environment_on_but_no_token_of_a_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "mine")
    monkeypatch.setenv("AGENTRT_SERVE_TOKEN", "the viewers'")
    environment = agents_environment(Config())
    assert environment["GITHUB_TOKEN"] == "mine"
    assert "AGENTRT_SERVE_TOKEN" not in environment


@pytest.mark.parametrize("section", ["serve", "terminal"])
def test_the_command_line_passes_no_password_of_its_store_on(
    monkeypatch: pytest.MonkeyPatch, section: str
) -> None:
    name, url = f"AGENTRT_{section.upper()}_STORE", "postgresql://me:secret@host/db"
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv(name, url)
    assert agents_environment(Config())["PGPASSWORD"] == "secret"
    environment = agents_environment(load_config(env={"HOME": "/nowhere", name: url}))
    assert "PGPASSWORD" not in environment
    assert url not in environment.values()


OF_A_WORKER = {
    "AGENTRT_SERVE_TOKEN": "x",
    "AGENTRT_SERVE_METRICS_TOKEN": "x",
    "AGENTRT_SERVE_STORE": "postgresql://",
    "AGENTRT_CONFIG": "/etc/agentrt/config.toml",
    "AGENTRT_MCP_SECRET": "x",
    "PGPASSFILE": "/run/credentials/agentrt-worker@1.service/pgpass",
    "PGSERVICEFILE": "/etc/agentrt/pg_service.conf",
    "PGSERVICE": "agentrt",
    "PGPASSWORD": "x",
    "PGSSLKEY": "/etc/agentrt/client.key",
    "PGSSLPASSWORD": "x",
    "PGSYSCONFDIR": "/etc/agentrt",
    "PGHOST": "database",
    "PGUSER": "agentrt",
    "HTTP_AUTHORIZATION": "Bearer x",
    "OTEL_EXPORTER_OTLP_HEADERS": "authorization=x",
    "OTEL_EXPORTER_OTLP_TRACES_HEADERS": "authorization=x",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY": "/etc/agentrt/client.key",
    "CREDENTIALS_DIRECTORY": "/run/credentials/agentrt-worker@1.service",
    "MY_PASSFILE": "/run/credentials/agentrt-worker@1.service/other",
    "MY_FOLDERS": "/etc/agentrt:/run/credentials/agentrt-worker@1.service",
    "NOTIFY_SOCKET": "/run/systemd/notify",
    "LISTEN_FDS": "1",
    "WATCHDOG_USEC": "1",
    "STATE_DIRECTORY": "/var/lib/agentrt",
}
"""What a worker has in its environment for itself."""
FOR_AGENTS = {
    "PATH": "/usr/bin",
    "HOME": "/home/agentrt",
    "LANG": "C.UTF-8",
    "ANTHROPIC_API_KEY": "sk-x",
    "HTTPS_PROXY": "http://proxy:8080",
    "AGENTRT_GUARD": "1,abc",
    "OTEL_SERVICE_NAME": "app",
    "PGADMIN": "x",
}


def test_an_agent_of_a_server_gets_nothing_that_the_server_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (OF_A_WORKER | FOR_AGENTS).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("PGADMIN")
    environment = agents_environment(
        Config(serve=ServeSettings(store="postgresql://")), server=True
    )
    assert environment.keys() & OF_A_WORKER.keys() == set()
    kept = FOR_AGENTS.keys() - {"PGADMIN"}
    assert {name: environment[name] for name in kept} == {n: FOR_AGENTS[n] for n in kept}
    assert not [value for value in environment.values() if "/run/credentials/" in value]


def test_an_agent_of_a_program_gets_no_file_with_a_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (OF_A_WORKER | FOR_AGENTS).items():
        monkeypatch.setenv(name, value)
    left = inherited(os.environ).keys() & OF_A_WORKER.keys()
    assert left <= {"AGENTRT_CONFIG", "PGHOST", "PGUSER", "PGSERVICE", "STATE_DIRECTORY"}


def test_a_person_s_own_database_stays_where_agentrt_uses_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in OF_A_WORKER.items():
        monkeypatch.setenv(name, value)
    environment = agents_environment(Config())
    assert {"PGHOST", "PGUSER", "PGPASSWORD", "PGSERVICE"} <= environment.keys()
    assert "CREDENTIALS_DIRECTORY" not in environment
    assert "PGPASSFILE" not in environment  # it lies in the folder of credentials


@pytest.mark.parametrize(
    "value",
    [
        "3f786850e387550fdab836ed7e6dc881de23001b",
        "550e8400-e29b-41d4-a716-446655440000",
        "-Djava.io.tmpdir=/tmp/x12 -XX:MaxRAMPercentage=75.0",
        "rs=0:di=01;34:ln=01;36:*.tar=01;31:*.tgz=01;31:",
        "unix:path=/run/user/1000/bus,guid=0123456789abcdef0123456789abcdef",
        "task-manager-of-a-service-2024-01",
        "https://example.com/hooks/12",
    ],
)
def test_a_value_that_is_no_token_is_inherited(value: str) -> None:
    assert inherited({"MINE": value}) == {"MINE": value}


def test_sessions_share_one_mapping_that_follows_the_environment() -> None:
    first = inherited({"EDITOR": "vi"})
    assert inherited({"EDITOR": "vi"}) is first
    assert inherited({"EDITOR": "vi", "PAGER": "less"}) == {"EDITOR": "vi", "PAGER": "less"}
