"""Tokens, tickets, names and origins, as values.

Names, origins and tokens are judged as values: no test can bind most of these addresses.
"""

from __future__ import annotations

import base64
import hmac

import pytest

from agentrt._serve import security
from agentrt._serve.security import (
    accepted_names,
    grant_of_cookies,
    grant_of_token,
    offered_token,
    redeem_ticket,
)
from agentrt.web import Security

TOKEN = "a-token-of-my-own-choice"
WATCH = "another-token-for-sight"


def test_without_a_token_a_long_random_one_is_made() -> None:
    one, other = Security(), Security()
    assert one.token != other.token
    assert len(one.token) >= 43
    assert not one.chosen


@pytest.mark.parametrize("token", ["", "short", "x" * 15])
def test_a_token_that_could_be_guessed_is_refused(token: str) -> None:
    with pytest.raises(ValueError, match="16 characters"):
        Security(token=token)


def test_one_token_for_both_roles_is_refused() -> None:
    with pytest.raises(ValueError, match="must differ"):
        Security(token=TOKEN, viewer_token=TOKEN)


def test_the_role_is_that_of_the_token() -> None:
    rules = Security(token=TOKEN, viewer_token=WATCH)
    controller, viewer = grant_of_token(rules, TOKEN), grant_of_token(rules, WATCH)
    assert controller is not None
    assert viewer is not None
    assert (controller.role, viewer.role) == ("controller", "viewer")


@pytest.mark.parametrize(
    "wrong", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), " " + TOKEN, "\ud800", "ä" * 24]
)
def test_a_wrong_token_gives_nothing(wrong: str) -> None:
    assert grant_of_token(Security(token=TOKEN), wrong) is None


def test_secrets_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    compare_digest = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return compare_digest(a, b)

    monkeypatch.setattr(security.hmac, "compare_digest", compare)
    rules = Security(token=TOKEN, viewer_token=WATCH)
    rules.ticket()
    for wrong in ("", "x", TOKEN):
        compared.clear()
        grant_of_token(rules, wrong)
        assert len(compared) == 2, "a right first one ends no search"
        assert {len(secret) for pair in compared for secret in pair} == {32}
    compared.clear()
    redeem_ticket(rules, "wrong")
    assert len(compared) == 1


def test_a_ticket_is_good_once_and_its_cookie_is_neither_ticket_nor_token() -> None:
    rules = Security(token=TOKEN)
    ticket = rules.ticket()
    found = redeem_ticket(rules, ticket)
    assert found is not None
    assert len({found.cookie, found.key, ticket, TOKEN}) == 4
    assert redeem_ticket(rules, ticket) is None
    for wrong in (ticket, TOKEN, found.key, "", ".", "é.é"):
        assert grant_of_cookies(rules, [wrong]) is None
    for wrong in (ticket, TOKEN, found.cookie, "", "é"):
        assert grant_of_cookies(rules, [found.cookie], wrong) is None
    assert grant_of_token(rules, found.cookie) is grant_of_token(rules, found.key) is None
    grant = grant_of_cookies(rules, ["x", found.cookie], found.key)
    assert grant is not None
    assert grant.role == "controller"


def test_a_ticket_expires() -> None:
    now_s = 1000.0
    rules = Security(token=TOKEN, clock=lambda: now_s)
    early, late, unbounded = rules.ticket(life_s=60), rules.ticket(life_s=60), rules.ticket()
    now_s += 59.0
    assert redeem_ticket(rules, early) is not None
    now_s += 1.0
    assert redeem_ticket(rules, late) is None
    now_s += 1e9
    assert redeem_ticket(rules, unbounded) is not None


@pytest.mark.parametrize(
    ("url", "hosts", "port"),
    [
        ("https://agents.example", {"agents.example", "agents.example:443"}, 443),
        ("https://agents.example/", {"agents.example", "agents.example:443"}, 443),
        ("http://agents.example", {"agents.example", "agents.example:80"}, 80),
        ("http://localhost:8080", {"localhost:8080"}, 8080),
        ("https://[fd00::1]:8443", {"[fd00::1]:8443"}, 8443),
    ],
)
def test_a_public_url_gives_a_name_and_an_origin(url: str, hosts: set[str], port: int) -> None:
    rules = Security(token=TOKEN, url=url)
    names = accepted_names(rules, "0.0.0.0", 8000, tls=False)
    without = accepted_names(Security(token=TOKEN), "0.0.0.0", 8000, tls=False)
    assert names.hosts - without.hosts == hosts
    assert names.origins - without.origins == {url.rstrip("/")}
    assert rules.public_port == port
    rules.check_addresses(["0.0.0.0"])


@pytest.mark.parametrize(
    "url",
    ["agents.example", "https://", "ws://x", "https://x?y", "https://a b"],
)
def test_what_is_no_public_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid URL|is not NAME"):
        Security(token=TOKEN, url=url)


def test_there_is_no_ticket_for_a_role_without_a_token() -> None:
    with pytest.raises(ValueError, match="no token for the role 'viewer'"):
        Security(token=TOKEN).ticket("viewer")


