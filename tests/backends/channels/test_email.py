"""What a letter is worth: who it is from, whether a machine wrote it, what it says; and servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from email import message_from_bytes, message_from_string, policy
from types import SimpleNamespace
from typing import Any

import pytest
from tests.sockets import listening

from toolcrib.backends.channels.email import EmailChannel, find_author, is_automatic
from toolcrib.backends.channels.mail_results import is_authenticated
from toolcrib.backends.channels.mail_text import split_quoted
from toolcrib.backends.channels.mail_wire import ImapSession, MailRoute, hand_over
from toolcrib.define.channel import HeardMessage, Post
from toolcrib.define.errors import ToolError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ROUTE = MailRoute(asyncio.open_connection)


def parse(*lines: str) -> Any:
    return message_from_string("\n".join(lines), policy=policy.default)


def channel(**own: Any) -> EmailChannel:
    settings = SimpleNamespace(address="crib@x.test", auth_serv="mx.x.test", imap=None, smtp=None)
    return EmailChannel(SimpleNamespace(**{**vars(settings), **own}), ROUTE)


@pytest.mark.parametrize(
    ("results", "is_sure"),
    [
        (["mx.x.test; dmarc=pass (p=REJECT) header.from=x.test"], True),
        (["MX.x.test 1; spf=fail; DMARC=Pass header.from=X.test"], True),
        (["mx.x.test; dkim=pass header.d=x.test header.s=k"], True),
        (["other.test; dmarc=pass header.from=x.test"], False),
        (["mx.x.test.evil; dmarc=pass header.from=x.test"], False),
        (["mx.x.test; dmarc=pass header.from=evil.test"], False),
        (["mx.x.test; dmarc=pass"], False),
        (["mx.x.test; dmarc=fail header.from=x.test", "mx.x.test; dmarc=pass header.from=x.test"], False),
        (["mx.x.test; dkim=pass header.d=evilx.test"], False),
        (["mx.x.test; dkim=pass header.d=sub.x.test"], False),
        (["mx.x.test; dkim=pass header.d=test"], False),
        (["mx.x.test; dkim=fail (dkim=pass header.d=x.test; dmarc=pass header.from=x.test)"], False),
        (['mx.x.test; spf=pass smtp.mailfrom="; dmarc=pass header.from=x.test ;"@evil.test'], False),
        (["mx.x.test; spf=pass smtp.mailfrom=x.test"], False),
        (["mx.x.test; none"], False),
        (
            ['mx.x.test; spf=pass (of "a) ; dmarc=pass header.from=x.test ; (b"@evil.test) smtp.mailfrom=evil.test'],
            False,
        ),
        (
            ["mx.x.test; spf=pass smtp.mailfrom==?utf-8?q?a=3B_dmarc=3Dpass_header=2Efrom=3Dx=2Etest_=3B?=@e.test"],
            False,
        ),
        (["mx.x.test; dkim=fail header.d=x.test; dkim=pass header.d=x.test"], False),
        (["mx.x.test; dkim=pass header.d=x.test; dmarc=none header.from=x.test"], False),
        (["mx.x.test; dkim=pass header.d=x.test", "mx.x.test; dmarc=fail header.from=x.test"], False),
        (["mx.x.test; dmarc=pass header.from=x.test; dmarc=pass header.from=y.test"], False),
        (["mx.x.test; dmarc=pass header.from=y.test header.from=x.test"], False),
        (["mx.x.test (a (b) c) 1 (d); dmarc (e) / 1 (f) = (g) pass (h) header (i) . (j) from (k) = x.test;"], True),
        (['mx.x.test; spf=pass smtp.mailfrom="a; dmarc=fail"@x.test; dmarc=pass header.from=x.test'], True),
        ([], False),
    ],
)
def test_only_what_our_own_server_says_of_the_domain_vouches(results: Sequence[str], is_sure: bool) -> None:
    mail = parse(*(f"Authentication-Results: {each}" for each in results), "From: ann@x.test", "", "hi")
    assert is_authenticated(mail, "ann@x.test", "mx.x.test") is is_sure
    assert not is_authenticated(mail, "ann@x.test", "")


# As the servers of ordinary providers write them: the name to configure, and the lines
PROVIDERS = {
    "gmail": (
        "mx.google.com",
        """mx.google.com;
       dkim=pass header.i=@x.test header.s=20230601 header.b="cX/9+aZ=";
       dkim=neutral (no key) header.i=@x.test header.s=ed header.b=Zm9v/A+1;
       arc=pass (i=1 spf=pass spfdomain=x.test dkim=pass dkdomain=x.test dmarc=pass fromdomain=x.test);
       spf=pass (google.com: domain of b+1-ann=x.test@em.test designates 2a00:1450::12f as permitted sender)
        smtp.mailfrom="b+1-ann=x.test@em.test";
       dmarc=pass (p=NONE sp=QUARANTINE dis=NONE) header.from=x.test;
       dara=pass header.i=@gmail.com""",
    ),
    "gmail, of a domain without DMARC": ("mx.google.com", "mx.google.com; dkim=pass header.i=@x.test header.s=s1"),
    "exchange": (
        "mx.home.test",
        """mx.home.test 1; spf=pass (sender IP is 40.107.22.10) smtp.mailfrom=x.test; dkim=pass
 (signature was verified) header.d=x.test;dkim=fail (body hash did not verify)
 header.d=x.onmicrosoft.test;dmarc=pass action=none header.from=x.test;compauth=pass reason=100""",
    ),
    "fastmail": (
        "*.messagingengine.com",
        """phl-mx-07.messagingengine.com;
    arc=none (no signatures found); bimi=declined;
    dkim=pass (2048-bit rsa key sha256) header.d=x.test header.i=@x.test header.b=kJ3/xYz+ header.a=rsa-sha256
      header.s=fm1 x-bits=2048;
    dmarc=pass policy.published-domain-policy=none policy.applied-disposition=none
      policy.evaluated-disposition=none (p=none,d=none,d.eval=none) policy.policy-from=p header.from=x.test;
    iprev=pass smtp.remote-ip=66.111.4.25 (out1.test);
    spf=pass smtp.mailfrom=ann@x.test smtp.helo=out1.test;
    x-return-mx=warn header.domain=x.test policy.is_org=yes (MX Records found: in1.test,in2.test);
    x-return-mx=pass smtp.domain=x.test policy.is_org=yes;
    x-tls=pass smtp.version=TLSv1.3 smtp.bits=256/256; x-vs=clean score=0 state=0""",
    ),
    "proton": (
        "mail.protonmail.ch",
        "mail.protonmail.ch; dmarc=pass (p=none dis=none) header.from=x.test",
        "mail.protonmail.ch; spf=pass smtp.mailfrom=x.test",
        "mail.protonmail.ch; arc=none smtp.remote-ip=209.85.218.52",
        'mail.protonmail.ch; dkim=pass (2048-bit key) header.d=x.test\n header.i=@x.test header.b="Uq3/+b="',
    ),
    "icloud": (
        "dmarc.icloud.com",
        'bimi.icloud.com; bimi=skipped reason="insufficient dmarc"',
        "dmarc.icloud.com; dmarc=pass header.from=x.test",
        "dkim-verifier.icloud.com; dkim=pass (2048-bit key) header.d=x.test header.i=@x.test header.b=Bc6/aaa=",
    ),
    "yahoo": (
        "*.yahoo.com",
        """atlas-production.v2-mail-prod1-gq1.omega.yahoo.com;
 dkim=pass header.i=@x.test header.s=20230601;
 spf=pass smtp.mailfrom=x.test;
 dmarc=pass(p=NONE) header.from=x.test;""",
    ),
    "mailcow": (
        "mail.home.test",
        """mail.home.test;
