// What the views are made of: tables, fields, notes, pictures. All by nodes, so that text stays text.

import { h, s, writeJson } from "../dom.js";
import { formatTime, t as say } from "../words.js";

const ROWS_SHOWN = 200; // of a long table; a button brings more

// The sheet of these views is not needed for the first one; who opens one waits for it, so that nothing jumps.
await new Promise((done) => {
  const href = new URL("views.css", import.meta.url).href;
  document.head.append(h("link", { rel: "stylesheet", href, onload: done, onerror: done }));
});

// Make a table; `columns` are [heading, (row) => cell, class].
export function table(t, caption, columns, rows) {
  if (!rows.length) return h("p", { class: "soft" }, t("views.nothing"));
  const body = h("tbody"),
    more = button("", () => grow());
  const grow = () => {
    const from = body.children.length;
    body.append(
      ...rows.slice(from, from + ROWS_SHOWN).map((row) =>
        h(
          "tr",
          {},
          columns.map(([, cell, name], at) =>
            h(at ? "td" : "th", { class: name, scope: at ? null : "row" }, cell(row)),
          ),
        ),
      ),
    );
    const left = rows.length - body.children.length;
    more.hidden = left === 0;
    more.textContent = t("views.more", { count: left });
  };
  grow();
  const heads = columns.map(([word, , name]) => h("th", { scope: "col", class: name }, word));
  return scroller(caption, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, heads)), body), more);
}

// What may be wider than the page is scrolled by itself, also with the keyboard.
export function scroller(name, ...children) {
  return h("div", { class: "spread", tabIndex: 0, role: "region", "aria-label": name }, children);
}

export function field(label, control, help) {
  return h("label", { class: "field" }, h("span", {}, label), control, help && h("small", { class: "soft" }, help));
}

export function input(name, value, props) {
  return h("input", { name, autocomplete: "off", spellcheck: "false", maxlength: 512, value: value ?? "", ...props });
}

// Make a choice; `options` are [value, word].
export function select(name, options, chosen, props) {
  const made = options.map(([value, word]) => h("option", { value, selected: value === chosen }, word));
  return h("select", { name, ...props }, made);
}

export function button(word, act, props) {
  return h("button", { type: "button", onclick: act, ...props }, word);
}

// Make a part of a view under its heading.
export function section(title, ...children) {
  return h("section", { class: "part" }, h("h2", {}, title), children);
}

export function badge(word, kind = "") {
  return h("span", { class: `badge ${kind}` }, word);
}

const KINDS = { allow: "good", deny: "bad", ask: "warn" };
export const colourOf = (decision) => KINDS[decision] ?? "soft";

// Say what was decided: by a word, and by a colour for who sees one.
export function verdict(t, decision) {
  return badge(decision in KINDS ? t(`views.${decision}`) : String(decision ?? "–"), KINDS[decision]);
}

export function complain(text) {
  return h("p", { class: "bad", role: "alert" }, text);
}

// Fill a place with what some work brings, or with the sentence that says why not; of two at once the later counts.
export async function fill(place, work) {
  const mine = (place.filling = Symbol("filling"));
  place.setAttribute("aria-busy", "true");
  const made = await Promise.resolve()
    .then(work)
    .catch(({ message }) => complain(explain(message)));
  if (place.filling !== mine) return;
  place.removeAttribute("aria-busy");
  const hadFocus = place.contains(document.activeElement);
  place.replaceChildren(...[made].flat(9).filter(Boolean));
  if (hadFocus) Object.assign(place, { tabIndex: -1 }).focus({ preventScroll: true }); // the keyboard goes on from here
}

const explain = (message) => (message.startsWith("missing scope") ? say("views.forowner") : message);

// Show any value as JSON, text alone.
export function showJson(value) {
  return h("pre", { class: "json", tabIndex: 0 }, writeJson(value));
}

export function showTime(milliseconds, options) {
  if (!Number.isFinite(milliseconds) || Math.abs(milliseconds) > 8.64e15) return "–";
  return h("time", { datetime: new Date(milliseconds).toISOString() }, formatTime(milliseconds, options));
}

export function showNumber(value, options) {
  return new Intl.NumberFormat(document.documentElement.lang, options).format(value ?? 0);
}

/** @type {[number, number, string][]} */
const SPANS = [
  [60, 1, "second"],
  [3_600, 60, "minute"],
  [86_400, 3_600, "hour"],
  [Infinity, 86_400, "day"],
];
export function showSpan(milliseconds) {
  const seconds = Math.max(0, milliseconds || 0) / 1000,
    [, size, unit] = SPANS.find(([end]) => seconds < end);
  return showNumber(seconds / size, { style: "unit", unit, unitDisplay: "short", maximumFractionDigits: 1 });
}

