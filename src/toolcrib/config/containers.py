"""What a container may be given: images, networks, memory, and folders that hold neither the system nor keys."""

import re
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from .values import shown

__all__ = ["DockerImage", "DockerMemory", "DockerNetwork", "Volume"]

_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = re.compile(
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_NETWORK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_MEMORY = re.compile(r"(?=.*[1-9])[0-9]{1,9}(?:\.[0-9]{1,3})?(?:[bB]|[kmgKMG](?:i?[bB])?)?")


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text) or len(text) > 256:
        raise ValueError(f"{shown(text)} is no container image; write name:tag")
    return text


def _network(text: str) -> str:
    if text.lower() == "host" or not _NETWORK.fullmatch(text):
        raise ValueError(
            f"{shown(text)}: a sandbox does not share the host's or another container's network; write none or bridge"
        )
    return text


def _memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise ValueError(f"{shown(text)} is no amount of memory; write 512m or 2g")
    return text


DockerImage = Annotated[StrictStr, AfterValidator(_image)]
DockerNetwork = Annotated[StrictStr, AfterValidator(_network)]
DockerMemory = Annotated[StrictStr, AfterValidator(_memory)]


# Volumes: what is bound decides, not where it appears


def _paths(words: str) -> tuple[PurePosixPath, ...]:
    return tuple(PurePosixPath(word) for word in words.split())


# The system, its sockets and its secrets: nothing in these is bound.
_SYSTEM = _paths(
    "/bin /boot /dev /efi /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /usr /var/backups /var/lock /var/mail "
    "/var/run /var/spool /var/lib/apt /var/lib/containerd /var/lib/containers /var/lib/docker /var/lib/dpkg "
    "/var/lib/etcd /var/lib/kubelet /var/lib/libvirt /var/lib/lxc /var/lib/lxd /var/lib/NetworkManager /var/lib/rpm "
    "/var/lib/snapd /var/lib/sudo /var/lib/systemd"
)
# Above them, or a whole home: what is inside may be bound, these themselves hold too much.
_TOO_MUCH = _paths("/ /home /root /Users /var /var/home /var/lib")
_HOMES = _paths("/home /Users /var/home")
# Parts of the system that containers are given every day, for reading only.
_READABLE = _paths(
    "/etc/localtime /etc/timezone /etc/ssl/certs /etc/pki/tls/certs /etc/ca-certificates /usr/share /usr/local/share "
    "/usr/src"
)
_MOUNTED = _paths("/run/media")  # disks that a desktop has mounted
_PRIVATE = frozenset({
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".gcloud", ".netrc", ".pgpass", ".npmrc",
    ".pypirc", ".git-credentials", ".password-store", ".mozilla", ".vault-token", ".toolcrib", ".openclaw", "keyrings",
})  # fmt: skip


def _volume(text: str) -> str:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    # two leading slashes mean one, but not to PurePosixPath
    path = PurePosixPath(f"/{source.lstrip('/')}")
    if not source.startswith("/") or ".." in path.parts:
        raise ValueError(f"{shown(text)}: what is bound must be a whole path, from / on and without '..'")
    inside, modes = PurePosixPath(target), set(mode.split(",")) if mode else set()
    if not target.startswith("/") or target.strip("/") == "" or ".." in inside.parts or not _are_modes(modes):
        raise ValueError(f"{shown(text)}: write source:/target, with :ro or :rw behind it")
    if _is_control(path) or _is_private(path) or _is_system(path, readable="ro" in modes):
        raise ValueError(f"{shown(text)} would hand the sandbox the system, a control socket or somebody's keys")
    return text


def _are_modes(modes: set[str]) -> bool:
    return modes <= {"ro", "rw", "z", "Z"} and not modes >= {"ro", "rw"}


def _is_control(path: PurePosixPath) -> bool:
    return path.name.lower().endswith((".sock", ".socket"))


def _is_private(path: PurePosixPath) -> bool:
    return not _PRIVATE.isdisjoint(part.lower() for part in path.parts)


def _is_system(path: PurePosixPath, *, readable: bool) -> bool:
    if path in _TOO_MUCH or path.parent in _HOMES:
        return True
    if any(path.is_relative_to(folder) and path != folder for folder in _MOUNTED):
        return False
    if readable and any(path.is_relative_to(folder) for folder in _READABLE):
        return False
    return any(path.is_relative_to(folder) for folder in _SYSTEM)


Volume = Annotated[StrictStr, AfterValidator(_volume)]