\tdkim=pass header.d=x.test header.s=20230601 header.b=Xy9lK2aB;
\tdkim=permerror (unsupported key) header.d=x.test header.s=ed header.b="q/Z+1a";
\tspf=pass (mail.home.test: domain of ann@x.test designates 1.2.3.4 as permitted sender) smtp.mailfrom=ann@x.test;
\tdmarc=pass (policy=quarantine) header.from=x.test;
\tarc=none""",
    ),
    "opendkim and opendmarc": (
        "mail.home.test",
        "mail.home.test; dmarc=pass (p=none dis=none) header.from=x.test",
        "mail.home.test; spf=pass (mailfrom) smtp.mailfrom=x.test (client-ip=1.2.3.4; receiver=<UNKNOWN>)",
        """mail.home.test;
\tdkim=pass (2048-bit key; unprotected) header.d=x.test header.i=@x.test header.a=rsa-sha256 header.b=QmFy/+8=;
\tdkim-atps=neutral""",
    ),
}


def test_no_address_is_the_id_of_another_one_that_nobody_vouches_for() -> None:
    vouched = "Authentication-Results: mx.x.test; dmarc=pass header.from=x.test"
    own = channel(auth_serv="mx.x.test")
    for lines, id in (
        ([vouched, "From: ~ann@x.test"], "~~ann@x.test"),
        (["From: ann@x.test"], "~ann@x.test"),
        ([vouched, "From: a~nn@x.test"], "a~nn@x.test"),
    ):
        heard = read(*lines, "", "hi", of=own)
        assert heard is not None
        assert heard.sender.id == id


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_letter_of_an_ordinary_provider_is_its_senders(name: str) -> None:
    server, *results = PROVIDERS[name]
    lines = [f"Authentication-Results: {each}" for each in results]
    heard = read(*lines, "From: Ann <ann@x.test>", "", "hi", of=channel(auth_serv=server))
    assert heard is not None
    assert heard.sender.id == "ann@x.test"
    forged = [each.replace("=pass", "=fail").replace("x.test", "evil.test") for each in lines]
    heard = read(*forged, *lines, "From: Ann <ann@x.test>", "", "hi", of=channel(auth_serv=server))
    assert heard is not None
    assert heard.sender.id == "~ann@x.test"


@pytest.mark.parametrize(
    "results",
    [
        "mx.x.test; dkim=fail header.d=evil.test; dkim=pass header.d=x.test",  # nobody judged which of them counts
        "mx.x.test; dkim=fail header.d=x.test; dkim=pass header.d=x.test; dmarc=pass header.from=x.test",
        "mx.x.test; dkim=pass header.i=@sub.x.test",
        "mx.x.test; dkim=pass header.d=evil.test header.i=@x.test",
        "amx.x.test; dmarc=pass header.from=x.test",
    ],
)
def test_results_that_only_look_like_those_of_a_provider_vouch_for_nobody(results: str) -> None:
    mail = parse(f"Authentication-Results: {results}", "From: ann@x.test", "", "hi")
    assert not is_authenticated(mail, "ann@x.test", "mx.x.test")
    assert not is_authenticated(mail, "ann@x.test", "*.mx.x.test")


@pytest.mark.parametrize(
    ("header", "sender"),
    [
        ("From: Ann <Ann@X.test>", "ann@x.test"),
        ('From: "ann@x.test" <eve@evil.test>', "eve@evil.test"),
        ("From: ann@x.test, eve@evil.test", ""),
        ("From: ann@x.test\nFrom: eve@evil.test", ""),
        ("From: mar\u212a@x.test", ""),
        ("From: friends:;", ""),
        ("From: eve: ann@x.test;", ""),
        ("Subject: nobody", ""),
    ],
)
def test_a_letter_has_one_sender_or_none(header: str, sender: str) -> None:
    assert find_author(parse(header, "", "hi")) == sender


@pytest.mark.parametrize(
    ("written", "is_sure"),
    [
        ("Ann B. Smith <ann@x.test>", True),
        ("Dr. Ann <Ann@X.test>", True),
        ("=?utf-8?q?M=C3=BCller=2C_Ann?= <ann@x.test>", True),
        ("=?utf-8?Q?Ann?=<ann@x.test>", True),
        ('"=?utf-8?q?Ann?=" <ann@x.test>', True),
        ('"Smith, Ann" <ann@x.test>', True),
        ("ann@x.test (Ann)", True),
        ("Ann M\u00fcller <ann@x.test>", True),
        ("<ann@x.test RCPT TO:<eve>", False),
        ("A. B. <ann@x.test> <eve@x.test>", False),
        ("A. B. <eve@x.test>, Ann <ann@x.test>", False),
        ("=?utf-8?q?ann?=@x.test", False),
        ("A. =?utf-8?q?B?=<=?utf-8?q?ann?=@x.test>", False),
        ('"A. <ann@x.test>', False),
        ("A. (<ann@x.test>) <eve@x.test>", False),
    ],
)
def test_a_sender_that_can_be_read_in_two_ways_counts_in_none(written: str, is_sure: bool) -> None:
    vouched = "Authentication-Results: mx.x.test; dmarc=pass header.from=x.test"
    mail = message_from_bytes(f"{vouched}\nFrom: {written}\n\nhi".encode(), policy=policy.default)
    assert is_authenticated(mail, "ann@x.test", "mx.x.test") is is_sure
    assert (find_author(mail) == "ann@x.test") or not is_sure


def test_a_person_is_no_machine() -> None:
    assert not is_automatic(parse("From: ann@x.test", "Auto-Submitted: no", "", "hi"))
    assert is_automatic(parse("Content-Type: multipart/report; report-type=delivery-status", "", "hi"))
    assert is_automatic(parse("Auto-Submitted: auto-generated; why=not", "", "hi"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/approve x1\n\nOn Monday, crib wrote:\n> May it run?\n", "/approve x1"),
        ("yes\n-- \nAnn\nShop", "yes"),
        ("> quoted\nbelow", "below"),
        ("On Monday, Eve wrote:\n> run it\n\nNo.\n\n> why\n\nBecause.\n-- \nAnn", "No.\n\n\nBecause."),
        ("no quote", "no quote"),
    ],
)
def test_what_is_quoted_below_is_left_out(text: str, said: str) -> None:
    assert split_quoted(text)[0] == said


def read(*lines: str, of: EmailChannel | None = None) -> HeardMessage | None:
    return (of or channel())._read("\n".join(lines).encode(), "1:2", is_whole=True)


def test_a_page_is_read_as_text_and_hidden_parts_are_not() -> None:
    page = "<style>p{}</style><p>Hello&nbsp;you</p><script>steal()</script>See <b>this</b>"
    heard = read("From: ann@x.test", "Content-Type: text/html", "", page)
    assert heard is not None
    assert heard.text.split() == ["Hello", "you", "See", "this"]


PARTS = ("Content-Type: multipart/mixed; boundary=x", "", "--x", "Content-Type: text/plain", "")
INNER = (
    "From: Eve <eve@evil.test>",
    "Subject: nuts",
    "Content-Type: multipart/mixed; boundary=y",
    "",
    "--y",
    "",
    "order",
)
FILE = ("--y", "Content-Type: application/pdf", "Content-Disposition: attachment; filename=a.pdf", "", "x", "--y--")
BARE = ("From: Eve Adams", "Sent: Monday", "To: Ann", "Subject: nuts", "", "order nuts")  # as Outlook writes it
HEAD = ("From: Eve <eve@evil.test>", "Sent: Monday", "To: ann@x.test", "Subject: nuts", "", "order nuts")


@pytest.mark.parametrize(
    ("lines", "own", "forwarded", "files"),
    [
        (("Subject: Fwd: nuts", "", "Look.", "", "---- Forwarded message ----", *HEAD), "Look.", "order", []),
        (("Subject: WG: nuts", "", "Schau.", "", "Von: Eve <e@evil.test>", *HEAD[1:]), "Schau.", "order", []),
        (("Subject: Fw: nuts", "", "-----Original Message-----", *HEAD), "", "order", []),
        (("Subject: Fwd: nuts", "", "Begin forwarded:", "", *(f"> {each}" for each in HEAD)), "", "order", []),
        (("Subject: Fwd: nuts", "", "no mark at all, order nuts"), "", "order", []),
        (("Subject: a", "", "Look:", "", "--- Weitergeleitete Nachricht ---", *HEAD), "Look:", "order", []),
        (
            ("Subject: FWD: nuts", "Content-Type: text/html", "",
             "<p>Look.<blockquote><p>order nuts</p></blockquote>"), "Look.", "order", [],
        ),
        (("Subject: a", *PARTS, "Look.", "--x", "Content-Type: message/rfc822", "", *INNER, *FILE, "--x--"),
         "a\n\nLook.", "order", [True]),
        (("Subject: a", "", "Look.", "", "_" * 32, *BARE), "Look.", "order", []),
        (("Subject: a", "", "Look.", "", *BARE), "Look.", "order", []),
        (("Subject: a", "", "Schau.", "", "*Von:* Eve", *(f"*{each}" for each in BARE[1:])), "Schau.", "order", []),
        (("Subject: Re: a", "In-Reply-To: <1>", "", "No.", "", *BARE), "No.", "", []),
        (("Subject: Re: a", "In-Reply-To: <1>", "Content-Type: text/html", "",
          "<p>No.</p><div id=divRplyFwdMsg><b>Eve</b></div><p>order nuts"), "No.", "", []),
        (("Subject: a", "", "Look.", "", "===== Forwarded =====", "From: Eve", "", "order"), "Look.", "order", []),
        (("Subject: [Fwd: nuts]", "", "order nuts"), "", "order", []),
        (("Subject: a", "", "From: Kyiv\nTo: Lviv\nWhen: Friday"), "a\n\nFrom: Kyiv\nTo: Lviv\nWhen: Friday", "", []),
        (("Subject: a", "", "Milk: 2\nEggs: 3\nTea: 1\nSalt: 0"), "a\n\nMilk: 2\nEggs: 3\nTea: 1\nSalt: 0", "", []),
        (("Subject: a", "", "one", "", "-----", "", "two"), "a\n\none\n\n-----\n\ntwo", "", []),
        (("Subject: Re: Fwd: a", "In-Reply-To: <1>", "", "Yes.", "--Original Message", *HEAD), "Yes.", "", []),
        (("Subject: a", "", "Mail ann@x.test: now."), "a\n\nMail ann@x.test: now.", "", []),
        (("Subject: a", *PARTS, "Mine.", "--x", *FILE[1:-1], "--x--"), "a\n\nMine.", "", [False]),
    ],
)  # fmt: skip
def test_what_a_letter_passes_on_is_told_apart(
    lines: Sequence[str], own: str, forwarded: str, files: list[bool]
) -> None:
    heard = read("From: ann@x.test", *lines)
    assert heard is not None
    assert heard.text == own
    assert (forwarded in heard.forwarded, bool(heard.forwarded)) == (True, bool(forwarded))
    assert [each.is_forwarded for each in heard.attachments] == files


@pytest.mark.parametrize(
    "lines",
    [
        ("From: ann@x.test", "Content-Type: text/plain; charset=no-such", "", "hi"),
        ("From: ann@x.test", "Date: yesterday", "Message-ID: broken", "References: <a> <", "", "hi"),
        ("From: ann@x.test", "Content-Transfer-Encoding: base64", "", "%%%"),
        ("From: ann@x.test", "Content-Type: multipart/mixed; boundary=x", "", "--x"),
    ],
)
def test_a_broken_letter_is_read_as_far_as_it_can_be(lines: Sequence[str]) -> None:
    heard = read(*lines)
    assert heard is not None
    assert heard.sender.id == "~ann@x.test"


def test_a_letter_that_breaks_the_parser_is_passed_over() -> None:
    deep = [f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}" for n in range(3_000)]
    read("From: ann@x.test", *deep)
    assert read("From: " + "(" * 5_000, "", "hi") is None


# Servers that misbehave


@asynccontextmanager
async def server(*lines: bytes) -> AsyncIterator[Any]:
    """Give the settings of a server that says one line to each that it hears, and then ends the connection."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            for each in lines:
                writer.write(each)
                if not await reader.readline():
                    break
        finally:
            ended.set()

    async with listening(serve) as port:
        yield SimpleNamespace(host="127.0.0.1", port=port, tls=False, user=None, password=None)
        await ended.wait()


