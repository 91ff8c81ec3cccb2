"""A real OpenSMTPD that hands over to a real Dovecot, both unpacked and on loopback, and people who write letters."""

import asyncio
import contextlib
import imaplib
import os
import shutil
import smtplib
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from tests.apart import unpack_apart

__all__ = ["MailServers", "letter", "mail_servers"]

SECONDS = 240.0
HOST, PASSWORD = "mail.test", "letters-secret-1"
PACKAGES = (
    "dovecot-core", "dovecot-imapd", "dovecot-lmtpd", "opensmtpd", "libexttextcat-2.0-0", "liblua5.4-0", "libwrap0",
    "libevent-2.1-7", "libstemmer0d", "libsodium23", "libtirpc3",
)  # fmt: skip
DOVECOT = """\
base_dir = {folder}/run
state_dir = {folder}/run
log_path = {folder}/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = {ssl}
{tls}
disable_plaintext_auth = no
default_internal_user = nobody
default_internal_group = nogroup
default_login_user = nobody
first_valid_uid = 0
first_valid_gid = 0
mail_location = maildir:{folder}/mail/%n
passdb {{
  driver = static
  args = password={password}
}}
userdb {{
  driver = static
  args = uid=65534 gid=65534 home={folder}/mail/%n
}}
service imap-login {{
  inet_listener imap {{
    port = {imap}
  }}
  inet_listener imaps {{
    port = {imaps}
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    port = {lmtp}
  }}
}}
"""
SMTPD = """\
{pki}
table people {{ crib = {password} }}
listen on 127.0.0.1 port {smtp} hostname mail.test
{submission}
action "in" relay host "lmtp://127.0.0.1:{lmtp}"
match from any for any action "in"
"""


