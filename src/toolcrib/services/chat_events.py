"""The events of a run as the protocol of the gateway tells them: `agent` and `chat`, each with its number."""

from collections.abc import Callable
from typing import Any

from toolcrib.define import event as events
from toolcrib.define.gateway import Bus

from .chat_run import ChatRun

_DELTA_SECONDS = 0.15  # between two pieces of an answer


def to_ms(seconds: float) -> int:
    """Return a time as the protocol writes it."""
    return int(seconds * 1000)


class RunEventPublisher:
    """Turns the events of one run into those of the protocol: each with its number, pieces of text not too often."""

    def __init__(self, bus: Bus, run: ChatRun, now: Callable[[], float]) -> None:
        self._bus, self._run, self._now = bus, run, now
        self._chat_seq, self._agent_seq = 0, 0
        self._text, self._told_chars, self._told_at = "", 0, 0.0
        self._agent("lifecycle", {"phase": "start", "startedAt": to_ms(run.began)})

    def tell(self, event: events.Event) -> None:
        match event:
            case events.TextDelta(text=text):
                self._text += text
                if self._now() - self._told_at >= _DELTA_SECONDS:
                    self._tell_text()
            case events.Retrying():
                self._text, self._told_chars = "", 0
            case events.Replied():
                self._tell_text()
                self._text, self._told_chars = "", 0
            case events.ToolStarted(call=call):
                self._agent("tool", {"phase": "start", **_call(call), "args": dict(call.args)})
            case events.ToolProgress(call=call, partial=partial):
                self._agent("tool", {"phase": "update", **_call(call), "partialResult": partial.to_json()})
            case events.ToolFinished(call=call, result=result):
                outcome = {"isError": result.status == "error", "result": result.to_json()}
                self._agent("tool", {"phase": "result", **_call(call), **outcome})

    def _tell_text(self) -> None:
        """Publish the answer so far, where it has grown since the last time."""
        if len(self._text) > self._told_chars:
            delta, self._told_at = self._text[self._told_chars :], self._now()
            self._told_chars = len(self._text)
            self._agent("assistant", {"text": self._text, "delta": delta})
            self._chat("delta", message=_assistant(self._text, self._told_at))

    def end(self, end: events.TurnFinished) -> None:
        """Tell how it ended."""
        at = self._now()
        if end.reason in ("done", "stopped"):
            self._agent("lifecycle", {"phase": "end", "endedAt": to_ms(at)})
            state = "final" if end.reason == "done" else "aborted"
            self._chat(state, **({"message": _assistant(end.text, at)} if end.text else {}))
            return
        self._agent("lifecycle", {"phase": "error", "endedAt": to_ms(at), "error": end.sentence or end.reason})
        self._chat("error", errorMessage=end.sentence or end.reason)

    def _agent(self, stream: str, data: dict[str, Any]) -> None:
        self._agent_seq += 1
        payload = {"runId": self._run.id, "seq": self._agent_seq, "stream": stream, "ts": to_ms(self._now())}
        self._bus.publish("agent", {**payload, "data": data, "sessionKey": self._run.session}, self._run.session)

    def _chat(self, state: str, **more: Any) -> None:
        self._chat_seq += 1
        payload = {"runId": self._run.id, "sessionKey": self._run.session, "seq": self._chat_seq, "state": state}
        self._bus.publish("chat", {**payload, **more}, self._run.session)


def tell_answer(bus: Bus, run: str, session: str, text: str, timestamp: float) -> None:
    """Publish the answer of a run that has no publisher of its own."""
    payload = {"runId": run, "sessionKey": session, "seq": 1, "state": "final", "message": _assistant(text, timestamp)}
    bus.publish("chat", payload, session)


def _assistant(text: str, at: float) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "text", "text": text}], "timestamp": to_ms(at)}


def _call(call: Any) -> dict[str, Any]:
    return {"name": call.name, "toolCallId": call.id}
