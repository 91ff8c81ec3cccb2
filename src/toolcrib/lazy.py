"""Declarations that cost a start next to nothing: what they need to work is made when it is first used.

A start declares hundreds of dataclasses and patterns, and uses a few of them. `dataclass` and `regex` are what
`dataclasses.dataclass` and `re.compile` are, but no code is generated and no pattern compiled that nothing uses
(decision 0080). What belongs to dataclasses is passed on, so that one place has all of it.
"""

import dataclasses
import inspect
import re
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, FrozenInstanceError, asdict, field, fields, replace
from functools import partial
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

__all__ = ["asdict", "dataclass", "field", "fields", "regex", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from re import compile as regex
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True, repr=True):
        """Declare a dataclass whose methods are made when the first of its objects is."""

        def declare(cls):
            mixed = any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:])  # then the library's rules hold
            form = {"init": False, "repr": False, "eq": False, "slots": slots, "kw_only": kw_only}
            if cls.__doc__ is None:
                cls.__doc__ = cls.__name__  # or a signature is written for it
            own = {name for name, value in vars(cls).items() if name != "__hash__" or value is not None}
            made = dataclasses.dataclass(**form, frozen=frozen and mixed)(cls)
            methods = {"__init__": _later(made, "__init__", partial(_make_init, frozen=frozen))}
            if eq:
                methods["__eq__"] = _later(made, "__eq__", _make_equal)
                methods["__hash__"] = _later(made, "__hash__", _make_hash) if frozen else None
            if repr:
                methods["__repr__"] = _describe
            if frozen and not mixed:
                made.__dataclass_params__.frozen = True
                methods |= _refuse_changes(made) | (_PICKLED if slots else {})
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            made.__signature__ = _SIGNATURE
            return made

        return declare if cls is None else declare(cls)

    class regex:  # noqa: N801  it stands for a function
        """A pattern that is compiled when it is first asked to match."""

        def __init__(self, text, flags=0):
            self._of = text, flags

        def __getattr__(self, name):
            if name.startswith("_"):  # of an object that is being copied, which has no text yet
                raise AttributeError(name)
            method = getattr(re.compile(*self._of), name)
            setattr(self, name, method)
            return method


class _Factory:
    """The default of a parameter whose value is made at each call."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _make_init(cls: type, *, frozen: bool) -> Callable[..., None]:
    """Return the `__init__` that the standard library would have generated."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_FACTORY": _FACTORY}
    by_place, by_name, lines = list[str](), list[str](), list[str]()
    for each in fields(cls):
        value, default = each.name, ""
        if each.default_factory is not MISSING:
            names[f"_make_{each.name}"], default = each.default_factory, "=_FACTORY"
            value = f"_make_{each.name}() if {each.name} is _FACTORY else {each.name}"
            value = value if each.init else f"_make_{each.name}()"
        elif each.default is not MISSING:
            names[f"_default_{each.name}"], default = each.default, f"=_default_{each.name}"
            value = value if each.init else default[1:]
        elif not each.init:
            continue
        if each.init:
            (by_name if each.kw_only else by_place).append(each.name + default)
        if not frozen:
            lines.append(f"self.{each.name} = {value}")
        elif isinstance(slot := getattr(cls, each.name, None), MemberDescriptorType):  # faster by a third
            names[f"_set_{each.name}"] = slot.__set__
            lines.append(f"_set_{each.name}(self, {value})")
        else:
            lines.append(f"_set(self, {each.name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
    init = _compile(f"__init__({parameters})", lines or ["pass"], names)
    init.__annotations__ = {each.name: each.type for each in fields(cls) if each.init} | {"return": None}
    init.__module__, init.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    return init


def _make_equal(cls: type) -> Callable[..., Any]:
    same = f"{_list_compared(cls, 'self')} == {_list_compared(cls, 'other')}"
    return _compile("__eq__(self, other)", [f"return {same} if other.__class__ is self.__class__ else NotImplemented"])


def _make_hash(cls: type) -> Callable[..., Any]:
    return _compile("__hash__(self)", [f"return hash({_list_compared(cls, 'self')})"])


def _list_compared(cls: type, value: str) -> str:
    return f"({''.join(f'{value}.{each.name}, ' for each in fields(cls) if each.compare)})"


def _compile(signature: str, lines: list[str], names: dict[str, Any] | None = None) -> Callable[..., Any]:
    made = {} if names is None else names
    exec(f"def {signature}:\n  " + "\n  ".join(lines), made)  # noqa: S102  as the library does
    method: Callable[..., Any] = made[signature.partition("(")[0]]
    return method


def _later(cls: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[..., Any]:
    """Return a method that puts the true one in its place when it is first called."""

    def stand_in(self: Any, *args: Any, **named: Any) -> Any:
        complete()
        return getattr(cls, name)(self, *args, **named)

    def complete() -> None:
        if getattr(cls, name) is stand_in:
            setattr(cls, name, make(cls))

    stand_in.complete = complete  # type: ignore[attr-defined]
    return stand_in


class _Signature:
    """What `inspect.signature` reads of a class, whether its `__init__` is made or not."""

    def __get__(self, instance: Any, owner: Any) -> inspect.Signature:
        if instance is not None:
            raise AttributeError("__signature__")
        getattr(owner.__init__, "complete", lambda: None)()
        signature = inspect.signature(owner.__init__)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


_SIGNATURE = _Signature()


@reprlib.recursive_repr()
def _describe(self: Any) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{type(self).__qualname__}({shown})"


def _read_state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _write_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)


_PICKLED: Mapping[str, Any] = {"__getstate__": _read_state, "__setstate__": _write_state}


def _refuse_changes(cls: Any) -> dict[str, Any]:
    """Return the methods that refuse to change a field; a subclass may have attributes of its own."""
    names = frozenset(each.name for each in fields(cls))

    def set_attribute(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": set_attribute, "__delattr__": delete_attribute}
