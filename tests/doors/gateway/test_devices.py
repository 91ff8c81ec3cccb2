"""Devices at the gateway: each shows that it holds its key, is paired by whoever may, and is out when that ends."""

import base64
import contextlib
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from websockets.asyncio.client import connect

import toolcrib
from toolcrib.app.stores import STATE_FILE
from toolcrib.backends.stores.record import SqliteRows
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import OWNER
from toolcrib.define.device import device_payload
from toolcrib.define.errors import CribError
from toolcrib.doors.cli._remote import read_token
from toolcrib.doors.gateway.credentials import Credentials, Failures, client_address
from toolcrib.services.audit import Audit

from .world import CLIENT, TOKEN, Client, Reached, World, client_of, device, gateway_of, until_closed

pytestmark = pytest.mark.anyio

AFAR = {"X-Forwarded-For": "203.0.113.9"}
PAIRER = "pairing-token-of-a-device"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


class Phone:
    """A device with a key of its own."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.public = self.key.public_key().public_bytes_raw()
        self.id = hashlib.sha256(self.public).hexdigest()

    def params(self, nonce: str | None, token: str = TOKEN, at: float | None = None, **more: Any) -> dict[str, Any]:
        """Return what it sends in `connect`, signed."""
        params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, "auth": {"token": token}, **more}
        signed = int((time.time() if at is None else at) * 1000)
        words = {
            "deviceId": self.id, "clientId": CLIENT["id"], "clientMode": CLIENT["mode"],
            "role": params.get("role", "operator"), "scopes": params.get("scopes"), "signedAtMs": signed,
            "token": token, "nonce": nonce,
        }  # fmt: skip
        signature = b64(self.key.sign(device_payload(words).encode()))
        shown = {"id": self.id, "publicKey": b64(self.public), "signature": signature, "signedAt": signed}
        return {**params, "device": shown | ({"nonce": nonce} if nonce else {})}


@contextlib.asynccontextmanager
async def challenged(world: Reached, headers: Mapping[str, str] | None = None) -> AsyncIterator[tuple[Client, str]]:
    """Yield a client that is not known yet, and what it was challenged with."""
    async with connect(world.url, max_size=None, additional_headers=dict(headers or {})) as socket:
        client = Client(socket)
        yield client, (await client.hear())["payload"]["nonce"]


@contextlib.asynccontextmanager
async def phone_at(
    world: Reached, phone: Phone, token: str = TOKEN, headers: Mapping[str, str] | None = None, **more: Any
) -> AsyncIterator[Client]:
    """Yield the client of a device that is let in."""
    async with challenged(world, headers) as (client, nonce):
        client.hello = await client.get("connect", phone.params(nonce, token, **more))
        yield client


async def refused(client: Client, params: Mapping[str, Any]) -> tuple[dict[str, Any], int | None]:
    """Return why a connect was not answered, and the code the socket was closed with."""
    answer = await client.ask("connect", params)
    assert not answer["ok"], answer
    return answer["error"], (await until_closed(client.socket))[1]


async def asked_from_afar(world: World, phone: Phone, **more: Any) -> str:
    """Return the id of the request under which a device from afar waits."""
    async with challenged(world, AFAR) as (client, nonce):
        error, code = await refused(client, phone.params(nonce, **more))
    assert (error["code"], error["message"], code) == ("NOT_PAIRED", "pairing required", 1008)
    return str(error["details"]["requestId"])


# who is let in


async def test_on_this_machine_the_owners_secret_pairs_a_device_at_once() -> None:
    phone = Phone()
    async with gateway_of() as world:
        async with phone_at(world, phone, scopes=["operator.read"]) as client:
            auth = client.hello["auth"]
            assert (auth["role"], auth["scopes"]) == ("operator", ["operator.read"])
            assert len(auth["deviceToken"]) > 30
            assert await client.refusal("config.get") == ("INVALID_REQUEST", "missing scope: operator.admin")
        async with phone_at(world, phone, auth["deviceToken"]) as again:
            assert again.hello["auth"] == {"role": "operator", "scopes": ["operator.read"]}
        async with client_of(world) as owner:
            listed = await owner.get("device.pair.list")
            assert [row["deviceId"] for row in listed["paired"]] == [phone.id]
            assert auth["deviceToken"] not in json.dumps(listed)


@pytest.mark.parametrize("secret", ["wrong-token-wrong-token", ""])
async def test_without_the_owners_secret_no_device_is_paired_nor_waits(secret: str) -> None:
    async with gateway_of() as world:
        async with challenged(world) as (client, nonce):
            error, code = await refused(client, Phone().params(nonce, secret))
            assert (error["message"], code) == ("unauthorized: token_mismatch", 1008)
        async with client_of(world) as owner:
            assert await owner.get("device.pair.list") == {"pending": [], "paired": []}


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda shown: {**shown, "id": "0" * 64}, "device_id_mismatch"),
        (lambda shown: {**shown, "publicKey": b64(Phone().public)}, "device_id_mismatch"),
        (lambda shown: {**shown, "publicKey": "é!"}, "device_id_mismatch"),
        (lambda shown: {**shown, "signature": b64(bytes(64))}, "device_signature_invalid"),
        (lambda shown: {**shown, "signature": "short"}, "device_signature_invalid"),
        (lambda shown: {**shown, "signedAt": shown["signedAt"] + 1}, "device_signature_invalid"),
        (lambda shown: {**shown, "signedAt": 1}, "device_signature_expired"),
        (lambda shown: {**shown, "nonce": "another"}, "device_nonce_mismatch"),
        (lambda shown: {key: shown[key] for key in shown if key != "nonce"}, "device_signature_invalid"),
    ],
)
async def test_a_device_that_does_not_prove_its_key_is_refused(spoil: Any, reason: str) -> None:
    async with gateway_of() as world, challenged(world) as (client, nonce):
        params = Phone().params(nonce)
        error, code = await refused(client, {**params, "device": spoil(params["device"])})
        assert (error["message"], code) == (f"unauthorized: {reason}", 1008)


async def test_what_was_signed_for_other_rights_or_another_token_counts_for_nothing() -> None:
    for changed in ({"scopes": ["operator.admin"]}, {"role": "node"}, {"client": {**CLIENT, "id": "ui"}}):
        async with gateway_of() as world, challenged(world) as (client, nonce):
            params = Phone().params(nonce, scopes=["operator.read"])
            error, _ = await refused(client, {**params, **changed})
            assert error["message"] == "unauthorized: device_signature_invalid"


async def test_a_name_with_a_bar_cannot_move_words_of_what_was_signed() -> None:
    phone = Phone()
    async with gateway_of() as world, challenged(world) as (client, nonce):
        params = phone.params(nonce, role="operator", scopes=["operator.read|x"])
        error, _ = await refused(client, params)
        assert error["message"] == "unauthorized: device_signature_invalid"


async def test_a_signature_of_another_connection_is_refused() -> None:
    phone = Phone()
    async with gateway_of() as world, phone_at(world, phone) as first:
        told = next(frame["payload"]["nonce"] for frame in first.events)
        async with challenged(world) as (client, _):
            error, _ = await refused(client, phone.params(told))
            assert error["message"] == "unauthorized: device_nonce_mismatch"


async def test_without_a_nonce_a_signature_counts_on_this_machine_alone() -> None:
    async with gateway_of(proxies=["127.0.0.2"]) as world:
        async with challenged(world) as (client, _):
            hello = await client.get("connect", Phone().params(None))
            assert hello["auth"]["deviceToken"]
        async with challenged(world, AFAR) as (client, _):
            error, _ = await refused(client, Phone().params(None))
            assert error["message"] == "unauthorized: device_nonce_required"


@pytest.mark.parametrize(
    "header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "CF-Connecting-IP", "Via", "X-Forwarded-Host"]
)
async def test_whoever_is_passed_on_by_somebody_is_not_on_this_machine(header: str) -> None:
    async with gateway_of() as world, challenged(world, {header: "127.0.0.1"}) as (client, nonce):
        error, code = await refused(client, Phone().params(nonce))
        assert (error["code"], code) == ("NOT_PAIRED", 1008)


# pairing


async def test_a_device_from_afar_waits_until_somebody_says_yes() -> None:
    phone = Phone()
    async with gateway_of(proxies=["127.0.0.1"]) as world, client_of(world) as owner:
        request = await asked_from_afar(world, phone, scopes=["operator.write"])
        told = await owner.wait_for("device.pair.requested", deviceId=phone.id)
        assert (told["requestId"], told["scopes"], told["remoteIp"]) == (request, ["operator.write"], "203.0.113.9")
        assert await asked_from_afar(world, phone, scopes=["operator.write"]) == request
        approved = await owner.get("device.pair.approve", {"requestId": request})
        assert approved["device"]["scopes"] == ["operator.write"]
        assert (await owner.wait_for("device.pair.resolved", requestId=request))["decision"] == "approved"
        async with phone_at(world, phone, headers=AFAR, scopes=["operator.write"]) as client:
            token = client.hello["auth"]["deviceToken"]
            assert client.hello["auth"]["scopes"] == ["operator.write"]
        async with phone_at(world, phone, headers=AFAR, scopes=["operator.write"]) as client:
            assert "deviceToken" not in client.hello["auth"]
        async with phone_at(world, phone, token, headers=AFAR) as client:
            assert (await client.get("health"))["ok"]
        await asked_from_afar(world, phone, scopes=["operator.admin"])


async def test_a_device_that_was_turned_away_is_not_let_in() -> None:
    phone = Phone()
    async with gateway_of() as world, client_of(world) as owner:
        request = await asked_from_afar(world, phone)
        assert await owner.get("device.pair.reject", {"requestId": request}) == {
            "requestId": request,
            "deviceId": phone.id,
        }
        code, sentence = await owner.refusal("device.pair.approve", {"requestId": request})
        assert (code, "no device waits" in sentence) == ("INVALID_REQUEST", True)
        assert await asked_from_afar(world, phone) != request


async def test_only_who_may_pair_hears_of_requests() -> None:
    phone, reader, pairer = (
        Phone(),
        device("r", "reader-token", "operator.read"),
        device("p", PAIRER, "operator.pairing"),
    )
    async with (
        gateway_of(devices=[reader, pairer]) as world,
        client_of(world, "reader-token") as deaf,
        client_of(world, PAIRER) as hears,
    ):
        await asked_from_afar(world, phone, scopes=["operator.read"])
        await hears.wait_for("device.pair.requested", deviceId=phone.id)
        assert (await deaf.get("health"))["ok"]
        assert not [frame for frame in deaf.events if frame["event"].startswith("device.")]
        assert await deaf.refusal("device.pair.list") == ("INVALID_REQUEST", "missing scope: operator.pairing")


async def test_a_node_is_paired_as_a_node_and_nothing_more() -> None:
    phone = Phone()
    async with gateway_of() as world, phone_at(world, phone, role="node", scopes=["operator.admin"]) as node:
        assert (node.hello["auth"]["role"], node.hello["auth"]["scopes"]) == ("node", [])
        assert await node.refusal("health") == ("INVALID_REQUEST", "unauthorized role: node")
        async with phone_at(world, phone, scopes=["operator.read"]) as operator:
            assert operator.hello["auth"]["role"] == "operator"
            assert await node.refusal("health") == ("INVALID_REQUEST", "unauthorized role: node")
        async with challenged(world) as (client, nonce):
            error, _ = await refused(client, phone.params(nonce, node.hello["auth"]["deviceToken"], role="operator"))
            assert error["message"] == "unauthorized: role_mismatch: operator"


# nobody gives more than they have


async def test_nobody_gives_away_more_than_they_have() -> None:
    pairer, boss = device("p", PAIRER, "operator.pairing", "operator.read"), device("boss", "t-boss", "operator.admin")
    reader = device("reader", "t-reader", "operator.read")
    async with gateway_of(devices=[pairer, boss, reader]) as world, client_of(world, PAIRER) as client:
        wide = await asked_from_afar(world, Phone(), scopes=["operator.write"])
        for method, params in (
            ("device.pair.approve", {"requestId": wide}),
            ("device.token.rotate", {"deviceId": "boss"}),
            ("device.token.rotate", {"deviceId": "reader"}),
            ("device.token.rotate", {"deviceId": "p", "scopes": ["operator.admin"]}),
            ("device.token.revoke", {"deviceId": "boss"}),
        ):
            answer = await client.ask(method, params)
            assert answer["error"]["details"] == {"code": "denied"}, (method, params, answer)
        narrow = await asked_from_afar(world, Phone(), scopes=["operator.read"])
        assert (await client.get("device.pair.approve", {"requestId": narrow}))["device"]["scopes"] == ["operator.read"]
        async with client_of(world, "t-boss") as still:
            assert still.hello["auth"]["scopes"] == ["operator.admin"]


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("device.token.rotate", {"deviceId": "nobody"}),
        ("device.token.rotate", {"deviceId": "p", "scopes": ["operator.everything"]}),
        ("device.token.rotate", {"deviceId": "p", "role": "node"}),
        ("device.token.rotate", {"deviceId": "p", "role": "king"}),
        ("device.token.rotate", {}),
        ("device.token.revoke", {"deviceId": ""}),
        ("device.pair.approve", {"requestId": "x" * 10_000}),
        ("device.pair.reject", {"requestId": 7}),
    ],
)
async def test_what_cannot_be_done_is_said_in_a_sentence(method: str, params: Mapping[str, Any]) -> None:
    async with gateway_of(devices=[device("p", PAIRER, "operator.pairing")]) as world, client_of(world) as owner:
        code, sentence = await owner.refusal(method, params)
        assert code == "INVALID_REQUEST"
        assert "\n" not in sentence
        assert len(sentence) < 400


# secrets that end


async def test_a_token_that_is_rotated_is_told_once_and_the_one_before_is_out() -> None:
    phone = device("p", PAIRER, "operator.pairing", "operator.read")
    async with gateway_of(devices=[phone]) as world:
        async with client_of(world, PAIRER) as old, client_of(world, PAIRER) as other:
            told = await old.get("device.token.rotate", {"deviceId": "p"})
            assert (told["deviceId"], told["role"], len(told["token"]) > 30) == ("p", "operator", True)
            for each in (old, other):
                assert (await until_closed(each.socket))[1] == 1008
        async with connect(world.url) as socket:
            params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, "auth": {"token": PAIRER}}
            error, _ = await refused(Client(socket), params)
            assert error["message"] == "unauthorized: token_mismatch"
        async with client_of(world, told["token"]) as fresh:
            assert fresh.hello["auth"]["scopes"] == ["operator.pairing", "operator.read"]


async def test_a_device_that_is_revoked_is_out_whatever_secret_it_showed() -> None:
    phone = Phone()
    async with gateway_of() as world, client_of(world) as owner, phone_at(world, phone) as by_secret:
        token = by_secret.hello["auth"]["deviceToken"]
        async with phone_at(world, phone, token) as by_token:
            await owner.get("device.token.revoke", {"deviceId": phone.id})
            for each in (by_secret, by_token):
                assert (await until_closed(each.socket))[1] == 1008
        assert (await owner.get("health"))["ok"]
        async with challenged(world) as (client, nonce):
            error, _ = await refused(client, phone.params(nonce, token))
            assert error["message"] == "unauthorized: token_mismatch"


async def test_a_device_that_came_by_the_owners_secret_goes_with_it() -> None:
    phone = Phone()
    async with gateway_of() as world, phone_at(world, phone) as client:
        token = client.hello["auth"]["deviceToken"]
        async with phone_at(world, phone, token) as own:
            world.server.credentials.replace_secret("token", "another-token-that-is-long")
            await until_closed(client.socket)
            assert (await own.get("health"))["ok"]


async def test_what_another_process_takes_back_is_out_within_a_second_or_two(tmp_path: Path) -> None:
    phone = Phone()
    async with (
        gateway_of(state=tmp_path) as world,
        phone_at(world, phone) as client,
        toolcrib.open({}, state=tmp_path, env={}) as program,
    ):
        await program.ask("device.token.revoke", {"deviceId": phone.id}, caller=OWNER)
        assert (await until_closed(client.socket))[1] == 1008


# what was told is kept


async def test_the_record_says_who_let_a_device_in_and_who_out(tmp_path: Path) -> None:
    phone, other = Phone(), Phone()
    async with gateway_of(state=tmp_path, proxies=["127.0.0.1"]) as world, client_of(world) as owner:
        for each, method in ((phone, "device.pair.approve"), (other, "device.pair.reject")):
            async with challenged(world, AFAR) as (client, nonce):
                waits = await client.ask("connect", each.params(nonce, scopes=["operator.read"]))
            await owner.get(method, {"requestId": waits["error"]["details"]["requestId"]})
        async with phone_at(world, phone, headers=AFAR, scopes=["operator.read"]):
            await owner.get("device.token.rotate", {"deviceId": phone.id})
        await owner.get("device.token.revoke", {"deviceId": phone.id})
    rows = SqliteRows(SqliteFile(tmp_path / STATE_FILE))
    assert (await Audit(rows, is_owner=lambda _: True).verify()).findings == ()
    told = [orjson.loads(row.text) for row in await rows.after(-1, 100)]
    bodies = [row["body"] for row in told if row["kind"] == "enrolled"]
    assert [(each["device"], each["change"]) for each in bodies] == [
        (phone.id, "paired"), (other.id, "turned away"), (phone.id, "given a token"),
        (phone.id, "given another token"), (phone.id, "revoked"),
    ]  # fmt: skip
    assert {tuple(each["scopes"]) for each in bodies} == {("operator.read",)}


async def test_devices_and_requests_outlive_the_gateway(tmp_path: Path) -> None:
    phone, waiting = Phone(), Phone()
    async with gateway_of(state=tmp_path) as world, phone_at(world, phone, scopes=["operator.read"]) as client:
        token = client.hello["auth"]["deviceToken"]
        request = await asked_from_afar(world, waiting)
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    async with gateway_of(state=tmp_path) as world, client_of(world) as owner:
        async with phone_at(world, phone, token) as again:
            assert again.hello["auth"]["scopes"] == ["operator.read"]
        assert (await owner.get("device.pair.approve", {"requestId": request}))["device"]["deviceId"] == waiting.id


_GATEWAY = """
import asyncio, sys, toolcrib
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayServer
from toolcrib.doors.listener import listen_on

