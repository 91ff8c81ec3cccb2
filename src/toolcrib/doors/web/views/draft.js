// The configuration as somebody changes it: one draft for the views that show it, in memory alone.

import { h } from "../dom.js";

const draft = { told: null, text: "" }; // what config.get told, and what was made of its text
const LINE = 19; // pixels, as the sheet has it

document.addEventListener("signout", () => Object.assign(draft, { told: null, text: "" }));
window.addEventListener("beforeunload", (event) => {
  if (isChanged()) event.preventDefault();
});

export const isChanged = () => draft.told !== null && draft.told.raw !== null && draft.text !== draft.told.raw;

// Return what the gateway told, asked anew where nothing was changed here. A draft is never lost by that.
export async function loadDraft(gateway, { isAnew = false } = {}) {
  if (draft.told === null || isAnew || !isChanged()) {
    const wasChanged = isChanged(),
      told = await gateway.ask("config.get", { text: true });
    draft.told = told;
    if (!wasChanged) draft.text = told.raw ?? "";
  }
  return draft;
}

export function dropDraft() {
  draft.text = draft.told?.raw ?? "";
}

// What was saved is what counts now, and is told anew: a secret that was just typed is left out of it from here on.
export async function settleDraft(gateway) {
  dropDraft();
  await loadDraft(gateway);
}

// Draw the text with the numbers of its lines; `onmove` hears where the caret is, `onedit` that it was changed.
export function drawEditor(t, { onmove = undefined, onedit = undefined } = {}) {
  const lines = h("pre", { class: "lines", "aria-hidden": "true" });
  const props = { "aria-label": t("settings.text"), spellcheck: "false", autocapitalize: "off", wrap: "off" };
  const area = h("textarea", { ...props, value: draft.text, readonly: draft.told.raw === null });
  const number = () => {
    const count = area.value.split("\n").length;
    if (lines.childElementCount === 0 && lines.dataset.count === String(count)) return;
    lines.dataset.count = count;
    lines.textContent = Array.from({ length: count }, (_, at) => at + 1).join("\n");
  };
  const moved = () => onmove?.(area.value, area.selectionStart);
  area.addEventListener("input", () => {
    draft.text = area.value;
    number();
    onedit?.();
    moved();
  });
  area.addEventListener("scroll", () => (lines.scrollTop = area.scrollTop));
  for (const event of ["keyup", "click", "focus"]) area.addEventListener(event, moved);
  number();
  const editor = h("div", { class: "editor" }, lines, area);
  // Go to a line: it is selected, and in sight.
  editor.goTo = (line) => {
    const rows = area.value.split("\n"),
      at = Math.min(Math.max(line, 1), rows.length) - 1;
    const start = rows.slice(0, at).reduce((sum, row) => sum + row.length + 1, 0);
    area.focus();
    area.setSelectionRange(start, start + rows[at].length);
    area.scrollTop = Math.max(0, at * LINE - area.clientHeight / 2);
    moved();
  };
  editor.take = () => {
    area.value = draft.text;
    number();
  };
  return editor;
}

// Return the keys that lead to a place in a text: ["tools", "deny"]. It is help for a reader, not a parser.
export function findPath(text, at, suffix) {
  if (/^\.?json5?$/.test(suffix)) return followBraces(text.slice(0, at), text.slice(at).match(/^[^\n]*/)[0]);
  const before = text.slice(0, at).split("\n"),
    line = before.at(-1) + text.slice(at).match(/^[^\n]*/)[0];
  if (/toml$/.test(suffix)) {
    const head = before.findLast((row) => /^\s*\[/.test(row))?.match(/^\s*\[+([^\]]*)/)?.[1] ?? "";
    const key = /^\s*\[/.test(line) ? "" : (line.match(/^\s*([\w."'-]+)\s*=/)?.[1] ?? "");
    return [head, key].filter(Boolean).flatMap((part) => part.split(".").map(strip));
  }
  const found = [];
  let inner = Infinity;
  for (const row of [line, ...before.slice(0, -1).reverse()]) {
    const [, space, key] = row.match(/^((?:\s|- )*)("[^"]*"|'[^']*'|[^\s#{}[\],&*!|>'"%@`][^:{}[\]]*):(?:\s|$)/) ?? [];
    if (key === undefined || space.length >= inner) continue;
    found.unshift(strip(key));
    inner = space.length;
    if (inner === 0) break;
  }
  const value = before.at(-1).match(/[{[].*$/s)?.[0];
  return value ? [...found, ...followBraces(value, line.slice(before.at(-1).length))] : found;
}

const COMMENT = /(\/\/[^\n]*|\/\*.*?(?:\*\/|$)|#[^\n]*)/.source,
  MARK = /([{}[\],:])/.source;
const QUOTED = /("(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?)/.source,
  WORD = /([^\s{}[\],:"'/#]+)/.source;
const TOKEN = new RegExp([COMMENT, QUOTED, WORD, MARK].join("|"), "gs");

function followBraces(text, rest) {
  const open = [];
  let key = null;
  for (const [token, comment, quoted, word, mark] of text.matchAll(TOKEN)) {
    if (comment) continue;
    if (quoted ?? word) key ??= strip(token);
    else if (mark === "{" || mark === "[") {
      open.push(key ?? "");
      key = null;
    } else if (mark === "}" || mark === "]") {
      open.pop();
      key = null;
    } else if (mark === ",") key = null;
  }
  const next = key ?? rest.match(/^\s*["']?([\w$.*-]+)["']?\s*:/)?.[1];
  return [...open, next ?? ""].filter(Boolean);
}

const strip = (word) => word.trim().replace(/^["']|["']$/g, "");

// Return what the schema says of a key, following references; null where it says nothing.
export function findSchema(schema, path) {
  let at = resolve(schema, schema);
  for (const key of path) {
    const ways = [at, ...(at?.anyOf ?? []).map((each) => resolve(schema, each))];
    const inside = ways.map((each) => stepInto(each, key)).find(Boolean);
    if (!inside) return null;
    at = resolve(schema, inside);
  }
  return at;
}

function resolve(schema, at) {
  return at?.$ref ? { ...schema.$defs?.[at.$ref.split("/").at(-1)], ...at, $ref: undefined } : at;
}

function stepInto(at, key) {
  const others = typeof at?.additionalProperties === "object" ? at.additionalProperties : null;
  return at?.properties?.[key] ?? others ?? (at?.items?.$ref || at?.items?.properties ? at.items : null);
}
