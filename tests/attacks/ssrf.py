"""attacks/ssrf: URLs fetched in a network of their own, in which every address is answered and every dial is seen.

The crib, the resolver of the C library, DNS, TLS and the sockets are real; the internet is small (`ssrf_world.py`).
"""

import json
import subprocess
import sys
from contextlib import suppress
from functools import cache
from typing import Any

from . import Outcome, broken, kept

Json = dict[str, Any]

_SETUP = (
    "ip link set lo up && ip route add local 0.0.0.0/0 dev lo && ip -6 route add local ::/0 dev lo"
    # a browser that finds no network tries no peer
    " && ip link add v0 type veth peer name v1 && ip addr add 192.0.2.1/32 dev v0 && ip link set v0 up"
    " && ip link set v1 up"
    ' && mount -t tmpfs none /run && echo "nameserver 127.0.0.1" > /run/resolv.conf'
    " && mount --bind /run/resolv.conf /etc/resolv.conf"
    f" && exec {sys.executable} -m tests.attacks.ssrf_world"
)


def judge(case: Json, profiles: Json) -> Outcome:
    """Have the URL fetched, and compare who was dialled with who may be."""
    seen = _fetch(case)
    complaints = _complain(case["must"], seen)
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


def _complain(must: Json, seen: Json) -> list[str]:
    dialled, verdict = set(seen["dialled"]), must["verdict"]
    complaints = []
    if verdict == "block" and not seen["is_refused"]:
        complaints.append("it was let through")
    if verdict == "block" and seen["forbidden"]:
        complaints.append(f"{', '.join(seen['forbidden'])} was dialled")
    if verdict == "allow" and (seen["is_refused"] or not dialled):
        complaints.append(f"refused: {seen['said']}")
    if "connect_only" in must and dialled - set(must["connect_only"]):
        complaints.append(f"{', '.join(sorted(dialled - set(must['connect_only'])))} was dialled")
    sent = {name.lower() for name in seen["last_headers"]}
    complaints += [f"{name} was sent" for name in must.get("sent_headers_not", ()) if name.lower() in sent]
    complaints += [f"{name} was not sent" for name in must.get("sent_headers", ()) if name.lower() not in sent]
    bounds = (("max_bytes_read", "bytes_sent"), ("max_requests", "requests"), ("max_seconds", "seconds"))
    complaints += [f"{key}: {seen[at]}" for key, at in bounds if seen[at] > must.get(key, seen[at])]
    for key in ("status", "body_len"):
        if must.get(key, seen[key]) != seen[key]:
            complaints.append(f"{key}: {seen[key]}")
    if must.get("body_has", "") not in seen["body"]:
        complaints.append("the body is not what was sent")
    if "result_has_no_content_of" in must and must["result_has_no_content_of"] in seen["body"]:
        complaints.append("it holds what it must not")
    if any(address in seen["said"] for address in seen["hidden"]):
        complaints.append(f"the answer tells an inner address: {seen['said']}")
    return complaints


def _fetch(case: Json) -> Json:
    if _world().poll() is not None:
        end_world()
    world = _world()
    assert world.stdin is not None
    assert world.stdout is not None
    answer = ""
    try:
        world.stdin.write(json.dumps(case) + "\n")
        world.stdin.flush()
        answer = world.stdout.readline()
    finally:
        if not answer:  # it died at this row, or was given up: the next row has another one
            end_world()
    if not answer:
        raise RuntimeError("the process with its internet ended")
    seen: Json = json.loads(answer)
    return seen


def end_world() -> None:
    """End the process with the internet; the next row starts another."""
    world = _world()
    _world.cache_clear()
    world.kill()
    with suppress(BrokenPipeError), world:
        pass


@cache
def _world() -> "subprocess.Popen[str]":
    command = ["unshare", "-Urnm", "sh", "-c", _SETUP]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
