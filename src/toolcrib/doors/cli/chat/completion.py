"""What Tab completes: commands and what they take, and paths of the folder."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

__all__ = ["ChatCompleter"]

_MOST = 200  # paths that are offered

Words = Callable[[], Sequence[str]]


class ChatCompleter(Completer):
    """Completes `/` at the beginning of a line to commands, behind one to what it takes, any other word to a path."""

    def __init__(self, commands: Mapping[str, Words], folder: Path) -> None:
        self._commands, self._folder = commands, folder

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Give what the word before the cursor may become."""
        before = document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        if before.startswith("/") and "\n" not in before:
            name, blank, rest = before.partition(" ")
            if not blank:
                yield from _matching(word, (f"/{each}" for each in self._commands))
                return
            if " " not in rest:
                yield from _matching(word, self._commands.get(name[1:], tuple)())
                return
        yield from self._paths(word)

    def _paths(self, word: str) -> Iterable[Completion]:
        if not word:
            return
        folder, _, start = word.rpartition("/")
        within = Path(os.path.expanduser(folder)) if folder else Path("/") if word.startswith("/") else Path()  # noqa: PTH111  Path's own raises for a user who is not there
        try:
            with os.scandir(self._folder / within) as entries:
                names = [
                    f"{entry.name}/" if entry.is_dir() else entry.name
                    for entry in entries
                    if entry.name.startswith(start) and entry.name.isprintable()
                ]
        except OSError:
            return  # there is no such folder, or none we may look into
        shown = (name for name in sorted(names) if start.startswith(".") or not name.startswith("."))
        for name, _ in zip(shown, range(_MOST), strict=False):
            yield Completion(name, start_position=-len(start))


def _matching(word: str, words: Iterable[str]) -> Iterable[Completion]:
    return (Completion(each, start_position=-len(word)) for each in words if each.startswith(word))
