"""From where: whatever says less of where it is from than its call has gathered is listed here, with its reason."""

import ast
from pathlib import Path

import toolcrib

SOURCE = Path(toolcrib.__file__).parent
VOUCHED = {
    "tools/_media.py": ["the path is made here, and the sides are read here"],
    "tools/nodes/nodes.py": ["the call or we name the path, and the size is counted here"],
    "tools/runtime/exec.py": ["nothing that it printed is shown, and its notices quote commands of this conversation"],
    "tools/runtime/process.py": [
        "nothing that a command printed is shown, and names quote commands of this conversation"
    ],
    "tools/ui/browser.py": ["the path is made here, and the size is counted here"],
}
# what writes a source away by hand: to take the marks of a value off that is fenced or attributed again behind it
UNMARKED = {"adapter/trim.py": 1, "services/calls.py": 1}


def list_calls(path: Path, name: str) -> list[ast.Call]:
    found = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Call))
    return [each for each in found if name in (getattr(each.func, "id", ""), getattr(each.func, "attr", ""))]


def test_every_word_that_a_tool_vouches_for_has_a_reason_that_stands_here() -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): [ast.literal_eval(each.args[1]) for each in calls]
        for path in SOURCE.rglob("*.py")
        if (calls := list_calls(path, "vouch_for"))
    }
    assert {path: sorted(set(reasons)) for path, reasons in found.items()} == VOUCHED


def test_nothing_else_takes_a_source_away() -> None:
    found = dict[str, int]()
    for path in SOURCE.rglob("*.py"):
        for call in list_calls(path, "_replace"):
            if any(each.arg == "source" and getattr(each.value, "value", "") is None for each in call.keywords):
                name = path.relative_to(SOURCE).as_posix()
                found[name] = found.get(name, 0) + 1
    uses = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if any(isinstance(each, ast.Name) and each.id == "OWN" for each in ast.walk(ast.parse(path.read_text())))
    }
    assert (found, uses) == (UNMARKED, {"define/sourced.py"})
