"""Logs written by hand and at random: replies, calls that began or not, answers in any order, branches, compactions."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from toolcrib.define.event import Usage
from toolcrib.define.log import Began, Body, Ended, Labelled, Line, Noted, Said, Shortened, Switched
from toolcrib.define.message import Call, Finish, Message
from toolcrib.define.result import Status, Text

__all__ = ["Log", "logs"]


@dataclass
class Log:
    """A log that is written line by line; `leaf` is what the next line hangs from."""

    lines: list[Line] = field(default_factory=list)
    leaf: str | None = None

    def add(self, body: Body) -> str:
        """Add a line; return its id."""
        id = f"l{len(self.lines)}"
        self.lines.append(Line(id, self.leaf, float(len(self.lines)), body))
        self.leaf = id
        return id

    def user(self, text: str) -> str:
        return self.add(Said(Message(role="user", content=(Text(text),))))

    def reply(
        self,
        text: str,
        *calls: Call | str,
        usage: Usage | None = None,
        cost: float | None = None,
        finish: Finish = "stop",
    ) -> str:
        asked = tuple(Call(each, "read", {"path": each}) if isinstance(each, str) else each for each in calls)
        finish = "calls" if asked and finish == "stop" else finish
        return self.add(Said(Message(role="assistant", content=(Text(text),), calls=asked, finish=finish), usage, cost))

    def began(self, id: str) -> str:
        return self.add(Began(Call(id, "read")))

    def answer(self, id: str, text: str, status: Status = "ok") -> str:
        return self.add(Said(Message(role="tool", content=(Text(text),), call_id=id, status=status)))

    def shortened(self, summary: str, kept: str) -> str:
        return self.add(Shortened(summary, kept, 99))


_steps = st.lists(
    st.one_of(
        st.just(("user",)),
        st.tuples(st.just("reply"), st.integers(0, 3), st.sampled_from(("stop", "stop", "length", "error", "aborted"))),
        st.tuples(st.just("began"), st.integers(0, 2)),
        st.tuples(st.just("answer"), st.integers(0, 2)),
        st.tuples(st.just("shorten"), st.integers(0, 40)),
        st.tuples(st.just("branch"), st.integers(0, 40)),
        st.sampled_from((("switch",), ("note",), ("label",), ("end",))),
    ),
    max_size=40,
)


@st.composite
def logs(draw: st.DrawFn, *, reused: bool = False) -> list[Line]:
    """Return a random log; with `reused`, the ids of calls come back in later replies and twice in one."""
    log = Log()
    asked: Sequence[str] = ()
    replies = 0
    for step in draw(_steps):
        said = f"words {len(log.lines)}"
        match step:
            case ("user",):
                log.user(said)
            case ("reply", count, finish):
                replies += 1
                asked = [f"c{at % 2}" if reused else f"r{replies}c{at}" for at in range(count)]
                log.reply(said, *asked, usage=Usage(10, 1), cost=0.5, finish=finish)
            case ("began", at) if at < len(asked):
                log.began(asked[at])
            case ("answer", at) if at < len(asked):
                log.answer(asked[at], said)
            case ("shorten", at) if log.lines:
                log.shortened(said, log.lines[at % len(log.lines)].id)
            case ("branch", at) if log.lines:
                log.leaf = log.lines[at % len(log.lines)].id
            case ("switch",):
                log.add(Switched(said))
            case ("note",):
                log.add(Noted("test", {}))
            case ("label",):
                log.add(Labelled(said))
            case ("end",):
                log.add(Ended("done", "", Usage(), 0.0))
    return log.lines