async def test_a_message_is_doubtful_only_after_it_was_sent() -> None:
    yes = (b"220 hi\r\n", b"250 hello\r\n", b"250 ok\r\n", b"250 ok\r\n", b"354 go on\r\n")
    async with server(*yes[:3]) as early:
        with pytest.raises(ToolError) as told:
            await hand_over(early, ROUTE, "crib@x.test", "ann@x.test", b"hi")
        assert told.value.code == "unavailable"
    async with server(*yes) as late:
        with pytest.raises(ConnectionError, match="did not say whether it took"):
            await hand_over(late, ROUTE, "crib@x.test", "ann@x.test", b"hi")
    async with server(b"220 hi\r\n", b"250 hello\r\n", b"550 no\r\n") as stern:
        with pytest.raises(ToolError, match="refused it: 550 no"):
            await hand_over(stern, ROUTE, "crib@x.test", "ann@x.test", b"hi")


@pytest.mark.parametrize("said", [b"* BYE full\r\n", b"* 1 FETCH {99999999999}\r\n", b"x" * 70_000])
async def test_a_mailbox_that_breaks_off_is_a_connection_that_broke(said: bytes) -> None:
    async with server(said) as there:
        with pytest.raises(ConnectionError):
            await ImapSession.open(there, ROUTE)


@pytest.mark.parametrize("to", ["ann", "ann@x.test\r\nRCPT TO:<eve@evil.test>", "a@b>", "<a@b>", "a b@c", ""])
async def test_what_is_no_address_is_not_written_to(to: str) -> None:
    with pytest.raises(ToolError, match="is no e-mail address"):
        await channel().post(Post(chat=to, text="hi"), "1")
