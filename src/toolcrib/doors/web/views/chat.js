// Chat: the sessions at the side, what is said in one of them, and where something is said.

import { drawComposer } from "../chat/composer.js";
import { followSession } from "../chat/follow.js";
import { drawRow } from "../chat/rows.js";
import { drawSessions, nameSession } from "../chat/sessions.js";
import { h, icon } from "../dom.js";
import { makeId } from "../rpc.js";
import { makeList } from "../virtual.js";

const SLOWEST = 5; // a long answer that grows is drawn again in a fifth of the time at most

export function mount(root, app, [session = "main"]) {
  const { gateway, t } = app;
  let items = [],
    key = session,
    running = "",
    waiting = []; // waiting: what was sent and not heard of yet
  let hasMore = false,
    unsent = ""; // why what was said last was not taken: it stands until something else is said
  const chat = { app, session: () => key, speak: null, branch: gateway.may("operator.admin") && branch };
  const dirty = new Map(); // items that have to be drawn again, and when at the earliest

  const loadMore = () => hasMore && follower.loadMore();
  const list = makeList({ label: t("chat.conversation"), draw: drawTimed, wantsMore: loadMore });
  const toEnd = h("button", { class: "to-end", hidden: true, onclick: list.toEnd }, icon("down"), t("chat.newest"));
  const empty = h("p", { class: "empty soft", hidden: true }, t("chat.empty"));
  const failed = h("p", { class: "failed", role: "alert", hidden: true });
  const heard = h("div", { class: "unseen", role: "status" });
  const player = h("audio");
  const stop = () => gateway.ask("chat.abort", { sessionKey: session }).catch(({ message }) => app.say(message));
  const composer = drawComposer(app, { session, send, stop });
  const title = h("h1", { dir: "auto" });
  const side = drawSessions(app, () => key, showName);
  const toggle = h(
    "button",
    {
      class: "bare side-toggle",
      "aria-label": t("chat.sessions"),
      "aria-expanded": "false",
      onclick: () => toggle.setAttribute("aria-expanded", String(root.classList.toggle("side-open"))),
    },
    icon("side"),
  );
  const drag = { ondragover: composer.onDrag, ondrop: composer.onDrag };
  root.append(
    side.element,
    h(
      "section",
      { class: "conversation", "aria-label": t("chat.conversation"), ...drag },
      h("div", { class: "head row" }, toggle, title),
      failed,
      empty,
      list.element,
      toEnd,
      heard,
      composer.element,
    ),
    player,
  );

  const follower = followSession(gateway, session, take);
  list.element.addEventListener("scroll", () => (toEnd.hidden = list.isAtEnd()));
  if (matchMedia("(pointer: fine)").matches) composer.focus(); // elsewhere it would open a keyboard
  offerSpeech();

  function drawTimed(item) {
    const began = performance.now(),
      row = drawRow(item, chat);
    item.drawMs = performance.now() - began;
    return row;
  }

  // Until it is listed, a session is called by its key, and one that was made here is new.
  function showName(row = { key: /^agent:main:page-\w{8}$/.test(key) ? t("chat.new") : key }) {
    title.textContent = nameSession(row);
    title.title = key;
  }

  function take(told) {
    if (told.error) showFailure(told.error.message);
    if (told.reset) {
      items = told.reset;
      key = told.key;
      showName();
      showFailure(unsent);
      ({ hasMore } = told);
      side.refresh();
      show();
    }
    if (told.before) {
      items = [...told.before, ...items];
      ({ hasMore } = told);
      show();
    }
    if (told.item) takeItem(told);
    if (told.running !== undefined) setRunning(told.running);
  }

  function showFailure(why) {
    failed.hidden = !why;
    if (failed.textContent !== why) failed.textContent = why; // what is set again is read out again
  }

  function takeItem({ item, isNew, run }) {
    if (!isNew) return redrawSoon(item);
    items.push(item);
    if (item.kind === "user") {
      if (items.length > 1 && !item.isSteering) item.run = run; // that it can be branched from before it
      const at = waiting.findIndex((each) => each.run === run || each.text.trim() === item.text.trim());
      if (at >= 0) item.pictures ??= waiting[at].pictures;
      if (at >= 0) waiting.splice(at, 1);
    }
    show();
  }

  function setRunning(run) {
    if (running && !run) {
      waiting = waiting.filter((each) => !each.isSent);
      const last = items.findLast(({ kind }) => kind === "reply");
      heard.textContent = last ? t("chat.answered", { text: last.text.slice(0, 200) }) : "";
    }
    running = run;
    composer.setRunning(Boolean(run));
    show();
  }

  let isDue = false;
  function show() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      const all = [...items, ...waiting];
      empty.hidden = all.length > 0;
      list.set(all);
    });
  }

  function redrawSoon(item) {
    if (dirty.has(item)) return;
    dirty.set(item, performance.now() + (item.drawMs ?? 0) * SLOWEST);
    requestAnimationFrame(redraw);
  }

  function redraw() {
    for (const [item, earliest] of dirty) {
      if (item.isLive && performance.now() < earliest) continue;
      dirty.delete(item);
      list.refresh(item);
    }
    if (dirty.size) requestAnimationFrame(redraw);
  }

  async function send({ message, attachments, queue }) {
    const run = makeId();
    const pictures = attachments.map(({ content, mimeType }) => ({ data: content, mimeType }));
    const item = { key: `w${run}`, kind: "user", text: message, pictures, isPending: true, run };
    waiting = [...waiting, item];
    showFailure((unsent = ""));
    follower.expect(run);
    list.toEnd();
    show();
    try {
      const told = await gateway.ask("chat.send", {
        message,
        attachments,
        sessionKey: session,
        idempotencyKey: run,
        queue,
      });
      item.isSent = true;
      if (told.status === "ok" || told.status === "error") drop(item); // /stop, or answered before
      if (told.summary) app.say(told.summary);
      return true;
    } catch (error) {
      drop(item);
      showFailure((unsent = error.message));
      if (!root.isConnected) app.say(error.message); // in another view by now
      return false;
    }
  }

  // Go on in another session from before something that was said.
  async function branch({ number, run }) {
    try {
      const before = number ?? (await follower.findNumber(run));
      const { key: made } = await gateway.ask("sessions.branch", { key, before });
      app.go(`#/chat/${encodeURIComponent(made)}`);
    } catch (error) {
      app.say(error.message);
    }
  }

  function drop(item) {
    waiting = waiting.filter((each) => each !== item);
    show();
  }

  async function offerSpeech() {
    if (!gateway.has("tts.convert") || !gateway.may("operator.admin")) return;
    const { enabled } = await gateway.ask("tts.status").catch(() => ({ enabled: false })); // then nobody speaks here
    if (!enabled) return;
    chat.speak = speak;
    items.forEach(list.refresh);
  }

  async function speak(text) {
    try {
      const { base64, outputFormat } = await gateway.ask("tts.convert", { text: text.slice(0, 4000), keep: false });
      const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
      const type = { mp3: "audio/mpeg", opus: "audio/ogg", wav: "audio/wav" }[outputFormat] ?? `audio/${outputFormat}`;
      URL.revokeObjectURL(player.src);
      player.src = URL.createObjectURL(new Blob([bytes], { type }));
      await player.play();
    } catch (error) {
      app.say(error.message);
    }
  }

  const keys = { n: side.openNew, s: side.focusSearch, c: composer.focus };
  const onKey = (/** @type {CustomEvent} */ { detail }) => keys[detail]?.();
  document.addEventListener("shortcut", onKey);
  return () => {
    document.removeEventListener("shortcut", onKey);
    follower.stop();
    side.stop();
    composer.stop();
    list.stop();
    player.pause();
    dirty.clear();
  };
}
