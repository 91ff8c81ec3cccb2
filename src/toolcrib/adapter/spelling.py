"""How the names of tools are spelled on a wire: as its provider likes them, and never two under one spelling."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set

from toolcrib.define.names import canonical

__all__ = ["Wishes", "spelled", "spelling"]

# How a provider would like a name to be spelled, the dearest wish first; never empty.
Wishes = Callable[[str], Sequence[str]]


def spelled(names: Iterable[str], wishes: Wishes) -> dict[str, str]:
    """Return the spelling of every name. A name that stays as it is goes first, otherwise who asks first."""
    known = list(dict.fromkeys(names))
    spellings = {name: name for name in known if wishes(name)[0] == name}
    taken = set(spellings)
    for name in known:
        if name not in spellings:
            spellings[name] = _free(wishes(name), taken)
            taken.add(spellings[name])
    return {name: spellings[name] for name in known}


def spelling(name: str, spellings: Mapping[str, str], wishes: Wishes) -> str:
    """Return the spelling of a name from the past: of a tool that may be gone, and must not pass for another."""
    known = spellings.get(name) or spellings.get(canonical(name) or "")
    return known or _free(wishes(name), set(spellings.values()))


def _free(wished: Sequence[str], taken: Set[str]) -> str:
    numbered = (f"{wished[-1]}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (*wished, *numbered) if each not in taken)
