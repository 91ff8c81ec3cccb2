"""Where the recorded cases are, and how they are read."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

_NOTED = ("BUG", "SECURITY", "GAP", "SURPRISE")


class BadInputError(Exception):
    """The run cannot start: a folder, a file or a row is not what it should be."""


@dataclass(frozen=True, slots=True)
class Folders:
    """Where to read: recorded cases, attacks, and the folder with the approved answers and the lists beside them."""

    cases: Path = HERE / "data"
    attacks: Path = HERE.parent / "attacks" / "data"
    answers: Path = HERE
    has_own: bool = False  # whether the cases that we wrote ourselves are run, too
    is_foreign: bool = False  # whether nobody here has seen the cases: what differs is new, and nothing is approved


def folders_from_environment(environment: Mapping[str, str]) -> Folders:
    """Return our own copies, or what `TOOLCRIB_CASES` and `TOOLCRIB_ATTACKS` put in their place."""
    own = Folders()
    cases, attacks = environment.get("TOOLCRIB_CASES"), environment.get("TOOLCRIB_ATTACKS")
    if not cases and not attacks:
        return Folders(has_own=True)
    return Folders(Path(cases) if cases else own.cases, Path(attacks) if attacks else own.attacks, is_foreign=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One recorded case (`file` is `openclaw-policy`) or one attack (`attacks/policy`; its `fn` is its class)."""

    file: str
    fn: str
    id: str
    args: Any
    expected: Any
    body: Mapping[str, Any] = field(repr=False)
    profiles: Mapping[str, Any] = field(default_factory=dict, repr=False)
    flaw: str = ""  # why it is no case at all; such a one fails, and the others are run
    fails: str = ""  # of a case that we wrote to be found out: the words that say why

    def __str__(self) -> str:
        return f"{self.file}:{self.fn}:{self.id}"

    @property
    def is_noted(self) -> bool:
        """Whether the recording itself says that a better system should differ."""
        return str(self.body.get("note", "")).startswith(_NOTED)

    @property
    def facts(self) -> Mapping[str, Any]:
        """The row as it was written."""
        return self.body

    @property
    def digest(self) -> str:
        """What tells this row from another of its id: an answer is approved for one row."""
        return hashlib.sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()[:8]


def load(folders: Folders) -> list[Case]:
    """Read every case in both folders, in the order of files and of cases."""
    return [*_recorded(folders.cases), *_attacks(folders.attacks)]


def load_own() -> list[Case]:
    """Read the cases that we wrote ourselves: words and rules that no recorded case shows.

    One that says `fails` is a control: it demands what is not so, and comes out well by being found out.
    """
    profiles = {path.stem: content["profiles"] for path, content in _files(Folders().attacks)}
    written = [*_recorded(HERE / "own"), *_attacks(HERE.parent / "attacks" / "own")]
    return [_own(case, profiles.get(case.file.removeprefix("attacks/"), {})) for case in written]


def _own(case: Case, profiles: Mapping[str, Any]) -> Case:
    body = {key: value for key, value in case.body.items() if key != "fails"}
    return replace(case, body=body, profiles={**profiles, **case.profiles}, fails=case.body.get("fails", ""))


def expand(value: Any) -> Any:
    """Join what the attack files write as {"$concat": [text, {"$repeat": [unit, times]}, ...]}."""
    if isinstance(value, list):
        return [expand(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$concat"}:
        return "".join(expand(part) for part in value["$concat"])
    if value.keys() == {"$repeat"}:
        unit, times = value["$repeat"]
        return str(unit) * int(times)
    return {key: expand(each) for key, each in value.items()}


def _recorded(folder: Path) -> Iterator[Case]:
    for path, content in _files(folder):
        file = path.stem
        if not isinstance(content, list):
            yield _flawed(file, 0, "the file is no list of cases")
            continue
        for at, body in enumerate(content):
            if flaw := _lacks(body, "id", "fn"):
                yield _flawed(file, at, flaw)
                continue
            yield Case(
                file=file,
                fn=str(body["fn"]),
                id=str(body["id"]),
                args=body.get("args"),
                expected=body.get("expected"),
                body=body,
            )


def _attacks(folder: Path) -> Iterator[Case]:
    for path, content in _files(folder):
        file = f"attacks/{path.stem}"
        if not isinstance(content, dict) or not isinstance(content.get("cases"), list):
            yield _flawed(file, 0, "the file has no list of `cases`")
            continue
        for at, raw in enumerate(content["cases"]):
            try:
                body = expand(raw)
            except (TypeError, ValueError) as error:
                yield _flawed(file, at, f"a text in it cannot be put together: {error}")
                continue
            if flaw := _lacks(body, "id", "class", "input", "must"):
                yield _flawed(file, at, flaw)
                continue
            yield Case(
                file=file,
                fn=str(body["class"]),
                id=str(body["id"]),
                args=body["input"],
                expected=body["must"],
                body=body,
                profiles=content.get("profiles", {}),
            )


def _lacks(body: Any, *keys: str) -> str:
    """Say what keeps a row from being a case, "" when nothing does."""
    if not isinstance(body, dict):
        return "it is no object"
    missing = [key for key in keys if key not in body]
    return f"it has no {', '.join(missing)}" if missing else ""


def _flawed(file: str, at: int, why: str) -> Case:
    return Case(file=file, fn="?", id=f"[{at}]", args=None, expected=None, body={}, flaw=f"this is no case: {why}")


def _files(folder: Path) -> Iterator[tuple[Path, Any]]:
    if not folder.is_dir():
        raise BadInputError(f"no folder {str(folder)!r} with recorded cases; name one that exists")
    paths = sorted(folder.glob("*.json"), key=lambda path: path.stem)
    if not paths:
        raise BadInputError(f"no *.json file in {str(folder)!r}; name the folder that holds the recorded cases")
    for path in paths:
        try:
            yield path, json.loads(path.read_bytes())
        except ValueError as error:
            raise BadInputError(f"{path} is not JSON: {error}") from error
