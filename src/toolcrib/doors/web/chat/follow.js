// What is said in one session, from its history and from the runs that go on, each event once and in order.
//
// A run that may still go on is taken from its events alone: the history is cut where it begins. Runs that begin later
// are heard of by the event `agent`, and followed one after the other. After a lost gateway all of it is read again.

import { makeReader, readMessages } from "../transcript.js";

const PAGE = 300; // messages that are asked for at once
const PAUSE_MS = 40; // between two questions: what comes meanwhile comes together
const pending = new Map(); // questions that wait: a run that is left and opened again is not asked about twice

function askFollow(gateway, params) {
  const key = JSON.stringify(params);
  if (!pending.has(key))
    pending.set(
      key,
      gateway.ask("chat.follow", params).finally(() => pending.delete(key)),
    );
  return pending.get(key);
}

// Follow a session; `told` hears {reset}, {item, isNew, run}, {before}, {running} and {error}.
export function followSession(gateway, session, told) {
  let generation = 0,
    first = 0,
    isLoading = false;
  let key = session.startsWith("agent:") ? session : `agent:main:${session}`; // until the gateway has said it
  let runs = [],
    isFollowing = false,
    begins = null;
  const own = new Set(); // runs that began here, whatever the session is called
  const known = new Set(); // runs that are told, or will be

  const askHistory = (before) =>
    gateway.ask("chat.history", { sessionKey: session, limit: PAGE, pictures: true, ...(before ? { before } : {}) });

  async function sync() {
    const mine = ++generation;
    runs = [];
    begins = null;
    known.clear();
    isFollowing = true; // what begins meanwhile waits behind the history
    try {
      const latest = await askFollow(gateway, { sessionKey: session, runId: "", after: 0 }).catch(isMissing);
      const isLive = latest && !latest.done,
        find = (ids) => messages.findIndex(({ runId }) => ids.includes(runId));
      let page = await askHistory().catch(isMissing),
        messages = page?.messages ?? [];
      while (isLive && page?.first && find([latest.runId]) < 0) {
        // it has said more than a page holds
        page = await askHistory(page.first);
        messages = [...page.messages, ...messages];
      }
      const past = latest ? null : messages.findLast(({ role }) => role === "user")?.runId; // which a restart ended?
      const ended = past && (await askFollow(gateway, { sessionKey: session, runId: past, after: 0 }).catch(isMissing));
      if (mine !== generation) return;
      key = page?.sessionKey ?? key;
      first = page?.first ?? 0;
      if (latest && (isLive || find([latest.runId]) >= 0) && !known.has(latest.runId)) runs.unshift(latest.runId);
      if (latest) known.add(latest.runId);
      const at = find(runs); // also of one that began meanwhile
      const isShort = isLive && at < 0 && !messages.some(({ runId }) => runId); // its own, but for a summary
      const before = isShort ? messages.slice(0, 1) : at < 0 ? messages : messages.slice(0, at);
      told({ reset: readMessages(before, first), key, hasMore: first > 0 });
      if (ended?.done && ended.events.length === 1) makeReader((item, isNew) => told({ item, isNew }))(ended.events[0]);
      if (at >= 0) begins = { run: messages[at].runId, ...readMessages([messages[at]], first + at)[0] };
    } catch (error) {
      if (mine === generation && error.code !== "OUT") told({ error });
      return;
    }
    isFollowing = false;
    followNext(mine);
  }

  async function followNext(mine) {
    if (isFollowing || mine !== generation) return;
    const run = runs.shift();
    if (run === undefined) return told({ running: "" });
    isFollowing = true;
    told({ running: run });
    const blind = new Set(); // calls whose pictures are not seen yet
    const take = makeReader((item, isNew) => {
      // events tell words; the pictures and the time of what began the run stand in the history
      if (isNew && item.kind === "user" && begins?.run === run) {
        const { pictures, at, number } = begins;
        Object.assign(item, { pictures, at, number });
        begins = null;
      }
      if (item.isBlind) blind.add(item);
      told({ item, isNew, run });
    });
    try {
      for (let after = 0, isDone = false; !isDone; ) {
        const page = await askFollow(gateway, { sessionKey: session, runId: run, after });
        if (mine !== generation) return;
        page.events.forEach((event, at) => take(event, page.times?.[at]));
        ({ after, done: isDone } = page);
        if (blind.size) await showPictures(blind, run);
        if (!isDone) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    } catch (error) {
      if (mine !== generation) return;
      if (error.code !== "OUT" && error.code !== "not_found") told({ error });
    }
    isFollowing = false;
    followNext(mine);
  }

  // Events carry no pictures; the history does, as soon as it has the call's answer.
  async function showPictures(blind, run) {
    const { messages } = await gateway.ask("chat.history", { sessionKey: session, limit: 40, pictures: true });
    const found = new Map(
      messages.map((each) => [each.toolCallId, each.content.filter(({ type }) => type === "image")]),
    );
    for (const item of [...blind].filter(({ id }) => found.has(id))) {
      blind.delete(item);
      told({ item: Object.assign(item, { pictures: found.get(item.id), isBlind: false }), isNew: false, run });
    }
  }

  function hear({ runId, sessionKey, stream, data }) {
    if (own.has(runId)) key = sessionKey;
    if (sessionKey !== key || stream !== "lifecycle" || data.phase !== "start" || known.has(runId)) return;
    known.add(runId);
    runs.push(runId);
    followNext(generation);
  }

  // What was said by a run that nobody can follow: it stands in the history now.
  function hearAnswer({ runId, sessionKey, state }) {
    if (sessionKey === key && state !== "delta" && !known.has(runId)) sync();
  }

  async function loadMore() {
    if (isLoading || first === 0) return;
    isLoading = true;
    const mine = generation;
    try {
      const page = await askHistory(first);
      if (mine !== generation) return;
      first = page.messages.length ? page.first : 0;
      told({ before: readMessages(page.messages, page.first), hasMore: first > 0 });
    } catch (error) {
      if (mine === generation && error.code !== "OUT") told({ error });
    } finally {
      isLoading = false;
    }
  }

  // Return the number of the message that a run began with: its events do not tell it.
  async function findNumber(run, before) {
    const { messages, first: from } = await askHistory(before),
      at = messages.findIndex(({ runId }) => runId === run);
    return at >= 0 || !from ? from + at : findNumber(run, from);
  }

  const stops = [
    gateway.on("agent", hear),
    gateway.on("chat", hearAnswer),
    gateway.on("state", (state) => state === "open" && sync()),
  ];
  if (gateway.state === "open") sync();
  return {
    loadMore,
    findNumber,
    expect: (run) => own.add(run),
    stop() {
      generation++;
      stops.forEach((each) => each());
    },
  };
}

// A session in which nothing was said yet, and one without a run, are no mistakes.
function isMissing(error) {
  if (error.code === "not_found") return null;
  throw error;
}