class MailServers:
    """Both servers of one folder."""

    def __init__(self, folder: Path, certificate: tuple[Path, Path] | None) -> None:
        self._root, self._folder = unpack_apart(*PACKAGES), folder / "post"
        for name in ("run", "mail", "etc"):
            (self._folder / name).mkdir(parents=True)
        (self._folder / "mail").chmod(0o777)
        self._folder.chmod(0o755)
        self.imap, self.imaps, self.lmtp, self.smtp, self.smtps = (_free_port() for _ in range(5))
        (self._folder / "etc/hosts").write_text("127.0.0.1 localhost mail.test\n")
        users = (("root", 0), ("nobody", 65534), ("opensmtpd", 64011), ("opensmtpq", 64012))
        empty = "/var/lib/opensmtpd/empty:/bin/false"
        (self._folder / "etc/passwd").write_text("".join(f"{name}:x:{id}:{id}::{empty}\n" for name, id in users))
        groups = (*users, ("nogroup", 65534))
        (self._folder / "etc/group").write_text("".join(f"{name}:x:{id}:\n" for name, id in groups))
        ports = {"imap": self.imap, "imaps": self.imaps, "lmtp": self.lmtp, "smtp": self.smtp}
        told: dict[str, Any] = {"folder": "/post", "password": PASSWORD, "ssl": "no", "tls": "", **ports}
        told |= {"pki": "", "submission": ""}
        if certificate:
            one, other = (f"/post/{Path(shutil.copy(each, self._folder)).name}" for each in certificate)
            told["ssl"], told["tls"] = "yes", f"ssl_cert = <{one}\nssl_key = <{other}"
            told["pki"] = f'pki mail.test cert "{one}"\npki mail.test key "{other}"'
            told["submission"] = f"listen on 127.0.0.1 port {self.smtps} smtps pki mail.test"
        else:
            told["imaps"] = 0
        (self._folder / "dovecot.conf").write_text(DOVECOT.format(**told))
        (self._folder / "smtpd.conf").write_text(SMTPD.format(**told))
        self._processes: list[subprocess.Popen[bytes]] = []

    def settings(self, **own: Any) -> dict[str, Any]:
        """Return the channel's settings, without TLS."""
        imap = {"host": "127.0.0.1", "port": self.imap, "user": "crib", "password": PASSWORD, "tls": False}
        smtp = {"host": "127.0.0.1", "port": self.smtp, "tls": False}
        return {"address": f"crib@{HOST}", "imap": imap, "smtp": smtp, "authServ": HOST, **own}

    def start(self) -> None:
        self._run("dovecot", "-F", "-c", "/post/dovecot.conf")
        _until_greeted(self.lmtp)
        _until_greeted(self.imap)
        self._run("smtpd", "-d", "-f", "/post/smtpd.conf")
        _until_greeted(self.smtp)

    def kill(self) -> None:
        for each in self._processes:
            each.kill()  # with it ends everything in its namespace
            each.wait()
        self._processes.clear()

    def _run(self, program: str, *words: str) -> None:
        """Run a program where it finds its files in the places that are written into it."""
        usr = self._root / "usr"
        libraries = next(iter(usr.glob("lib/*-linux-gnu")))
        host = Path("/usr/lib") / libraries.name
        view = f"""
            --unshare-pid --die-with-parent --proc /proc --dev /dev
            --ro-bind {host} {host} --ro-bind /usr/lib64 /usr/lib64 --ro-bind /usr/sbin /usr/sbin
            --symlink usr/lib /lib --symlink usr/lib64 /lib64 --symlink usr/bin /bin
            --ro-bind {usr}/lib/dovecot /usr/lib/dovecot --ro-bind {usr}/bin/doveconf /usr/bin/doveconf
            --tmpfs /var --dir /var/lib/opensmtpd/empty --perms 0711 --dir /var/spool/smtpd
            --dir /run --symlink /run /var/run --ro-bind {self._folder}/etc /etc
            --ro-bind {self._root} /apart --bind {self._folder} /post
            --setenv LD_LIBRARY_PATH /apart/usr/lib/{libraries.name}:/usr/lib/dovecot
        """
        log = (self._folder / f"{program}.out").open("wb")
        command = ["bwrap", *view.split(), f"/apart/usr/sbin/{program}", *words]
        self._processes.append(subprocess.Popen(command, stdout=log, stderr=log))
        log.close()

    # What people do

    async def send(self, mail: EmailMessage, *, vouched: bool = False) -> None:
        """Hand a letter in; one that is vouched for comes as it would from a server that has looked at it."""
        await asyncio.to_thread(self._send, mail, vouched=vouched)

    def _send(self, mail: EmailMessage, *, vouched: bool) -> None:
        sender = mail["From"].addresses[0]
        data = mail.as_bytes(policy=policy.SMTP)
        if vouched:
            data = f"Authentication-Results: {HOST}; dmarc=pass header.from={sender.domain}\r\n".encode() + data
        way = smtplib.LMTP("127.0.0.1", self.lmtp) if vouched else smtplib.SMTP("127.0.0.1", self.smtp)
        with way as server:
            server.sendmail(sender.addr_spec, f"crib@{HOST}", data)

    async def hears(self, who: str, *words: str) -> Any:
        """Return the first letter to somebody that holds these words; it is thrown away, with those before it."""
        return await asyncio.to_thread(self._hears, who, *words)

    def _hears(self, who: str, *words: str) -> Any:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for number, mail in self.read(who):
                self._forget(who, number)
                if all(word in body_of(mail) for word in words):
                    return mail
            time.sleep(0.1)
        raise AssertionError(f"{who} was not told {words}")

    def read(self, who: str) -> list[tuple[str, Any]]:
        """Return the letters that somebody has."""
        with imaplib.IMAP4("127.0.0.1", self.imap) as box:
            box.login(who, PASSWORD)
            box.select("INBOX")
            numbers = box.uid("SEARCH", "ALL")[1][0].decode().split()
            raw = [(each, box.uid("FETCH", each, "(BODY.PEEK[])")[1][0]) for each in numbers]
        return [(each, message_from_bytes(found[1], policy=policy.default)) for each, found in raw if found]

    def _forget(self, who: str, number: str) -> None:
        with imaplib.IMAP4("127.0.0.1", self.imap) as box:
            box.login(who, PASSWORD)
            box.select("INBOX")
            box.uid("STORE", number, "+FLAGS", r"(\Deleted)")
            box.expunge()


def letter(by: str, text: str, subject: str = "A question", *, answers: Any = None, **headers: str) -> EmailMessage:
    """Return a letter to the assistant."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = by, f"crib@{HOST}", subject
    mail["Message-ID"] = f"<{os.urandom(8).hex()}@{HOST}>"
    if answers is not None:
        mail["In-Reply-To"] = answers["Message-ID"]
        mail["References"] = f"{answers['References'] or ''} {answers['Message-ID']}".strip()
    for name, value in headers.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail


def body_of(mail: Any) -> str:
    return str(mail.get_body(("plain",)).get_content())


def _until_greeted(port: int) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as there:
            if there.recv(1):
                return
        time.sleep(0.05)
    raise AssertionError(f"nobody answers on port {port}")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextmanager
def mail_servers(folder: Path, certificate: tuple[Path, Path] | None = None) -> Iterator[MailServers]:
    """Run both servers."""
    if os.geteuid() != 0 or shutil.which("bwrap") is None:
        pytest.skip("impossible here: OpenSMTPD and Dovecot start as root, in a view of their own that bwrap makes")
    servers = MailServers(folder, certificate)
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()
