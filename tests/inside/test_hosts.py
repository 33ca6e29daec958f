"""Host names as the proxy judges them: one form, or refused.

Host names are judged as values, also those that no resolver and no client would accept.
"""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentrt._core.sandbox.hosts import (
    HostPattern,
    HostRefused,
    address_problem,
    normal_host,
    split_authority,
)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("example.com", "example.com"),
        ("ex_ample.com", "ex_ample.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:10.0.0.1]", "10.0.0.1"),
        ("［::1］", None),
        ("2852039166", None),
        ("0x7f000001", None),
        ("0x7f.1", None),
        ("127.1", None),
        ("0177.0.0.1", None),
        ("1.2.3.4.5", None),
        ("１２７.0.0.1", "127.0.0.1"),
        ("example.com..", None),
        ("exa mple.com", None),
        ("example.com\x00.evil.example", None),
        ("-example.com", None),
        ("", None),
        (".", None),
        ("[fe80::1%eth0]", None),
        ("a" * 254, None),
    ],
)
def test_a_name_has_one_form_or_is_refused(written: str, meant: str | None) -> None:
    if meant is None:
        with pytest.raises(HostRefused):
            normal_host(written)
    else:
        assert normal_host(written) == meant


@given(st.text(max_size=40))
def test_a_normal_name_is_its_own_normal_form(text: str) -> None:
    try:
        name = normal_host(text)
    except HostRefused:
        return
    again = f"[{name}]" if ":" in name else name
    assert normal_host(again) == name
    assert name.isascii()
    assert name == name.lower()


@pytest.mark.parametrize(
    "text",
    [
        "a\\@b:443",
        "a@b:443",
        "a b:443",
        "a:b:443",
        "a:0",
        "a:65536",
        "a:",
        "a",
        "a/b:443",
        "a%41:443",
    ],
)
def test_an_address_with_two_readings_is_refused(text: str) -> None:
    with pytest.raises(HostRefused):
        split_authority(text)


@pytest.mark.parametrize(
    ("pattern", "host", "port", "matches"),
    [
        ("example.com", "example.com", 443, True),
        ("example.com", "www.example.com", 443, False),
        ("example.com", "example.com.evil.example", 443, False),
        ("*.example.com", "a.b.example.com", 80, True),
        ("*.example.com", "example.com", 80, True),
        ("*.example.com", "notexample.com", 80, False),
        ("*.example.com:443", "a.example.com", 80, False),
        ("Example.COM:443", "example.com", 443, True),
        ("*", "anything.example", 1, True),
        ("*:22", "anything.example", 22, True),
        ("*:22", "anything.example", 443, False),
        ("[::1]:80", "::1", 80, True),
    ],
)
def test_a_pattern_names_hosts(pattern: str, host: str, port: int, matches: bool) -> None:
    assert HostPattern(pattern).matches(host, port) is matches


@pytest.mark.parametrize(
    "text", ["https://example.com", "example.com/path", "a:b", "a*b", "a:", ""]
)
def test_a_text_that_is_no_host_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="is not a host"):
        HostPattern(text)


HOSTS = st.sampled_from(["a.example", "b.a.example", "c.b.a.example", "other.example", "10.1.2.3"])
PATTERNS = st.builds(
    lambda star, host, port: star + host + port,
    st.sampled_from(["", "*."]),
    HOSTS,
    st.sampled_from(["", ":443", ":80"]),
) | st.sampled_from(["*", "*:443"])


@given(PATTERNS, PATTERNS, HOSTS, st.sampled_from([80, 443]))
def test_a_pattern_that_covers_another_names_all_its_hosts(
    outer: str, inner: str, host: str, port: int
) -> None:
    try:
        one, two = HostPattern(outer), HostPattern(inner)
    except ValueError:
        return  # "*." before an address
    if one.covers(two) and two.matches(host, port):
        assert one.matches(host, port)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "0.0.0.0", "169.254.169.254", "100.100.100.200", "224.0.0.1", "127.9.9.9",
     "::ffff:127.0.0.1", "fd00:ec2::254", "168.63.129.16", "fd20:ce::254", "64:ff9b::7f00:1",
     "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::", "2002:a9fe:a9fe::1",
     "::127.0.0.1", "::ffff:0:127.0.0.1", "2001:0:102:304::5601:5601"],
)  # fmt: skip
def test_this_machine_and_a_providers_secrets_are_never_dialled(address: str) -> None:
    assert address_problem(address, named=True, listed=True)


def test_a_private_network_needs_a_listed_host() -> None:
    assert address_problem("10.0.0.1", named=False, listed=False)
    assert address_problem("10.0.0.1", named=False, listed=True) is None
    assert address_problem("fe80::1", named=False, listed=True)
    assert address_problem("93.184.216.34", named=False, listed=False) is None


@given(st.ip_addresses())
def test_an_address_that_nobody_named_is_public(address: ipaddress.IPv4Address) -> None:
    if address_problem(str(address), named=False, listed=False) is None:
        judged = getattr(address, "ipv4_mapped", None) or address
        assert judged.is_global
        assert not judged.is_loopback


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:0:0", "64:ff9b::", "64:ff9b:1::", "2002::"]))
def test_an_ipv6_form_of_an_address_has_the_problem_of_the_address(
    address: ipaddress.IPv4Address, form: str
) -> None:
    inner = int(address) << (80 if form == "2002::" else 0)
    text = str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(form)) | inner))
    problem = address_problem(str(address), named=False, listed=True)
    assert address_problem(text, named=False, listed=True) == problem
