"""The key by which a gateway knows this machine as a device, and the tokens that gateways gave it; in one file."""

import base64
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from toolcrib.define.device import device_payload
from toolcrib.define.errors import CribError


class DeviceKey:
    """A key that never leaves its file, which is made when it is not there; only this user may read it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            if stat.S_IMODE(path.stat().st_mode) & 0o077:
                raise CribError(f"{path} can be read by others; remove it, and pair this machine anew")
            kept = orjson.loads(path.read_bytes())
            self._key = Ed25519PrivateKey.from_private_bytes(base64.b64decode(kept["key"], validate=True))
            self._tokens: dict[str, str] = dict(kept["tokens"])
        except FileNotFoundError:
            self._key, self._tokens = Ed25519PrivateKey.generate(), {}
            self._write()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CribError(f"{path} holds no key ({error}); remove it, and pair this machine anew") from None
        self.public = self._key.public_key().public_bytes_raw()
        self.id = hashlib.sha256(self.public).hexdigest()

    def token_of(self, url: str) -> str:
        """Return what the gateway at this address gave it, "" for nothing."""
        return self._tokens.get(url, "")

    def keep_token(self, url: str, token: str) -> None:
        """Keep what a gateway gave it."""
        self._tokens[url] = token
        self._write()

    def sign(self, params: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """Return what a `connect` says of the device: that it holds its key, for this very connection."""
        signed_at, client = int(time.time() * 1000), params["client"]
        words = {
            "deviceId": self.id, "clientId": client["id"], "clientMode": client["mode"], "role": params["role"],
            "scopes": params.get("scopes"), "signedAtMs": signed_at, "token": params["auth"]["token"], "nonce": nonce,
        }  # fmt: skip
        signature = self._key.sign(device_payload(words).encode())
        proof = {"id": self.id, "publicKey": _encode(self.public), "signature": _encode(signature)}
        return {**proof, "signedAt": signed_at, "nonce": nonce}

    def _write(self) -> None:
        held = {"key": base64.b64encode(self._key.private_bytes_raw()).decode(), "tokens": self._tokens}
        fresh = self._path.with_name(f".{self._path.name}.{secrets.token_hex(4)}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(orjson.dumps(held))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
