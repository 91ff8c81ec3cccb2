"""What a person can ask for, as data: the words are behind us, the tools still ahead."""

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "Compare", "Delegate", "List", "Names", "Pointing", "Read", "Refuse", "Replace", "Run", "Search", "Talk", "Target",
    "Task", "Topic", "View", "Way", "Write",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pointing:
    """A file that is not named but pointed at: the `at`th of those found before (-1 the last), or all of them."""

    at: int = 0
    everything: bool = False
    whole: bool = False


Target = str | Pointing

View = Literal["text", "headings", "summary", "dependencies", "lines", "words", "characters", "version"]
Way = Literal["text", "word", "regex", "defined", "imported", "definitions", "imports"]
Topic = Literal[
    "bye", "connect", "hello", "help", "missed", "needs", "nothing", "quit", "stop", "sum", "thanks", "tools", "undo",
    "unknown", "who",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class List:
    """What is in a folder; with `glob` or `deep` also what is below it."""

    path: Target = "."
    glob: str = ""
    only: Literal["", "files", "folders"] = ""
    deep: bool = False
    counted: bool = False
    by: Literal["", "size", "time"] = ""
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Files and folders of a name."""

    pattern: str
    path: Target = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Lines of files: with a text, a word, what defines it or imports it."""

    text: str
    path: Target = "."
    glob: str = ""
    way: Way = "text"
    any_case: bool = False
    counted: bool = False
    files: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Files to show, whole or in part, or what can be told about them; with none named, the one that fits the view."""

    targets: tuple[Target, ...] = ()
    view: View = "text"
    first: int = 0
    last: int = 0
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compare:
    """Two files, side by side."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A text that becomes a file, or its new end."""

    path: Target
    content: str
    append: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Replace:
    """A passage of a file that gives way to another."""

    path: Target
    old: str
    new: str
    once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """What is not done here: the command would do it."""

    what: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A command, a file that is a program, or a job whose command depends on the kind of project."""

    command: str = ""
    file: Target = ""
    job: Literal["", "test", "build", "lint"] = ""
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """Something to say; only what fits the folder is looked up."""

    topic: Topic
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegate:
    """Words for an agent on the belt, under the name of the input that takes them."""

    agent: str
    takes: str
    words: str


Task = List | Names | Search | Read | Compare | Write | Replace | Refuse | Run | Talk | Delegate
