// The page: who is signed in, which view is open, and what is said everywhere.

import { watchApprovals } from "./approvals.js";
import { h, icon, openDialog, put } from "./dom.js";
import { pageKey, readCode, signIn, signOut } from "./login.js";
import { Gateway } from "./rpc.js";
import { choose, language, languages, load, t } from "./words.js";

const VIEWS = ["chat", "who", "now", "record", "usage", "settings", "canvas"];
const gateway = new Gateway();
const app = { gateway, t, go, say, VIEWS };

let shell = null; // what stands on the page while somebody is signed in: {root, main, banner, said, links}
let approvals = null;
let unmount = () => {};
const loaded = new Set(); // views that were shown: a browser never asks again for a module that it was not given
let silence = 0; // the timer that takes away what was said in passing
let opened = 0; // how many views were opened: one that loads slowly must not replace the next

// Go to another view, by its address: "#/chat/main".
function go(hash) {
  if (location.hash === hash) openView();
  else location.hash = hash;
}

// Say something in passing, also to a screen reader.
function say(text) {
  if (shell === null) return;
  shell.said.textContent = text;
  clearTimeout(silence);
  silence = setTimeout(() => shell && (shell.said.textContent = ""), 6000);
}

function readRoute() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return { name: VIEWS.includes(name) ? name : "chat", rest: rest.map(decodeSafely) };
}

function decodeSafely(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed a lone percent sign
  }
}

async function openView() {
  if (shell === null) return;
  const { name, rest } = readRoute(),
    mine = ++opened;
  for (const link of shell.links) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${t(`nav.${name}`)} · ${t("app.name")}`;
  try {
    if (gateway.state !== "open" && !loaded.has(name)) throw new Error(t("app.lost"));
    const view = await import(`./views/${name}.js`);
    loaded.add(name);
    if (mine !== opened || shell === null) return;
    unmount();
    unmount = () => {};
    const root = h("div", { class: `view ${name}`, data: { view: name } });
    put(shell.main, root);
    if (mine > 1) shell.main.focus(); // whoever comes by the keyboard goes on from here
    unmount = view.mount(root, app, rest) ?? (() => {});
  } catch (error) {
    if (mine !== opened || shell === null) return;
    put(shell.main, h("p", { class: "failed", role: "alert" }, t("app.failed", { error: error.message })));
  }
}

function drawShell() {
  const links = VIEWS.map((name) =>
    h("a", { href: `#/${name}`, data: { view: name } }, icon(name), h("span", {}, t(`nav.${name}`))),
  );
  const main = h("main", { id: "main", tabIndex: -1 });
  const banner = h("div", { class: "banner", role: "status", hidden: true });
  const said = h("div", { class: "said", role: "status", "aria-live": "polite" });
  const skip = h(
    "a",
    { class: "skip", href: "#main", onclick: (event) => (event.preventDefault(), main.focus()) },
    t("app.skip"),
  );
  const head = h(
    "header",
    {},
    h("span", { class: "brand" }, t("app.name")),
    h("nav", { "aria-label": t("app.views") }, links),
    drawMenu(),
  );
  approvals?.stop();
  approvals = watchApprovals(app);
  head.insertBefore(approvals.button, head.lastChild);
  shell = { main, banner, said, links };
  document.body.replaceChildren(skip, head, banner, main, said);
  showState(gateway.state);
  openView();
}

function drawMenu() {
  const themes = ["auto", "light", "dark"].map((each) =>
    h("option", { value: each, selected: each === readTheme() }, t(`app.theme.${each}`)),
  );
  const tongues = Object.entries(languages).map(([id, name]) =>
    h("option", { value: id, lang: id, selected: id === language() }, name),
  );
  const redraw = async (chosen) => (await choose(chosen), closeView(), drawShell());
  return h(
    "details",
    { class: "menu" },
    h("summary", { "aria-label": t("app.menu") }, icon("more")),
    h(
      "div",
      { class: "sheet" },
      h("label", {}, t("app.theme"), h("select", { onchange: ({ target }) => setTheme(target.value) }, themes)),
      h("label", {}, t("app.language"), h("select", { onchange: ({ target }) => redraw(target.value) }, tongues)),
      h("button", { onclick: showKeys }, t("app.shortcuts")),
      h("button", { onclick: leave }, t("app.logout")),
    ),
  );
}

// Keys that count wherever nobody is writing; a view hears of the others by the event `shortcut`.
function onKey(event) {
  if (event.key === "Escape" && !event.target.closest("dialog")) return closeMenus(event.target);
  const isWriting = event.target.closest("input, textarea, select, dialog, [contenteditable]");
  if (isWriting || shell === null || event.ctrlKey || event.altKey || event.metaKey || !hasKeys()) return;
  if (event.key === "?") showKeys();
  else if (event.key === "a") approvals.open();
  else if (VIEWS[event.key - 1]) go(`#/${VIEWS[event.key - 1]}`);
  else if (/^[a-z]$/.test(event.key)) document.dispatchEvent(new CustomEvent("shortcut", { detail: event.key }));
  else return;
  event.preventDefault();
}

