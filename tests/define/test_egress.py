import ipaddress
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define.egress import EgressRules, Opening, describe_special, judge_port, read_place, read_url
from toolcrib.define.errors import ToolError


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("https://Example.COM", "https://example.com/"),
        (" https://example.com./a b?q=ä#x ", "https://example.com/a%20b?q=%C3%A4"),
        ("https://example.com:443/%2e%2e/", "https://example.com/%2e%2e/"),
        ("http://example.com:443/", "http://example.com:443/"),
        ("https://user:pw@example.com/", "https://example.com/"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://%31%32%37.0.0.1/", "http://127.0.0.1/"),
        ("http://①②⑦。0。0。①/", "http://127.0.0.1/"),
        ("http://loc\u00adalhost/", "http://localhost/"),
        ("http://[::ffff:7f00:1]/", "http://127.0.0.1/"),
        ("http://[FD00:0::1]:8080/x", "http://[fd00::1]:8080/x"),
        ("https://example.com/[x]?a=1&a=2", "https://example.com/[x]?a=1&a=2"),
    ],
)
def test_a_url_has_one_form_in_which_it_is_dialled(url: str, meant: str) -> None:
    assert read_url(url).url == meant
    assert read_url(meant).url == meant


@pytest.mark.parametrize(
    "url",
    [
        "", "example.com", "//127.0.0.1/", "http:127.0.0.1/", "http:///x", "http://", "ftp://example.com/",
        "javascript:alert(1)", "file:///etc/passwd", "HTTP+UNIX://%2Frun%2Fx/", "http:\\\\127.0.0.1\\",
        "http://example.com\\@127.0.0.1/", "http://127.0.0.1\0.example.com/", "http://a\nb/", "http://a b/",
        "http://a@b@c/", "http://example.com:0/", "http://example.com:65536/", "http://example.com:x/",
        "http://[fe80::1%25eth0]/", "http://[::1/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://a..b/",
        "http://%ff/", "http://" + "a" * 64 + ".com/", "http://a/" + "x" * 9_000, "http://a%00b/", "http://[v1.x]/",
    ],
)  # fmt: skip
def test_what_is_read_in_two_ways_is_no_address(url: str) -> None:
    with pytest.raises(ToolError, match=r"^that is no address of a web page: "):
        read_url(url)


@given(st.text(st.sampled_from("0123456789abcdefxX.[]:%-①。L"), min_size=1, max_size=24))
def test_an_address_is_read_as_the_system_dials_it(host: str) -> None:
    try:
        read = read_url(f"http://{host}/").host
        meant = ipaddress.ip_address(read)
    except (ToolError, ValueError):
        return
    found = socket.getaddrinfo(read, 80, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    assert {ipaddress.ip_address(each[4][0]) for each in found} == {meant}


def test_a_tunnel_is_asked_for_with_its_port() -> None:
    assert read_place("EXAMPLE.com:22") == ("example.com", 22)
    assert read_place("[::1]:443") == ("::1", 443)
    for wrong in ("example.com", "example.com:", "[::1]", ":80", "a:b:80", "a\0.example.com:80"):
        with pytest.raises(ToolError):
            read_place(wrong)


@pytest.mark.parametrize(
    ("address", "is_special"),
    [
        ("93.184.216.34", False), ("100.128.0.1", False), ("192.167.255.255", False), ("2606:2800:220:1::1", False),
        ("64:ff9b::808:808", False), ("::ffff:8.8.8.8", False), ("172.32.0.1", False), ("11.0.0.0", False),
        ("127.0.0.1", True), ("0.0.0.0", True), ("10.0.0.1", True), ("100.64.0.1", True), ("168.63.129.16", True),
        ("169.254.169.254", True), ("192.168.0.1", True), ("198.18.0.1", True), ("203.0.113.1", True),
        ("224.0.0.1", True), ("255.255.255.255", True), ("::", True), ("::1", True), ("::127.0.0.1", True),
        ("fe80::1%eth0", True), ("febf::1", True), ("fd00:ec2::254", True), ("ff02::1", True), ("100::1", True),
        ("64:ff9b::a9fe:a9fe", True), ("64:ff9b:1::1", True), ("2002:a9fe:a9fe::1", True), ("2001::1", True),
        ("2001:db8::1", True), ("4000::1", True), ("::ffff:0:127.0.0.1", True),
    ],
)  # fmt: skip
def test_only_addresses_of_the_internet_are_not_special(address: str, is_special: bool) -> None:
    assert bool(describe_special(address)[0]) == is_special
    assert bool(EgressRules().judge("x.example", address, 80)) == is_special


@given(st.ip_addresses())
def test_whatever_python_calls_private_is_special(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    if not address.is_global or address.is_multicast:
        assert describe_special(str(address))[0]


def test_the_operator_opens_addresses_and_single_ports() -> None:
    rules = EgressRules(opened=tuple(map(Opening.read, ("10.1.2.3:8080", "fd12::/48", "192.168.7.7", "[::1]:3000"))))
    reached = [("10.1.2.3", 8080), ("fd12::5", 1), ("192.168.7.7", 9), ("::1", 3000), ("::ffff:10.1.2.3", 8080)]
    assert [rules.judge("x", *place) for place in reached] == [None] * 5
    assert all(rules.judge("x", *place) for place in [("10.1.2.3", 80), ("10.1.2.4", 8080), ("::1", 80)])
    for wrong in ("localhost:80", "10.0.0.1:0", "10.0.0.0/8:80", "x", "", "10.0.0.1:99999", "::1:80:"):
        with pytest.raises(ValueError):
            Opening.read(wrong)


def test_a_refusal_names_the_rule_and_tells_a_model_only_the_kind() -> None:
    refused = EgressRules().judge("db.example", "10.1.1.1", 80)
    assert refused is not None
    assert str(refused) == (
        "db.example is refused: its address is in a private network"
        " (10.1.1.1 is of 10.0.0.0/8; web.ssrf.allowPrivate opens it)"
    )
    assert "10." not in refused.for_model
    assert refused.code == "denied"


def test_names_of_inner_networks_are_refused_wherever_they_lead() -> None:
    for name in ("db.internal", "printer.local", "x.home.arpa", "nas.lan"):
        assert EgressRules().judge(name, "93.184.216.34", 80)
        assert not EgressRules(opened=(Opening.read("10.0.0.0/8"),)).judge(name, "10.0.0.1", 80)
    for name in ("internal.example.com", "notlocal.example", "lan-party.example"):
        assert not EgressRules().judge(name, "93.184.216.34", 80)


def test_lists_of_hosts_are_kept_by_name_and_by_address() -> None:
    rules = EgressRules(allow=("example.com", "*.example.org", "93.184.0.0/16"), deny=("bad.example.org", "93.184.9.9"))
    public = "93.185.0.1"
    for host, address, is_let in (
        ("example.com", public, True), ("www.example.com", public, False), ("a.b.example.org", public, True),
        ("example.org", public, False), ("evil-example.org", public, False), ("bad.example.org", public, False),
        ("other.example", "93.184.1.1", True), ("other.example", "93.184.9.9", False),
        ("example.com", "10.0.0.1", False),
    ):  # fmt: skip
        assert (not (rules.judge_host(host) or rules.judge(host, address, 443))) == is_let, (host, address)
    assert EgressRules(allow=()).judge_host("example.com")


def test_ports_of_other_protocols_are_not_asked_for_pages() -> None:
    assert [port for port in (22, 25, 80, 443, 3000, 6379, 8080, 8443, 9000, 11211) if judge_port("x", port)] == [
        22, 25, 6379, 11211,
    ]  # fmt: skip
