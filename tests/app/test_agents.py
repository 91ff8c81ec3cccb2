"""The agents of a crib: shelf, plugins, the user's own files; those of a workspace after a yes to what is in them."""

import hashlib
from pathlib import Path

import pytest

import toolcrib
from toolcrib import Agent, Crib, Plugin
from toolcrib.backends.stores.accepted import Accepted, AcceptedContents

SHELF = ["codebase_investigator", "generalist"]


@pytest.fixture(autouse=True)
def nobodys_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No files of whoever runs the tests, and a workspace that is not theirs."""
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xstate"))
    monkeypatch.delenv("TOOLCRIB_STATE", raising=False)
    monkeypatch.chdir(tmp_path / "work")


def write(folder: Path, name: str, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text("\n".join(["---", f"name: {name}", "description: d", *lines, "---", "Do it."]))
    return path


def accept(state: Path, path: Path) -> None:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    AcceptedContents(state / "agents").accept(Accepted(digest=digest, name="a", file=str(path), at=1.0))


def names(crib: Crib) -> list[str]:
    return sorted(crib.agents.offers)


def told(crib: Crib) -> list[str]:
    return [problem.sentence for problem in crib.agents.problems]


def test_a_crib_has_the_agents_of_the_shelf_and_of_plugins() -> None:
    agent = Agent(name="builder", description="B.", prompt="B.", inputs={}, tools=("write", "generalist"))
    crib = toolcrib.open({}, plugins=[Plugin(name="site", agents=(agent,))])
    assert names(crib) == sorted([*SHELF, "builder"])
    assert crib.agents.offers["builder"].source == "plugin:site"
    assert told(crib) == []


def test_an_agent_that_cannot_be_wrapped_is_reported_and_the_rest_go_on() -> None:
    crew = [Agent(name=name, description="D.", prompt="P.") for name in ("read", "reader")]
    crib = toolcrib.open({}, plugins=[Plugin(name="crew", agents=tuple(crew))], env={})
    assert told(crib) == [
        "agent read (plugin:crew): there is a tool 'read'; the agent was left out, give it another name"
    ]
    belt = crib.belt(toolcrib.OWNER)
    assert (belt.tools["read"].source, belt.tools["reader"].kind) == ("core", "think")
    assert belt.tools["reader"].parameters["required"] == ["query"]


def test_a_plugin_brings_its_agents(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "site"
    folder.mkdir(parents=True)
    (folder / "toolcrib.plugin.json").write_text('{"id": "site", "configSchema": {}, "tools": []}')
    (folder / "plugin.py").write_text(
        "from toolcrib import Agent, Plugin\n"
        'builder = Agent(name="builder", description="B.", prompt="B.", inputs={}, tools=("write",))\n'
        'plugin = Plugin(name="site", agents=(builder,))\n'
    )
    write(tmp_path / "work" / ".toolcrib" / "agents", "mine", "tools: [builder]")
    accept(tmp_path / "state", tmp_path / "work" / ".toolcrib" / "agents" / "mine.md")
    config = {"plugins": {"folders": [str(folder.parent)], "site": {"enabled": True}}}
    crib = toolcrib.open(config, state=tmp_path / "state")
    assert (names(crib), told(crib)) == (sorted([*SHELF, "builder", "mine"]), [])
    unloaded = toolcrib.open(config, state=tmp_path / "state", import_plugins=False)
    assert (names(unloaded), told(unloaded)) == (sorted([*SHELF, "mine"]), [])


def test_the_user_s_own_files_count_unless_a_program_says_everything_itself(tmp_path: Path) -> None:
    write(tmp_path / "conf" / "toolcrib" / "agents", "mine", "tools: [read]")
    assert names(toolcrib.open()) == sorted([*SHELF, "mine"])
    assert names(toolcrib.open({})) == SHELF


def test_one_bad_file_is_told_with_its_line_and_the_others_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "conf" / "toolcrib" / "agents"
    write(folder, "good")
    write(folder, "key", "colour: red")
    write(folder, "type", "max_turns: many")
    write(folder, "tool", "tools: [read, teleport]")
    write(folder, "ring1", "tools: [ring2]")
    write(folder, "ring2", "tools: [ring1]")
    shell = write(folder, "shell")
    shell.write_text(shell.read_text() + "\ncd ${HOME}\n")
    crib = toolcrib.open()
    assert names(crib) == sorted([*SHELF, "good", "shell"])
    assert crib.agents.offers["shell"].agent.prompt == "Do it.\ncd ${HOME}"
    left = sorted(sentence.split(": ")[0] for sentence in told(crib))
    assert left == [f"{folder}/{name}.md:4" for name in ("key", "ring1", "ring2", "tool", "type")]
    assert [problem.sentence for problem in crib.catalog.problems] == told(crib)
    findings = [finding for finding in crib.lint() if finding.kind == "agent"]
    assert sorted(finding.message for finding in findings) == sorted(told(crib))


def test_a_file_of_a_workspace_counts_only_as_it_was_accepted(tmp_path: Path) -> None:
    state, folder = tmp_path / "state", tmp_path / "work" / ".toolcrib" / "agents"
    path = write(folder, "ours", "tools: [read]")
    crib = toolcrib.open({}, state=state)
    assert names(crib) == SHELF
    (sentence,) = told(crib)
    assert sentence.endswith(
        "ours.md: nobody has accepted it, so it is not used; look at it, "
        "then `toolcrib agents accept .toolcrib/agents/ours.md`"
    )
    accept(state, path)
    crib = toolcrib.open({}, state=state)
    assert (names(crib), told(crib)) == (sorted([*SHELF, "ours"]), [])
    assert crib.agents.offers["ours"].source == "workspace"
    write(folder, "ours", "tools: [read, exec]")
    crib = toolcrib.open({}, state=state)
    assert names(crib) == SHELF
    assert "changed since it was accepted" in told(crib)[0]


def test_the_workspaces_of_other_agents_are_looked_into_too_each_file_with_a_yes_of_its_own(tmp_path: Path) -> None:
    main, dev = tmp_path / "main", tmp_path / "dev"
    for folder, name in ((main, "near"), (dev, "far")):
        write(folder / ".toolcrib" / "agents", name)
    config = {
        "workspace": {"root": str(main)},
        "agents": {"dev": {"workspace": str(dev)}, "again": {"workspace": f"{dev}/"}, "none": {}},
    }
    before = toolcrib.open(config, state=tmp_path / "state", env={})
    withheld = [sentence.partition(":")[0] for sentence in told(before)]
    assert withheld == [str(main / ".toolcrib/agents/near.md"), str(dev / ".toolcrib/agents/far.md")]
    accept(tmp_path / "state", dev / ".toolcrib" / "agents" / "far.md")
    after = toolcrib.open(config, state=tmp_path / "state", env={})
    assert names(after) == sorted([*SHELF, "far"])


def test_a_file_of_a_workspace_is_not_judged_before_somebody_wants_it(tmp_path: Path) -> None:
    write(tmp_path / "work" / ".toolcrib" / "agents", "bad", "colour: red")
    (sentence,) = told(toolcrib.open({}, state=tmp_path / "state"))
    assert "nobody has accepted it" in sentence


def test_the_user_s_folder_needs_a_yes_where_tools_can_write_to_it(tmp_path: Path) -> None:
    path = write(tmp_path / "conf" / "toolcrib" / "agents", "mine")
    config = tmp_path / "crib.yaml"
    config.write_text(f"workspace: {{ root: {tmp_path} }}\n")
    crib = toolcrib.open(config, state=tmp_path / "state")
    assert names(crib) == SHELF
    assert "nobody has accepted it" in told(crib)[0]
    accept(tmp_path / "state", path)
    assert names(toolcrib.open(config, state=tmp_path / "state")) == sorted([*SHELF, "mine"])


@pytest.mark.anyio
@pytest.mark.parametrize("state", ["state", ""])
async def test_no_tool_says_yes_where_the_state_lies_in_the_workspace(tmp_path: Path, state: str) -> None:
    config, folder = {"workspace": {"root": str(tmp_path)}}, tmp_path / state
    digest = hashlib.sha256(b"---").hexdigest()
    async with toolcrib.open(config, state=folder, env={}) as crib:
        path = str((folder / "agents" / digest).relative_to(tmp_path))
        written = await crib.belt(toolcrib.OWNER).call("write", {"path": path, "content": "{}"})
    assert written.details["code"] == "denied"
    assert not (folder / "agents" / digest).exists()