def test_a_revoked_token_takes_its_tickets_cookies_and_listeners_with_it() -> None:
    rules = Security(token=TOKEN, viewer_token=WATCH)
    used, unused = rules.ticket("viewer"), rules.ticket("viewer")
    found = redeem_ticket(rules, used)
    grant = grant_of_token(rules, WATCH)
    assert found is not None
    assert grant is not None
    told: list[str] = []
    grant.listen(lambda: told.append("first"))
    stop_listening = grant.listen(lambda: told.append("second"))
    stop_listening()
    assert rules.revoke(WATCH)
    assert told == ["first"]
    assert (
        grant_of_token(rules, WATCH)
        is grant_of_cookies(rules, [found.cookie])
        is redeem_ticket(rules, unused)
        is None
    )
    assert not rules.revoke(WATCH)
    assert grant_of_token(rules, TOKEN) is not None


# --- names


LOCAL = accepted_names(Security(token=TOKEN), "127.0.0.1", 8000, tls=False)


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"]
)
def test_a_local_server_answers_to_the_names_of_this_machine(host: str) -> None:
    assert LOCAL.answers_to(host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "127.0.0.1",
        "127.0.0.1:8001",
        "localhost",
        "localhost.:8000",
        "localhost.evil:8000",
        "127.0.0.1.evil:8000",
        "evil.example:8000",
        "me@127.0.0.1:8000",
        "127.0.0.1:8000@evil.example",
        "127.1:8000",
        "0.0.0.0:8000",
        "2130706433:8000",
        "[::ffff:127.0.0.1]:8000",
        "127.0.0.1:8000, evil.example",
    ],
)
def test_it_answers_to_no_other_name(host: str) -> None:
    assert not LOCAL.answers_to(host)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "https://evil.example",
        "http://localhost.evil:8000",
        "http://127.0.0.1.evil:8000",
        "http://127.0.0.1:8001",
        "http://127.0.0.1",
        "https://127.0.0.1:8000",
        "HTTP://LOCALHOST:8000",
        "http://localhost:8000/",
        "file://",
        "chrome-extension://abc",
    ],
)
def test_pages_of_other_origins_are_not_on_the_list(origin: str) -> None:
    assert origin not in LOCAL.origins
    assert "http://localhost:8000" in LOCAL.origins


def test_an_allowed_name_is_one_also_behind_a_proxy() -> None:
    rules = Security(token=TOKEN, allow_hosts=["Agents.example"])
    names = accepted_names(rules, "0.0.0.0", 8000, tls=False)
    assert names.answers_to("agents.example")
    assert names.answers_to("agents.example:8000")
    assert not names.answers_to("agents.example:9")
    assert {"https://agents.example", "http://agents.example:8000"} <= names.origins
    assert "http://agents.example" not in names.origins


def test_an_allowed_name_with_a_port_is_that_port_only() -> None:
    rules = Security(token=TOKEN, allow_hosts=["agents.example:444"])
    names = accepted_names(rules, "127.0.0.1", 8000, tls=True)
    assert names.answers_to("agents.example:444")
    assert not names.answers_to("agents.example:8000")
    assert "https://agents.example:444" in names.origins


def test_on_the_default_port_browsers_name_none() -> None:
    names = accepted_names(Security(token=TOKEN), "127.0.0.1", 443, tls=True)
    assert names.answers_to("127.0.0.1")
    assert names.answers_to("[::1]")
    assert "https://localhost" in names.origins
    assert "http://localhost" not in names.origins


def test_an_allowed_origin_is_that_one_only() -> None:
    rules = Security(token=TOKEN, allow_origins=["https://pages.example:1"])
    origins = accepted_names(rules, "127.0.0.1", 8000, tls=False).origins
    assert "https://pages.example:1" in origins
    assert not any("pages.example" in name for name in origins - {"https://pages.example:1"})


@pytest.mark.parametrize("name", ["", "*", "http://x", "a b", "x/", "me@x", "x.", "x:", "x,y"])
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not NAME"):
        Security(allow_hosts=[name])


@pytest.mark.parametrize("name", ["", "null", "*", "x", "ftp://x", "https://x/", "https://X"])
def test_what_is_no_origin_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a valid origin|is not NAME"):
        Security(allow_origins=[name])


# --- addresses


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.8.8", "::1"])
def test_this_machine_needs_nothing(address: str) -> None:
    Security().check_addresses([address])


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.0.2", "fe80::1%eth0"])
def test_other_machines_need_a_chosen_token_and_a_name(address: str) -> None:
    for rules in (
        Security(),
        Security(token=TOKEN),
        Security(allow_hosts=["agents.example"]),
    ):
        with pytest.raises(ValueError, match="--allow-host"):
            rules.check_addresses(["127.0.0.1", address])
    Security(token=TOKEN, allow_hosts=["agents.example"]).check_addresses([address])


# --- tokens among the subprotocols


@pytest.mark.parametrize("token", ["plain-token-of-mine", 'ä token, with "everything"', "x" * 19])
def test_a_token_is_read_from_the_subprotocols(token: str) -> None:
    coded = base64.urlsafe_b64encode(token.encode()).decode()
    assert offered_token(["agentrt.v1", f"agentrt.token.{coded}"]) == token
    assert offered_token(["agentrt.v1", f"agentrt.token.{coded.rstrip('=')}"]) == token


@pytest.mark.parametrize("coded", ["", "a", "%%%%", "_w", "a+b/", "ä"])
def test_an_unreadable_token_is_a_wrong_one(coded: str) -> None:
    token = offered_token(["agentrt.token." + coded])
    assert token is not None
    assert grant_of_token(Security(), token) is None


def test_no_token_is_none() -> None:
    assert offered_token(["agentrt.v1"]) is None
