"""Files of agents: a header and a prompt; whatever is wrong is told with file and line, and takes no other along."""

import hashlib
import os
from pathlib import Path

import pytest

from toolcrib.backends.agent_files import MAX_FILE_BYTES, AgentFile, agent_files, read_agent_file
from toolcrib.config.parse import parse_yaml
from toolcrib.define.agent import completion_shape, inputs_shape, prompts_of

WHOLE = """\
---
name: reviewer
display_name: The Reviewer
description: Reads a change and says what is wrong with it.
kind: local
tools: [read, "group:fs", "mcp_*"]
model: openai:gpt-5
max_turns: 7
timeout_mins: 3
max_tokens: 9000
inputs:
  folder:
    type: string
    description: what to look at
    required: true
  strict: { type: boolean, default: false }
query: "Look at ${folder}."
output:
  verdict: { type: string, enum: [good, bad], required: true }
output_name: review
---

You review code in ${folder}; strict is ${strict}.

```sh
ls ${HOME}
```
"""


def read(folder: Path, text: str | bytes, name: str = "a.md") -> AgentFile:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_agent_file(path, parse_yaml)


def headed(*lines: str) -> str:
    return "\n".join(["---", "name: a", "description: d", *lines, "---", "Do it."])


def test_a_file_says_everything_that_an_agent_has(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    agent = found.agent
    assert agent is not None, found.complaints
    assert (agent.name, agent.label, agent.model) == ("reviewer", "The Reviewer", "openai:gpt-5")
    assert agent.tools == ("read", "group:fs", "mcp_*")
    assert (agent.max_turns, agent.timeout, agent.max_tokens) == (7, 180, 9000)
    assert found.digest == hashlib.sha256(WHOLE.encode()).hexdigest()
    assert found.lines["tools", 1] == 6
    prompts = prompts_of(agent, inputs_shape(agent).check({"folder": "src"}))
    assert prompts.query == "Look at src."
    assert prompts.system == "You review code in src; strict is false.\n\n```sh\nls ${HOME}\n```"
    assert completion_shape(agent).check({"review": {"verdict": "good"}}) == {"review": {"verdict": "good"}}


def test_a_file_without_inputs_takes_a_task(tmp_path: Path) -> None:
    agent = read(tmp_path, headed()).agent
    assert agent is not None
    assert (agent.tools, agent.model, agent.max_turns, agent.timeout) == (None, None, 30, 600.0)
    assert inputs_shape(agent).schema["required"] == ["query"]
    assert prompts_of(agent, {"query": "mend it"}).query == "mend it"


@pytest.mark.parametrize("text", [headed().replace("\n", "\r\n"), "\ufeff" + headed(), headed() + "\n---\nmore\n"])
def test_ends_of_lines_marks_and_rulers_in_the_body_are_no_matter(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert found.agent is not None, found.complaints
    assert found.agent.prompt.startswith("Do it.")


@pytest.mark.parametrize(
    ("lines", "line", "complaint"),
    [
        (["tols: [read]"], 4, "nothing is called 'tols' here; write 'tools'"),
        (["max_turns: 0"], 4, "max_turns: should be a whole number above 0, not 0"),
        ([f"kind: 0x{'f' * 9_999}"], 4, "kind: should be local, not 18446744073709551616"),
        ([f"inputs: {{b: {{type: string, default: 0x{'f' * 9_999}}}}}"], 4, "inputs: input 'b': `default` must be of"),
        (["max_turns: 9999999999"], 2, "agent a: max_turns must be a whole number above 0 and up to 1,000,000,000"),
        (["max_turns: 1.5"], 4, "max_turns: should be a whole number above 0, not 1.5"),
        (["max_turns: true"], 4, "max_turns: should be a whole number above 0, not True"),
        (["timeout_mins: -1"], 4, "timeout_mins: should be a whole number above 0, not -1"),
        (["tools: read"], 4, "tools: should be a list of names, groups and globs, not text"),
        (["tools:", "  - read", "  - 5"], 6, "tools: 5 names no tool; write a name, a group or a glob"),
        (["model: 5"], 4, "model: should be text, not a number"),
        (["query: ''"], 4, "query: is blank; write it, or leave the key out"),
        (["inputs: [a]"], 4, "inputs: should be a mapping from names to types, or JSON Schema, not a list"),
        (
            ["inputs:", "  b:", "    description: d", "    type: date"],
            7,
            "inputs: input 'b' has the type 'date'; there ",
        ),
        (["inputs:", "  b: string"], 5, "inputs: input 'b' must be a mapping with a type, not 'string'"),
        (["inputs: {type: object, properties: {b: {anyOf: []}}}"], 4, "inputs: parameter 'b' uses 'anyOf'"),
        (["output:", "  n: {type: 7}"], 5, "output: input 'n' has the type '7'"),
        (["kind: remote"], 4, "kind: remote: agents on other machines are not run"),
        (["mcp_servers: {}"], 4, "mcp_servers: servers stand under mcpServers in the configuration"),
        (["temperature: 1"], 4, "temperature: how a model is asked is its own business"),
        (["name: b"], 4, "name: this key stands twice, first on line 2"),
        (["model: *x"], 4, "model: aliases are not read"),
        (["tools: [read"], 5, "tools[1]: not valid YAML: "),
        (["inputs:", "  b: {type: string, pattern: '('}"], 4, "the schema itself is not valid: "),
        (["model: inherit", "output: {type: string, pattern: '('}"], 5, "the schema itself is not valid: "),
        (["output_name: my answer"], 2, "agent a: output_name 'my answer' is no name of an argument"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, lines: list[str], line: int, complaint: str) -> None:
    found = read(tmp_path, headed(*lines))
    assert found.agent is None
    assert found.complaints[0].startswith(f"{tmp_path / 'a.md'}:{line}: {complaint}"), found.complaints


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 1, "a file of an agent starts with ---"),
        ("Do it.", 1, "a file of an agent starts with ---"),
        ("\n---\nname: a\n---\nx", 1, "a file of an agent starts with ---"),
        ("---\nname: a\n", 1, "a file of an agent starts with ---"),
        ("---\nname: a\n---\nx", 1, "description is missing; write it"),
        ("---\ndescription: d\n---\nx", 1, "name is missing; write it"),
        ("---\nname: My Agent\ndescription: d\n---\nx", 2, "name: 'My Agent' is none; a name is 1 to 64 of a-z"),
        ("---\nname: 5\ndescription: d\n---\nx", 2, "name: 5 is none"),
        ("---\nname: a\ndescription: d\n---\n \n", 5, "the prompt is missing; write it under the header"),
        ("---\n- name: a\n---\nx", 1, "the header is a list; one file declares one agent"),
        (b"---\nname: a\ndescription: \xff\n---\nx", 3, "not UTF-8; save it as UTF-8"),
    ],
)
def test_a_file_that_is_no_agent_is_told_with_its_line(
    tmp_path: Path, text: str | bytes, line: int, complaint: str
) -> None:
    found = read(tmp_path, text)
    assert found.agent is None
    assert found.complaints[0].startswith(f"{tmp_path / 'a.md'}:{line}: {complaint}"), found.complaints


def test_every_fault_of_a_file_is_told_alone(tmp_path: Path) -> None:
    found = read(tmp_path, headed("tols: 1", "max_turns: x", "inputs:", "  b: {type: date}", "  c: {type: 1}"))
    assert [complaint.split(": ")[0].rsplit(":", 1)[1] for complaint in found.complaints] == ["4", "5", "7", "8"]


def test_no_file_takes_the_others_down(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text(headed("tols: 1"))
    (tmp_path / "a.md").write_text(headed())
    (tmp_path / "_draft.md").write_text("no agent")
    (tmp_path / "notes.txt").write_text("no agent")
    (tmp_path / "dir.md").mkdir()
    (tmp_path / "link.md").symlink_to(tmp_path / "a.md")
    os.mkfifo(tmp_path / "pipe.md")
    (tmp_path / "z.md").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    found = {each.path.name: each for each in agent_files(tmp_path, parse_yaml)}
    assert sorted(found) == ["a.md", "b.md", "dir.md", "link.md", "pipe.md", "z.md"]
    assert [name for name, each in found.items() if each.agent is not None] == ["a.md"]
    assert found["dir.md"].complaints == (f"{tmp_path}/dir.md: an agent is a regular file; this is none",)
    assert found["pipe.md"].complaints == (f"{tmp_path}/pipe.md: an agent is a regular file; this is none",)
    assert found["link.md"].complaints == (f"{tmp_path}/link.md: links are not followed; put the file itself there",)
    assert found["z.md"].complaints == (f"{tmp_path}/z.md: larger than 64 KiB; an agent is a page of text",)


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert agent_files(tmp_path / "none", parse_yaml) == ()


def test_a_name_that_a_terminal_would_obey_is_written_out(tmp_path: Path) -> None:
    found = read(tmp_path, "x", "\x1b[2J.md")
    assert "\\x1b[2J.md:1: " in found.complaints[0]
