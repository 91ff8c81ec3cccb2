"""System calls that nothing in a sandbox needs and that reach past its namespaces, refused by a kernel filter.

A filter is a small program for the kernel's packet machine. Everything is permitted but what is named here; what is
named fails with "not permitted", `clone3` with "no such call", so that libraries use `clone`, whose flags can be read.
"""

import platform
import struct

__all__ = ["NUMBERS", "REFUSED", "program"]

# Names of REFUSED are in the order in which they are tested; the numbers are the kernel's, never reused.
NUMBERS: dict[str, tuple[int, dict[str, int]]] = {
    "x86_64": (0xC000003E, {
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272,
        "move_mount": 429, "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "open_by_handle_at": 304,
        "keyctl": 250, "add_key": 248, "request_key": 249,
        "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "fanotify_init": 300,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
        "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "quotactl": 179, "syslog": 103,
        "clock_settime": 227, "settimeofday": 164, "vhangup": 153,
        "sethostname": 170, "setdomainname": 171, "lookup_dcookie": 212, "nfsservctl": 180, "iopl": 172, "ioperm": 173,
        "clone": 56, "clone3": 435, "socket": 41, "ioctl": 16,
    }),
    "aarch64": (0xC00000B7, {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "pidfd_getfd": 438,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "unshare": 97,
        "move_mount": 429, "open_tree": 428, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433,
        "mount_setattr": 442, "open_by_handle_at": 265,
        "keyctl": 219, "add_key": 217, "request_key": 218,
        "bpf": 280, "perf_event_open": 241, "userfaultfd": 282, "fanotify_init": 262,
        "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
        "kexec_load": 104, "kexec_file_load": 294, "init_module": 105, "finit_module": 273, "delete_module": 106,
        "reboot": 142, "swapon": 224, "swapoff": 225, "acct": 89, "quotactl": 60, "syslog": 116,
        "clock_settime": 112, "settimeofday": 170, "vhangup": 58,
        "sethostname": 161, "setdomainname": 162, "lookup_dcookie": 18, "nfsservctl": 42,
        "clone": 220, "clone3": 435, "socket": 198, "ioctl": 29,
    }),
}  # fmt: skip

_ARGUED = ("clone", "clone3", "socket", "ioctl")
REFUSED = {machine: tuple(name for name in names if name not in _ARGUED) for machine, (_, names) in NUMBERS.items()}

_LOAD, _JUMP_EQUAL, _JUMP_LEAST, _JUMP_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST, _SECOND = 0, 4, 16, 24  # places in what the kernel shows: low halves of the arguments
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_EPERM, _ENOSYS = 1, 38
_NEW_NAMESPACES = 0x7E020000  # every CLONE_NEW flag but the one for time, which `clone` cannot name
_SOCKETS = (38, 40)  # to the kernel's ciphers; to the machine that hosts this one, which is in no namespace
_TYPE_INTO_TERMINAL = (0x5412, 0x541C)
_OTHER_NUMBERS = 0x40000000  # a second numbering of the same calls, on x86-64 only

Step = tuple[int, int, int, int]


def program(machine: str = platform.machine()) -> bytes | None:
    """Return the filter for a kind of processor, None where the numbers of its calls are not known here."""
    if machine not in NUMBERS:
        return None
    token, numbers = NUMBERS[machine]
    steps: list[Step] = [
        (_LOAD, 0, 0, _MACHINE), (_JUMP_EQUAL, 1, 0, token), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER),
    ]  # fmt: skip
    if machine == "x86_64":
        steps += [(_JUMP_LEAST, 0, 1, _OTHER_NUMBERS), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
    for name in REFUSED[machine]:
        steps += [(_JUMP_EQUAL, 0, 1, numbers[name]), (_RETURN, 0, 0, _FAIL | _EPERM)]
    steps += [(_JUMP_EQUAL, 0, 1, numbers["clone3"]), (_RETURN, 0, 0, _FAIL | _ENOSYS)]
    steps += _argument(numbers["clone"], _FIRST, [(_JUMP_BITS, _NEW_NAMESPACES)])
    steps += _argument(numbers["socket"], _FIRST, [(_JUMP_EQUAL, family) for family in _SOCKETS])
    steps += _argument(numbers["ioctl"], _SECOND, [(_JUMP_EQUAL, request) for request in _TYPE_INTO_TERMINAL])
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _argument(number: int, place: int, tests: list[tuple[int, int]]) -> list[Step]:
    """Return steps that refuse a call when an argument meets a test, and permit it otherwise."""
    body: list[Step] = [(_LOAD, 0, 0, place)]
    for test, value in tests:
        body += [(test, 0, 1, value), (_RETURN, 0, 0, _FAIL | _EPERM)]
    body.append((_RETURN, 0, 0, _ALLOW))
    return [(_JUMP_EQUAL, 0, len(body), number), *body]
