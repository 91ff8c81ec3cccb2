"""Agents in Markdown files: a YAML header says what an agent takes and may do, the body is its prompt.

    ---
    name: reviewer
    description: Reads a change and says what is wrong with it.
    tools: [read, grep]
    inputs:
      folder: { type: string, description: what to look at, required: true }
    ---
    You review code. Look at ${folder} ...

A file is read once: what was hashed is what is parsed. Everything that is wrong with it is told with its line.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcrib.define.agent import Agent
from toolcrib.define.check import check_of_schema
from toolcrib.define.errors import ConfigError, DeclarationError
from toolcrib.define.mandate import completion_shape, inputs_shape

from ._agent_header import Header, KeyPath, printable, read_header

__all__ = ["LARGEST", "AgentFile", "Header", "Parse", "agent_files", "read_agent_file", "read_agent_text"]

Parse = Callable[[str, str], tuple[Any, Mapping[KeyPath, int]]]

LARGEST = 64 * 1024  # bytes of a file
_MOST = 256  # files in a folder
_MARK = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """One file: the agent it declares, or None and what is wrong, each complaint with its line.

    `digest` is the SHA-256 of its bytes, empty where they could not be read.
    """

    path: Path
    digest: str = ""
    agent: Agent | None = None
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def agent_files(folder: Path, parse: Parse) -> tuple[AgentFile, ...]:
    """Read every agent in a folder, in the order of names; a folder that is not there holds none.

    Files that start with `_` or do not end in `.md` are left alone.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith(".md") and not each.name.startswith("_"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        return (_broken(folder, f"it cannot be read ({error.strerror})"),)
    found = tuple(read_agent_file(folder / name, parse) for name in names[:_MOST])
    if len(names) <= _MOST:
        return found
    left = f"{len(names)} files are more than the {_MOST} that are read; the last ones were left out"
    return (*found, _broken(folder, left))


def read_agent_file(path: Path, parse: Parse) -> AgentFile:
    """Read one file; `parse` turns the text of a header into its value and the line of every key."""
    try:
        raw = _bytes(path)
    except OSError as error:
        return _broken(path, f"it cannot be read ({error.strerror})")
    except DeclarationError as error:
        return _broken(path, str(error))
    digest, header = hashlib.sha256(raw).hexdigest(), Header(str(path))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        header.say((), "not UTF-8; save it as UTF-8", line=raw.count(b"\n", 0, error.start) + 1)
        return AgentFile(path=path, digest=digest, complaints=header.complaints)
    agent = read_agent_text(text, header, parse)
    return AgentFile(path=path, digest=digest, agent=agent, lines=header.lines, complaints=header.complaints)


def _broken(path: Path, sentence: str) -> AgentFile:
    return AgentFile(path=path, complaints=(f"{printable(str(path))}: {sentence}",))


def _bytes(path: Path) -> bytes:
    """Return what a regular file holds. A link is not followed, and a pipe is not waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DeclarationError("links are not followed; put the file itself there") from None
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise DeclarationError("an agent is a regular file; this is none")
        raw = os.read(descriptor, LARGEST + 1)
    finally:
        os.close(descriptor)
    if len(raw) > LARGEST:
        raise DeclarationError(f"larger than {LARGEST // 1024} KiB; an agent is a page of text")
    return raw


def read_agent_text(text: str, header: Header, parse: Parse) -> Agent | None:
    """Return the agent that the text of a file declares, or None after saying everything that is wrong to `header`."""
    cut = _cut(text.replace("\r\n", "\n").split("\n"))
    if cut is None:
        header.say((), f"a file of an agent starts with {_MARK}, its keys and another {_MARK}; the prompt comes after")
        return None
    front, body, after = cut
    try:
        # an empty line stands for the mark, so that the lines of the header are those of the file
        value, lines = parse(f"\n{front}\n", header.file)
    except ConfigError as error:
        key = f"{error.place.path}: " if error.place.path else ""
        header.say((), f"{key}{error.message}", line=error.place.line)
        return None
    header.lines.update(lines)
    said = read_header(value, header)
    if not body:
        header.say((), "the prompt is missing; write it under the header", line=after)
    if header.complaints:
        return None
    return _declared({**said, "prompt": body}, header)


def _declared(said: Mapping[str, Any], header: Header) -> Agent | None:
    key = "name"
    try:
        agent = Agent(**said)
        # a file is judged when it is read: a pattern that is none would else be found by the first call
        for key, shape in (("inputs", inputs_shape(agent)), ("output", completion_shape(agent))):  # noqa: B007  told below
            check_of_schema(shape.schema)
    except DeclarationError as error:
        header.say((key,), str(error))
        return None
    return agent


def _cut(lines: list[str]) -> tuple[str, str, int] | None:
    """Return the text of the header, the body without blanks around it, and the line after the header."""
    if lines[0].rstrip() != _MARK:
        return None
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() == _MARK), None)
    if end is None:
        return None
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip(), end + 2
