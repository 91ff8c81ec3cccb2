"""Catalog: every tool by name. A snapshot never changes; a change makes a new one."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toolcrib.define.tool import Tool

from .groups import groups_of


@dataclass(frozen=True, slots=True)
class Problem:
    """Something offered that was not taken in, told in one sentence."""

    source: str
    sentence: str


class Catalog(Mapping[str, Tool]):
    """Name to Tool, with the groups derived from the tools and what was refused. Immutable; equal only to itself."""

    __slots__ = ("_groups", "_problems", "_tools")

    def __init__(self, tools: Mapping[str, Tool], problems: Iterable[Problem] = ()) -> None:
        self._tools = MappingProxyType(dict(tools))
        self._groups = MappingProxyType(dict(groups_of(self._tools.values())))
        self._problems = tuple(problems)

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    @property
    def groups(self) -> Mapping[str, frozenset[str]]:
        return self._groups

    @property
    def problems(self) -> tuple[Problem, ...]:
        return self._problems