crib = toolcrib.open({}, state=sys.argv[1], env={})
at = listen_on(0)
print(at.getsockname()[1], flush=True)
asyncio.run(GatewayServer(crib, Credentials("token", sys.argv[2])).serve(at))
"""


async def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path) -> None:
    devices: list[tuple[Phone, str]] = []
    revoked: list[tuple[Phone, str]] = []
    for _ in range(3):
        process = prestarted.Popen([sys.executable, "-c", _GATEWAY, str(tmp_path), TOKEN], stdout=subprocess.PIPE)
        assert process.stdout is not None
        with process.stdout as said:
            world = World(None, int(said.readline()), None)  # type: ignore[arg-type]  # in another process
        for phone, token in devices:
            async with phone_at(world, phone, token):
                pass
        for phone, token in revoked:
            async with challenged(world) as (client, nonce):
                assert (await refused(client, phone.params(nonce, token)))[0]["message"].endswith("token_mismatch")
        async with client_of(world) as owner:
            for _ in range(3):
                phone = Phone()
                async with phone_at(world, phone) as client:
                    devices.append((phone, client.hello["auth"]["deviceToken"]))
            phone, token = devices.pop(0)
            await owner.get("device.token.revoke", {"deviceId": phone.id})
            revoked.append((phone, token))
            process.kill()
        process.wait()
    assert (len(devices), len(revoked)) == (6, 3)


# the owner's token in a file


@contextlib.asynccontextmanager
async def gateway_command(state: Path, *options: str) -> AsyncIterator[World]:
    """Yield a gateway that the command started."""
    command = [sys.executable, "-m", "toolcrib", "gateway", "--port", "0", *options]
    env = {**os.environ, "TOOLCRIB_STATE": str(state)}
    process = prestarted.Popen(command, env=env, cwd=state, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        yield World(None, int(said.rpartition(":")[2]), None)  # type: ignore[arg-type]  # in another process
    finally:
        process.kill()
        process.communicate()


async def test_a_token_file_that_changes_is_read_again_and_ends_the_old_ones(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("the-first-token-of-all\n")
    async with gateway_command(tmp_path, "--token-file", str(file)) as world:
        async with client_of(world, "the-first-token-of-all") as client:
            file.write_text("the-next-token-of-them\n")
            assert (await until_closed(client.socket))[1] == 1008
        async with client_of(world, "the-next-token-of-them") as client:
            assert (await client.get("health"))["ok"]


async def test_a_token_of_our_own_that_is_removed_is_replaced_by_another(tmp_path: Path) -> None:
    file = tmp_path / "gateway.token"
    async with gateway_command(tmp_path) as world:
        first = read_token(file)
        async with client_of(world, first) as client:
            file.unlink()
            assert (await until_closed(client.socket))[1] == 1008
        assert file.stat().st_mode & 0o777 == 0o600
        assert read_token(file) != first
        async with client_of(world, read_token(file)) as client:
            assert (await client.get("health"))["ok"]


def test_a_pipe_gives_its_token_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    credentials = Credentials("token", TOKEN, file=pipe, read=lambda _: "what comes out of it now")
    credentials.reread()
    assert credentials.secret == TOKEN


def test_a_file_that_cannot_be_read_changes_nothing_and_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(path: Path) -> str:
        raise CribError(f"{path} holds no token")

    credentials = Credentials("token", TOKEN, file=tmp_path / "gone", read=read)
    credentials.reread()
    credentials.reread()
    assert credentials.secret == TOKEN
    assert [each.message.startswith("the token of before stays in force") for each in caplog.records] == [True]


# failures


@pytest.mark.parametrize(
    ("one", "other"),
    [("::ffff:203.0.113.9", "203.0.113.9"), ("2001:db8::1", "2001:db8:0:0:ffff::2"), ("[2001:db8::1]", "2001:DB8::1")],
)
def test_one_address_in_two_spellings_fails_as_one(one: str, other: str) -> None:
    failures = Failures(lambda: 0.0)
    for _ in range(10):
        failures.add(client_address(one, (), ()))
    assert failures.is_locked(client_address(other, (), ()))
    assert not failures.is_locked(client_address("203.0.113.10", (), ()))


async def test_failures_are_counted_by_whom_a_trusted_proxy_names() -> None:
    async with gateway_of(proxies=["127.0.0.1"]) as world:
        params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, "auth": {"token": "wrong-token-wrong"}}
        reasons = []
        for number in range(12):
            spelled = "203.0.113.9" if number % 2 else "::ffff:203.0.113.9"
            async with challenged(world, {"X-Forwarded-For": f"198.51.100.{number}, {spelled}"}) as (client, _):
                reasons.append((await refused(client, params))[0]["message"])
        assert reasons == ["unauthorized: token_mismatch"] * 10 + ["unauthorized: rate_limited"] * 2
        async with challenged(world, {"X-Forwarded-For": "203.0.113.10"}) as (client, _):
            assert (await refused(client, params))[0]["message"] == "unauthorized: token_mismatch"


async def test_a_locked_address_tries_no_password_and_a_device_there_is_let_in_all_the_same() -> None:
    async with gateway_of(devices=[device("p", PAIRER, "operator.read")]) as world:
        world.server.credentials.replace_secret("password", "a long password")
        params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT}
        for _ in range(10):
            async with challenged(world) as (client, _nonce):
                await refused(client, {**params, "auth": {"password": "wrong"}})
        async with challenged(world) as (client, _nonce):
            error, _ = await refused(client, {**params, "auth": {"password": "a long password"}})
            assert error["message"] == "unauthorized: rate_limited"
        async with client_of(world, PAIRER) as client:
            assert (await client.get("health"))["ok"]


async def test_wrong_signatures_are_counted_apart() -> None:
    async with gateway_of() as world:
        for number in range(11):
            async with challenged(world) as (client, _):
                error, _code = await refused(client, Phone().params("another"))
                assert ("rate_limited" in error["message"]) is (number == 10)
        async with challenged(world) as (client, _):
            error, _code = await refused(client, {**Phone().params("x"), "auth": {"token": "wrong"}})
            assert error["message"] == "unauthorized: token_mismatch"
