// What happened in a session as items: {key, kind: "user" | "reply" | "call" | "note", ...}. No document here.

const UNSEEN = /^\[image\/(png|jpeg|gif|webp), \d+ bytes\]$/m; // what watchers are told of a picture
let count = 0;

function make(kind, about) {
  return { key: `i${++count}`, kind, ...about };
}

// Return the items of messages as `chat.history` tells them; `first` is the number of the first.
export function readMessages(messages, first = 0) {
  const items = [],
    calls = new Map();
  for (const [place, message] of messages.entries()) {
    const text = message.content
      .filter((part) => part.type === "text")
      .map((part) => part.text)
      .join("\n");
    const pictures = message.content.filter((part) => part.type === "image"),
      at = message.timestamp;
    if (message.role === "toolResult") {
      const call = calls.get(message.toolCallId);
      const told = { status: message.isError ? "error" : "ok", text, pictures, endedAt: at };
      if (call) Object.assign(call, told);
      else items.push(make("call", { tool: "?", args: {}, ...told }));
      continue;
    }
    if (message.role === "user") items.push(make("user", { text, pictures, at, number: first + place }));
    else if (text.trim()) items.push(make("reply", { text, at }));
    for (const part of message.content.filter(({ type }) => type === "toolCall")) {
      const call = make("call", {
        id: part.id,
        tool: part.name,
        args: part.arguments,
        status: "unknown",
        startedAt: at,
      });
      calls.set(part.id, call);
      items.push(call);
    }
  }
  return items;
}

// Take the events of one run as `chat.follow` tells them, and when each happened; `changed(item, isNew)` hears of it.
export function makeReader(changed) {
  const calls = new Map();
  let reply = null,
    time = 0;

  const push = (kind, about) => {
    const item = make(kind, about);
    changed(item, true);
    return item;
  };
  const endReply = () => {
    if (reply) changed(Object.assign(reply, { isLive: false }), false);
    reply = null;
  };
  const grow = (field, text) => {
    reply ??= push("reply", { text: "", thinking: "", at: time, isLive: true });
    reply[field] += text;
    changed(reply, false);
  };
  const takes = {
    turn_started: ({ message, model }) => push("user", { text: message, at: time, model }),
    received: ({ message }) => (endReply(), push("user", { text: message, at: time, isSteering: true })),
    text: ({ text }) => grow("text", text),
    thinking: ({ text }) => grow("thinking", text),
    replied: ({ error }) => {
      endReply();
      if (error) push("note", { text: error, tone: "bad" });
    },
    retrying: ({ error, seconds }) => {
      if (reply) Object.assign(reply, { text: "", thinking: "" });
      endReply();
      push("note", { text: `${error} · ${seconds} s`, tone: "warn" });
    },
    tool_started: ({ id, tool, args, verdict, label }) =>
      calls.set(id, push("call", { id, tool, args, verdict, label, status: "running", text: "", startedAt: time })),
    tool_progress: ({ id, result }) => update(id, { live: readText(result), pictures: readPictures(result) }),
    tool_finished: ({ id, result, markdown }) =>
      update(id, {
        status: result.status,
        text: readText(result),
        display: result.display,
        markdown,
        details: result.details,
        pictures: readPictures(result),
        isBlind: UNSEEN.test(readText(result)),
        source: result.content.find(({ source }) => source)?.source,
        endedAt: time,
      }),
    warned: ({ sentence }) => push("note", { text: sentence, tone: "warn" }),
    compacted: ({ before, after }) => push("note", { compacted: { before, after }, tone: "soft" }),
    turn_finished: (end) => {
      endReply();
      if (end.reason !== "done")
        push("note", { text: end.sentence || end.reason, tone: end.reason === "stopped" ? "soft" : "bad" });
    },
  };
  const update = (id, told) => {
    const call = calls.get(id);
    if (call) changed(Object.assign(call, told), false);
  };
  return (event, at = Date.now()) => ((time = at), takes[event.type]?.(event));
}

const readText = ({ content }) =>
  content
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("\n");
const readPictures = ({ content }) => content.filter(({ type }) => type === "image");
