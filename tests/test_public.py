"""The public face: the names a program imports, and the library of interfaces.md."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Annotated, Any

import pytest

import toolcrib
from tests.architecture import FACES
from tests.public import GOLDEN, PUBLIC, describe
from toolcrib import Call, Caller, Ctx, Result, Sender, ToolError, tool
from toolcrib.define.message import Thinking
from toolcrib.testing import FakeApprover, fake_ctx

pytestmark = pytest.mark.anyio

PROJECT = Path(__file__).parents[1]
DOCUMENTED = (
    PROJECT / "README.md",
    *(path for path in sorted((PROJECT / "docs").rglob("*.md")) if "decisions" not in path.parts),
    *sorted((PROJECT / "examples").rglob("*.py")),
)

# interfaces.md, section Library: what acceptance imports
PROMISED = {
    "tool", "actions", "Tool", "Result", "Text", "Image", "Ctx", "Caller", "Sender", "Call", "Agent", "Plugin",
    "ToolError", "open",
}  # fmt: skip


def _names(module: str) -> list[str]:
    listed: list[str] = importlib.import_module(module).__all__
    return listed


LAZY = tuple(map(importlib.import_module, sorted(FACES)))


@pytest.mark.parametrize("face", LAZY, ids=lambda face: face.__name__)
def test_the_names_of_a_face_are_those_served_lazily(face: ModuleType) -> None:
    served = [name for names in face._HOMES.values() for name in names.split()]
    assert sorted({*face.__all__, *({"open"} if face is toolcrib else ())} - {"__version__"}) == sorted(served)
    assert list(face._HOMES) == sorted(face._HOMES)


@pytest.mark.parametrize("face", LAZY, ids=lambda face: face.__name__)
def test_type_checkers_are_told_the_same_names(face: ModuleType) -> None:
    parsed = ast.parse(Path(str(face.__file__)).read_text(encoding="utf-8"))
    (block,) = (node for node in parsed.body if isinstance(node, ast.If) and isinstance(node.test, ast.Name))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom) and node.level]
    served = {(name, home) for home, names in face._HOMES.items() for name in names.split()}
    assert {(alias.name, node.module) for node in imports for alias in node.names} == served


def test_a_star_import_leaves_the_builtin_open_alone() -> None:
    names: dict[str, object] = {}
    exec("from toolcrib import *", names)
    assert "open" not in names
    assert "open" in dir(toolcrib)


def test_everything_promised_is_there() -> None:
    assert {*toolcrib.__all__, "open"} >= PROMISED


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in PUBLIC for name in _names(module)])
def test_every_public_name_resolves_and_what_is_no_value_has_a_docstring(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    if isinstance(value, type | FunctionType | ModuleType):
        assert inspect.getdoc(value)


def test_the_public_names_and_their_signatures_are_the_recorded_ones() -> None:
    assert describe() == GOLDEN.read_text(encoding="utf-8"), "run `python -m tests.public` if that is meant"


def test_what_is_documented_imports_from_public_modules_only() -> None:
    rooms = {path.stem for path in (PROJECT / "src" / "toolcrib").iterdir() if path.stem.isidentifier()}
    public = {module.rpartition(".")[2] for module in PUBLIC}
    for path in DOCUMENTED:
        text = path.read_text(encoding="utf-8")
        named = re.findall(r"(?:from|import) (toolcrib(?:\.\w+)*)|\btoolcrib\.(\w+)\.\w", text)
        assert [module for module, _ in named if module and module not in PUBLIC] == [], path
        assert [room for _, room in named if room in rooms - public] == [], path


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'toolcrib' has no attribute 'ToolRegistryManager'$"):
        toolcrib.ToolRegistryManager  # type: ignore[attr-defined]  # noqa: B018  a type checker knows, too


def test_dir_lists_what_has_not_been_loaded_yet() -> None:
    code = "import toolcrib; print(set(toolcrib.__all__) <= set(dir(toolcrib)), 'Tool' in vars(toolcrib))"
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert ran.stdout.split() == ["True", "False"]


@tool(effects={"read"})
async def greet(ctx: Ctx, name: Annotated[str, "who"]) -> Result:
    """Greet somebody."""
    return Result.text(f"hello {name}", details={"owner": ctx.caller.owner})


async def test_a_program_that_only_wants_the_gate() -> None:
    crib = toolcrib.open({"tools": {"deny": ["exec"]}, "channels": {"telegram": {"groups": {"-100": {}}}}})
    caller = Caller(channel="telegram", group="-100", sender=Sender(id="7"))
    belt = crib.belt(caller, extra=[greet])
    assert belt.caller is caller
    assert belt.verdicts["greet"].decision == "allow"
    assert (belt.verdicts["exec"].decision, belt.verdicts["exec"].layer) == ("deny", "global")
    assert "'exec'" in belt.verdicts["exec"].reason
    assert belt.verdicts["gateway"].layer == "owner"
    assert "exec" not in belt.tools
    assert {
        "name": "greet",
        "description": "Greet somebody.",
        "parameters": {
            "type": "object",
            "properties": {"name": {"type": "string", "description": "who"}},
            "required": ["name"],
        },
    } in belt.declare("gemini")
    assert [shown["name"] for shown in belt.declare("anthropic")] == [tool.name for tool in belt.selection.shown]
    assert await belt.call("greet", {"name": "Ann"}) == Result.text("hello Ann", details={"owner": None})


def test_the_words_of_a_result_and_a_message_are_read_without_looking_at_their_parts() -> None:
    picture = toolcrib.Image(b"", "image/png")
    assert Result((toolcrib.Text("one"), picture, toolcrib.Text("two"))).plain_text == "one\ntwo"
    assert Result((picture,)).plain_text == ""
    thought = Thinking("hm")
    assert toolcrib.Message(role="assistant", content=(thought, toolcrib.Text("so"), picture)).plain_text == "so"


def test_in_a_program_whoever_names_nobody_is_not_the_owner() -> None:
    crib = toolcrib.open({})
    verdict = crib.belt(Caller()).verdicts["gateway"]
    assert (verdict.decision, verdict.layer) == ("deny", "owner")
    assert crib.belt(toolcrib.OWNER).verdicts["gateway"].decision == "allow"
    for ask in (crib.belt, crib.turn):
        assert inspect.signature(ask).parameters["caller"].default is inspect.Parameter.empty


async def test_a_programs_tools_are_on_every_belt_and_judged_like_any() -> None:
    crib = toolcrib.open({"agents": {"deaf": {"tools": {"deny": ["greet"]}}}}, tools=[greet])
    assert crib.catalog["greet"].source == "client:program"
    for caller in (toolcrib.OWNER, Caller(channel="irc", group="#shop", sender=Sender(id="7"))):
        assert (await crib.belt(caller).call("greet", {"name": "Ann"})).plain_text == "hello Ann"
    assert crib.belt(Caller(agent="deaf")).verdicts["greet"].origin == "agents.deaf.tools"


async def test_a_plain_function_among_a_programs_tools_is_declared() -> None:
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    for belt in (
        toolcrib.open({}, tools=[shout]).belt(toolcrib.OWNER),
        toolcrib.open({}).belt(toolcrib.OWNER, extra=[shout]),
    ):
        assert (await belt.call("shout", {"text": "ho"})).plain_text == "HO"


def test_what_is_no_tool_among_a_programs_tools_is_refused() -> None:
    no_tools: Any = ["shout"]
    with pytest.raises(toolcrib.DeclarationError, match=r"^'shout' is no tool; give a function, or what @tool made"):
        toolcrib.open({}, tools=no_tools)


@pytest.mark.parametrize(("names", "holder"), [(["read"], "core"), (["mine", "mine"], "client:program")])
def test_a_programs_tool_whose_name_is_taken_is_refused_at_once(names: list[str], holder: str) -> None:
    own = [toolcrib.Tool.declared(name, "Mine.") for name in names]
    with pytest.raises(toolcrib.DeclarationError, match=f"offers a tool '{names[0]}', which {holder} has$"):
        toolcrib.open({}, tools=own)


def test_a_program_without_a_loop_waits_by_run_sync() -> None:
    belt = toolcrib.open({}, tools=[greet]).belt(toolcrib.OWNER)
    assert toolcrib.run_sync(belt.call("greet", {"name": "Ann"})).plain_text == "hello Ann"


async def test_where_a_loop_runs_run_sync_says_so_and_leaves_nothing_behind() -> None:
    belt = toolcrib.open({}, tools=[greet]).belt(toolcrib.OWNER)
    with pytest.raises(
        toolcrib.CribError, match=r"^run_sync was called where an event loop runs; write `await` instead$"
    ):
        toolcrib.run_sync(belt.call("greet", {"name": "Ann"}))


def test_a_turn_without_a_loop_says_so_in_one_sentence() -> None:
    with pytest.raises(toolcrib.CribError) as raised:
        toolcrib.open({}).turn("hello", caller=toolcrib.OWNER)
    assert "loop" in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


@tool
def double(number: int, times: int = 2) -> int:
    """Multiply a number."""
    return number * times


async def test_a_declared_tool_is_still_the_function_it_was() -> None:
    assert double(3) == 6
    assert double(3, times=5) == 15
    ctx = fake_ctx()
    assert (await greet(ctx, "Ann")).plain_text == "hello Ann"
    belt = toolcrib.open({}, tools=[double]).belt(toolcrib.OWNER)
    assert (await belt.call("double", {"number": "4"})).plain_text == "8"
    assert belt.tools["double"].source == "client:program"
    assert double.source == "core"


async def test_what_fails_comes_back_as_a_result_that_says_so() -> None:
    belt = toolcrib.open({"tools": {"deny": ["greet"]}}).belt(toolcrib.OWNER, extra=[greet])
    for name, args, code in (
        ("greet", {"name": "Ann"}, "denied"),
        ("gret", {}, "not_found"),
        ("message", {"action": "send"}, "unavailable"),
        ("read", {"path": "no such file"}, "not_found"),
    ):
        result = await belt.call(name, args)
        assert (result.status, result.details["code"]) == ("error", code)


async def test_ask_goes_to_the_approver_of_the_belt_or_of_the_crib() -> None:
    config = {"tools": {"ask": ["greet"]}}
    asked = FakeApprover([True, False])
    belt = toolcrib.open(config, approver=asked).belt(toolcrib.OWNER, extra=[greet])
    assert (await belt.call("greet", {"name": "Ann"})).status == "ok"
    assert (await belt.call("greet", {"name": "Ann"})).details["code"] == "not_approved"
    nobody = toolcrib.open(config).belt(toolcrib.OWNER, extra=[greet])
    assert (await nobody.call("greet", {"name": "Ann"})).details["code"] == "not_approved"
    own = toolcrib.open(config).belt(toolcrib.OWNER, extra=[greet], approver=FakeApprover([True]))
    assert (await own.call("greet", {"name": "Ann"})).status == "ok"
    assert [call.args for _, call, _ in asked.asked] == [{"name": "Ann"}, {"name": "Ann"}]


async def test_every_call_has_its_own_id_and_key() -> None:
    seen: list[Call] = []

    @tool
    def probe(ctx: Ctx) -> None:
        """Probe."""
        seen.append(ctx.call)

    belt = toolcrib.open().belt(toolcrib.OWNER, extra=[probe])
    await belt.call("probe")
    await belt.call("probe", {})
    assert [(call.name, dict(call.args)) for call in seen] == [("probe", {}), ("probe", {})]
    assert len({call.id for call in seen} | {call.key for call in seen}) == 2


def test_open_takes_a_path_a_mapping_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text("tools: {deny: [exec]}\n", encoding="utf-8")
    for config in (path, str(path), {"tools": {"deny": ["exec"]}}):
        assert "exec" not in toolcrib.open(config).belt(toolcrib.OWNER).tools
    assert "exec" in toolcrib.open().belt(toolcrib.OWNER).tools


def test_a_bad_configuration_is_one_sentence() -> None:
    with pytest.raises(toolcrib.ConfigError) as raised:
        toolcrib.open({"tool": {}})
    assert len(str(raised.value).splitlines()) == 1
    assert "tools" in str(raised.value)


def test_the_errors_are_there_to_be_caught() -> None:
    assert issubclass(ToolError, toolcrib.CribError)
    assert issubclass(toolcrib.ConfigError, toolcrib.CribError)
    assert issubclass(toolcrib.DeclarationError, toolcrib.CribError)
