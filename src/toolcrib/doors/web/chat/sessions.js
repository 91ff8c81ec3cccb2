// The sessions at the side: searched, opened, renamed, branched, deleted.

import { ask, h, icon, put } from "../dom.js";
import { makeId } from "../rpc.js";

const SEARCH_MS = 200,
  REFRESH_MS = 1500,
  PAGE = 60;
let searched = ""; // it stays when another session is opened
document.addEventListener("signout", () => (searched = ""));

// Return the side; `current` tells which session is shown, and `named` hears what it is called.
export function drawSessions(app, current, named) {
  const { gateway, t } = app;
  const list = h("ul", { class: "sessions" });
  const search = h("input", {
    type: "search",
    value: searched,
    placeholder: t("chat.search"),
    "aria-label": t("chat.search"),
    oninput: () => later(SEARCH_MS),
  });
  const element = h(
    "aside",
    { "aria-label": t("chat.sessions") },
    h(
      "div",
      { class: "row" },
      h("div", { class: "grow" }, search),
      h("button", { "aria-label": t("chat.new"), title: t("chat.new"), onclick: openNew }, icon("plus")),
    ),
    list,
  );
  let timer = 0,
    asked = 0,
    isStopped = false,
    drawn = "",
    limit = PAGE;

  function openNew() {
    app.go(`#/chat/page-${makeId().slice(0, 8)}`);
  }

  function later(ms) {
    clearTimeout(timer);
    timer = setTimeout(refresh, ms);
  }

  async function refresh() {
    const mine = ++asked;
    searched = search.value;
    try {
      const told = await gateway.ask("sessions.list", {
        search: search.value.trim(),
        limit,
        includeDerivedTitles: true,
      });
      if (mine === asked && !isStopped) drawList(told.sessions);
    } catch (error) {
      if (mine !== asked || isStopped || error.code === "OUT") return;
      drawn = "";
      put(list, h("li", { class: "failed" }, error.message));
    }
  }

  // Nothing is drawn that has not changed, and whoever has the focus in the list keeps it.
  function drawList(sessions) {
    named(sessions.find(({ key }) => key === current()));
    const now = JSON.stringify([
      current(),
      sessions.map(({ key, title, derivedTitle, running }) => [key, title, derivedTitle, running]),
    ]);
    if (now === drawn || list.querySelector(".menu[open]")?.contains(document.activeElement)) return;
    drawn = now;
    const isWithin = list.contains(document.activeElement);
    const from = isWithin && document.activeElement.closest("li").querySelector("a")?.href;
    put(
      list,
      sessions.length ? sessions.map(drawSession) : search.value && h("li", { class: "soft" }, t("chat.none")),
      sessions.length >= limit &&
        h("li", {}, h("button", { onclick: () => ((limit += PAGE), refresh()) }, t("record.older"))),
    );
    if (isWithin) ([...list.querySelectorAll("a")].find((each) => each.href === from) ?? search).focus();
  }

  function drawSession(row) {
    const name = nameSession(row),
      isCurrent = row.key === current();
    const act =
      (change) =>
      async ({ target }) => {
        try {
          if ((await change(row)) === false) return;
          const menu = target.closest("details");
          menu.firstElementChild.focus();
          menu.open = false; // which reads the list again
        } catch (error) {
          app.say(error.message);
        }
      };
    const actions = [
      ["rename", rename],
      ["branch", branch],
      ["delete", remove],
    ].map(([word, change]) =>
      h("button", { class: word === "delete" ? "danger" : null, onclick: act(change) }, t(`chat.${word}`)),
    );
    return h(
      "li",
      { class: isCurrent ? "current" : null },
      h(
        "a",
        {
          href: `#/chat/${encodeURIComponent(row.key)}`,
          "aria-current": isCurrent ? "true" : null,
          title: row.key,
          dir: "auto",
        },
        h("span", { class: "name" }, name),
        row.running && h("span", { class: "chip" }, t("chat.running")),
      ),
      gateway.may("operator.admin") &&
        h(
          "details",
          { class: "menu", name: "session", ontoggle: ({ target }) => target.open || refresh() },
          h("summary", { "aria-label": t("chat.actions", { name }) }, icon("more")),
          h("div", { class: "sheet" }, actions),
        ),
    );
  }

  async function rename(row) {
    const label = await ask(t, t("chat.rename.to"), { value: row.title, yes: t("chat.rename") });
    if (label === null) return false;
    await gateway.ask("sessions.patch", { key: row.key, label });
  }

  async function branch(row) {
    const { key } = await gateway.ask("sessions.branch", { key: row.key });
    const label = t("chat.branch.of", { name: nameSession(row) }).slice(0, 64);
    await gateway.ask("sessions.patch", { key, label });
    app.go(`#/chat/${encodeURIComponent(key)}`);
  }

  async function remove(row) {
    const question = t("chat.delete.sure", { name: nameSession(row) });
    if ((await ask(t, question, { yes: t("chat.delete") })) === null) return false;
    await gateway.ask("sessions.delete", { key: row.key });
    if (row.key === current()) app.go("#/chat/main");
  }

  const stops = [
    gateway.on("chat", ({ state }) => state !== "delta" && later(REFRESH_MS)),
    gateway.on("agent", ({ stream, data }) => stream === "lifecycle" && data.phase === "start" && later(REFRESH_MS)),
    gateway.on("state", (state) => state === "open" && refresh()),
  ];
  refresh();
  return {
    element,
    refresh,
    openNew,
    focusSearch: () => search.focus(),
    stop() {
      isStopped = true;
      clearTimeout(timer);
      stops.forEach((each) => each());
    },
  };
}

// Return what a session is called: what somebody called it, how it began, or its key.
/** @param {{key: string, derivedTitle?: string, title?: string}} row */
export const nameSession = ({ title, derivedTitle, key }) => title || derivedTitle || key.replace(/^agent:main:/, "");