// Close the menus that hold nothing of `target`; with Escape the focus goes back to what opened them.
function closeMenus(target, isEscape = true) {
  for (const menu of /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll(".menu[open]"))) {
    if (isEscape && menu.contains(target)) menu.querySelector("summary").focus();
    if (isEscape || !menu.contains(target)) menu.open = false;
  }
}

function hasKeys() {
  return localStorage.getItem("toolcrib.keys") !== "off";
}

function showKeys() {
  closeMenus(document.body);
  const keys = {
    "?": "help",
    [`1 … ${VIEWS.length}`]: "views",
    c: "write",
    n: "new",
    s: "search",
    a: "approvals",
    Enter: "send",
    "Shift+Enter": "line",
    "Alt+Enter": "then",
    Esc: "escape",
  };
  const rows = Object.entries(keys).map(([key, word]) => [
    h("dt", {}, h("kbd", {}, key)),
    h("dd", {}, t(`keys.${word}`)),
  ]);
  const save = ({ target }) => localStorage.setItem("toolcrib.keys", target.checked ? "on" : "off");
  openDialog(
    { class: "small", "aria-labelledby": "keys" },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "keys" }, t("app.shortcuts")),
      h("dl", { class: "shortcuts" }, rows),
      h(
        "label",
        { class: "row" },
        h("input", { type: "checkbox", checked: hasKeys(), onchange: save }),
        t("app.keys.on"),
      ),
      h("div", { class: "row end" }, h("button", { class: "main" }, t("app.close"))),
    ),
  );
}

function readTheme() {
  return localStorage.getItem("toolcrib.theme") ?? "auto";
}

function setTheme(theme) {
  localStorage.setItem("toolcrib.theme", theme);
  document.documentElement.dataset.theme = theme;
}

function closeView() {
  opened++;
  unmount();
  unmount = () => {};
}

// Show nothing but a way in: whoever is signed out sees nothing of before.
function drawSignIn(why) {
  closeView();
  document.dispatchEvent(new Event("signout")); // who comes next is somebody else, perhaps
  approvals?.stop();
  approvals = shell = null;
  const token = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
  const submit = (event) => {
    event.preventDefault();
    const given = token.value.trim(),
      at = given.indexOf("#code=");
    if (at < 0) gateway.open(given);
    else location.hash = given.slice(at); // the whole address was pasted
  };
  document.title = t("app.name");
  document.body.replaceChildren(
    h(
      "main",
      { class: "signin" },
      h("h1", {}, t("app.name")),
      h("p", { role: "alert" }, why),
      h("p", {}, t("app.signin.how")),
      h(
        "form",
        { onsubmit: submit },
        h("label", { htmlFor: "token" }, t("app.token")),
        token,
        h("button", { class: "main" }, t("app.signin")),
      ),
    ),
  );
  token.focus();
}

function showState(state) {
  const reason = /^unauthorized: .*_(missing|mismatch|limited)$/.exec(gateway.why)?.[1];
  if (state === "out") return drawSignIn(reason ? t(`app.out.${reason}`) : gateway.why || t("app.out"));
  if (state === "open" && shell === null) return drawShell();
  if (shell === null && state === "lost")
    // somebody waits to be let in
    document.querySelector(".signin [role=alert], .connecting")?.replaceChildren(t("app.lost"));
  if (shell === null) return;
  const isOpen = state === "open";
  if (isOpen && !shell.banner.hidden) {
    say(t("app.found"));
    if (!shell.main.querySelector(".view")) openView(); // it waits to be loaded
  }
  shell.banner.hidden = isOpen;
  shell.banner.textContent = isOpen ? "" : t("app.lost");
}

async function leave() {
  gateway.close();
  await signOut().catch(() => {}); // who typed a token has no cookie to end
}

// Take the code in the address, where there is one, and connect.
async function enter() {
  const [why] = await Promise.all([
    signIn().then(
      () => "",
      ({ message }) => message,
    ),
    load(),
  ]);
  if (gateway.state === "open") return openView();
  if (why && !pageKey()) return drawSignIn(why); // with an old code, who is signed in stays so
  if (!shell) document.body.replaceChildren(h("p", { class: "connecting", role: "status" }, t("app.connecting")));
  gateway.open();
}

document.documentElement.dataset.theme = readTheme();
gateway.on("state", showState);
window.addEventListener("hashchange", () => (readCode(location.hash) ? enter() : openView()));
document.addEventListener("keydown", onKey);
document.addEventListener("click", ({ target }) => closeMenus(target, false));
enter();
