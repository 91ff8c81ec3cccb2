"""Pictures of a turn: a terminal cannot show them, so they are kept as files and named."""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from toolcrib.define.log import Line, Said
from toolcrib.define.result import Image

__all__ = ["pictures_in", "saved"]

_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


def pictures_in(lines: Sequence[Line]) -> list[Image]:
    """Return the pictures that tools and models brought, each once; a person knows their own."""
    found = [
        part
        for line in lines
        if isinstance(line.body, Said) and line.body.message.role != "user"
        for part in line.body.message.content
        if isinstance(part, Image)
    ]
    return list(dict.fromkeys(found))


def saved(picture: Image, folder: Path) -> Path:
    """Write a picture beneath a folder under the hash of its content, for nobody else to read; return where it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(picture.data).hexdigest()[:16]
    path = folder / f"{name}.{_ENDINGS.get(picture.mime, 'bin')}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(picture.data)
    return path
