"""New lines indented as their neighbours are in the file, when a passage was found with another indentation."""

from collections.abc import Iterable, Mapping, Sequence

from ._fold import BLANKS, indent_of

__all__ = ["Indentation"]


class Indentation:
    """How the indentation that somebody wrote is written in the file, learnt from lines that stand in both."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        known: dict[str, str] = {}
        for written, own in pairs:
            if written.strip(BLANKS):
                known.setdefault(indent_of(written), indent_of(own))
        self._known = known
        self._unit = _unit_of(known)

    def __call__(self, lines: Sequence[str]) -> list[str]:
        """Return the lines as they would be indented in the file; blank ones stay as they are."""
        if all(written == own for written, own in self._known.items()):
            return list(lines)
        return [self._own(indent_of(line)) + line.lstrip(BLANKS) if line.strip(BLANKS) else line for line in lines]

    def _own(self, indent: str) -> str:
        if indent in self._known:
            return self._known[indent]
        around = [written for written in self._known if indent.startswith(written)]
        if around:
            nearest = max(around, key=len)
            return self._known[nearest] + self._stretch(indent[len(nearest) :])
        inside = [written for written in self._known if written.startswith(indent)]
        if not inside:
            return indent  # tabs against spaces, and nothing to compare with
        nearest = min(inside, key=len)
        own, less = self._known[nearest], self._stretch(nearest[len(indent) :])
        return own.removesuffix(less) if own.endswith(less) else own[: max(len(own) - len(less), 0)]

    def _stretch(self, indent: str) -> str:
        """Return a piece of indentation in the file's own unit, when it is a whole number of units."""
        written, own = self._unit
        times = len(indent) // len(written) if written else 0
        return own * times if times and written * times == indent else indent


def _unit_of(known: Mapping[str, str]) -> tuple[str, str]:
    """Return one step of indentation as it is written and as the file has it; two empty texts when nothing tells."""
    steps = [
        (more[len(less) :], own[len(known[less]) :])
        for more, own in known.items()
        for less in known
        if len(more) > len(less) and more.startswith(less) and own.startswith(known[less])
    ]
    told = [(written, own) for written, own in steps if own]
    if told:
        return min(told, key=lambda step: len(step[0]))
    for written, own in known.items():
        if own and written and not own.strip("\t") and len(written) % len(own) == 0:
            return written[: len(written) // len(own)], "\t"
        if own and written and not written.strip("\t") and len(own) % len(written) == 0:
            return "\t", own[: len(own) // len(written)]
    return "", ""