// Name a caller in one line.
export function nameCaller(t, caller) {
  const { channel, account, group, sender, agent, provider, model, sandboxed, parents, owner } = caller ?? {};
  const who = Object.entries(sender ?? {})
    .filter(([, value]) => value)
    .map((pair) => pair.join(":"));
  const parts = [channel, account, group, ...who].filter(Boolean);
  if (owner) parts.push(t("views.owner"));
  if (!parts.length) parts.push(t("views.stranger"));
  if (agent && agent !== "main") parts.push(t("views.agent", { agent }));
  if (provider) parts.push(model ? `${provider}:${model}` : provider);
  if (sandboxed) parts.push(t("views.sandboxed"));
  if (parents?.length) parts.push(t("views.below", { parents: parents.join("/") }));
  return parts.join(" · ");
}

// Lead to the line of the configuration where something stands; without a line there is only the word.
export function leadTo(t, word, place) {
  if (!place?.line) return word;
  const { file = "", line } = place,
    told = t("views.line", { file: file.split("/").at(-1), line });
  const href = `#/settings/${line}/${encodeURIComponent(file)}`;
  return [h("a", { href }, word), " ", h("small", { class: "soft" }, told)];
}

// Draw bars, each `{name, value, told}`, with their values as text beside them.
export function drawBars(bars) {
  const most = Math.max(...bars.map((each) => each.value), 0) || 1;
  return h(
    "ul",
    { class: "bars" },
    bars.map(({ name, value, told }) =>
      h(
        "li",
        {},
        h("span", { class: "name" }, name),
        h("span", { class: "soft number" }, told),
        s(
          "svg",
          { viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
          s("rect", { class: "bar", width: Math.max(0, value / most) * 100, height: 6 }),
        ),
      ),
    ),
  );
}

// Compare two texts line by line: rows of [mark, text], mark one of " ", "-", "+". Long ends that are alike are cheap.
export function diffLines(old, text) {
  const a = old.split("\n"),
    b = text.split("\n");
  let start = 0,
    end = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start++;
  while (end < Math.min(a.length, b.length) - start && a.at(-1 - end) === b.at(-1 - end)) end++;
  const [from, to] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const alike = (rows) => rows.map((each) => [" ", each]);
  return [...alike(a.slice(0, start)), ...diffMiddle(from, to), ...alike(a.slice(a.length - end))];
}

const MAX_CELLS = 4_000_000; // what is compared in full; beyond it the old goes and the new comes as a whole

function diffMiddle(a, b) {
  const all = [...a.map((each) => ["-", each]), ...b.map((each) => ["+", each])];
  if (!a.length || !b.length || a.length * b.length > MAX_CELLS) return all;
  const wide = b.length + 1,
    common = new Uint32Array((a.length + 1) * wide);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i * wide + j] =
        a[i] === b[j]
          ? common[(i + 1) * wide + j + 1] + 1
          : Math.max(common[(i + 1) * wide + j], common[i * wide + j + 1]);
    }
  }
  const rows = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    const isOld = i < a.length && (j === b.length || common[(i + 1) * wide + j] >= common[i * wide + j + 1]);
    if (i < a.length && j < b.length && a[i] === b[j]) rows.push([" ", (j++, a[i++])]);
    else rows.push(isOld ? ["-", a[i++]] : ["+", b[j++]]);
  }
  return rows;
}

const CONTEXT = 3; // lines around a change

// Show what changed, with a few lines around it.
export function showDiff(t, old, text) {
  const rows = diffLines(old, text),
    near = new Set();
  rows.forEach(([mark], at) => {
    if (mark !== " ") for (let each = at - CONTEXT; each <= at + CONTEXT; each++) near.add(each);
  });
  if (!near.size) return h("p", { class: "soft" }, t("views.unchanged"));
  const tags = { "-": "del", "+": "ins", " ": "span" };
  const shown = rows.map(
    ([mark, line], at) =>
      near.has(at) && [
        !near.has(at - 1) && at > 0 && h("span", { class: "gap" }, "⋯"),
        h(tags[mark], {}, `${mark} ${line}`),
      ],
  );
  return h("pre", { class: "diff", tabIndex: 0, role: "region", "aria-label": t("views.diff") }, shown);
}
