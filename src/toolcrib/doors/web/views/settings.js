// The configuration: its text, what its keys mean, where they stand, what is wrong, and what saving it would change.

import { h, put, writeJson } from "../dom.js";
import { badge, button, complain, fill, input, nameCaller, section, showDiff, table, verdict } from "./pieces.js";
import { drawEditor, dropDraft, findPath, findSchema, isChanged, loadDraft, settleDraft } from "./draft.js";

const MAX_PLACES = 400;

export function mount(root, app, [line, file]) {
  const { t, gateway } = app,
    body = h("div");
  const show = () =>
    fill(body, async () => {
      const [draft, { schema }] = await Promise.all([loadDraft(gateway), gateway.ask("config.schema")]);
      const isHere = !file || file === draft.told.path;
      const settings = drawSettings(app, draft, schema, isHere && Number(line));
      return isHere ? settings : [complain(t("views.line", { file, line })), settings]; // in a file that it includes
    });
  root.append(h("h1", {}, t("nav.settings")), body);
  show();
  return gateway.on("config", () => !isChanged() && !body.contains(document.activeElement) && show());
}

function drawSettings(app, draft, schema, line) {
  const { t, gateway } = app,
    suffix = String(draft.told.path ?? "")
      .split(".")
      .at(-1);
  const state = h("div"),
    places = h("div");
  const help = h("div", { class: "help", "aria-live": "polite" }),
    found = h("div");
  const review = h("div", { "aria-live": "polite" });
  const editor = drawEditor(t, {
    onmove: (text, at) => help.replaceChildren(...explainKey(t, schema, findPath(text, at, suffix))),
    onedit: () => review.replaceChildren(),
  });
  const lint = () => fill(found, () => showFindings(app, draft, editor));
  const tell = () => {
    const { told } = draft;
    const isInForce = told.valid ? badge(t("settings.valid"), "good") : badge(t("settings.invalid"), "bad");
    put(
      state,
      h("p", { class: "soft" }, told.path ?? t("settings.nofile"), " ", isInForce),
      told.issues.map(complain),
      told.rawProblem && complain(told.rawProblem),
    );
    put(places, showPlaces(t, told, editor));
  };
  const look = () => (lint(), fill(review, () => showReview(app, draft, save)));
  const again = () => fill(review, () => loadDraft(gateway, { isAnew: true }).then(() => (tell(), look())));
  const settle = (made) => (editor.take(), lint(), tell(), made);
  const save = () =>
    fill(review, () =>
      saveDraft(app, draft).then(settle, (error) => {
        if (error.code !== "conflict") return [complain(error.message), button(t("settings.review"), look)];
        return [complain(t("settings.conflict")), button(t("settings.again"), again)];
      }),
    );
  const drop = () => {
    dropDraft();
    editor.take();
    fill(review, () => loadDraft(gateway).then(() => settle([]))); // what counts now may be another text
  };
  tell();
  help.append(...explainKey(t, schema, []));
  lint();
  if (line) requestAnimationFrame(() => editor.goTo(line));
  const buttons = h(
    "div",
    { class: "row wrap" },
    button(t("settings.review"), look, { class: "main", disabled: draft.told.raw === null }),
    button(t("settings.check"), lint),
    button(t("settings.drop"), drop),
  );
  return [
    state,
    h(
      "div",
      { class: "columns" },
      h("div", {}, editor, buttons, review),
      h("div", {}, section(t("settings.help"), help), section(t("settings.lint"), found)),
    ),
    section(t("settings.places"), places),
    h("p", { class: "soft" }, t("settings.secrets")),
  ];
}

async function saveDraft({ t, gateway, say }, draft) {
  const asked = { raw: draft.text, baseHash: draft.told.hash };
  const { changed, restart } = await gateway.ask("config.apply", asked);
  await settleDraft(gateway);
  say(t("settings.saved"));
  const told = changed.length ? t("settings.changed", { keys: changed.join(", ") }) : t("views.unchanged");
  const later = restart.length && h("p", { class: "warn" }, t("settings.restart", { keys: restart.join(", ") }));
  return [h("p", { class: "good" }, told), later];
}

// the key at the cursor

function explainKey(t, schema, path) {
  const known = findSchema(schema, path),
    name = h("h3", {}, path.join(".") || t("settings.top"));
  if (!known) return [name, h("p", { class: "soft" }, t("settings.unknown"))];
  const kinds = [known.type, ...(known.anyOf ?? []).map((each) => each.type)].flat().filter(Boolean);
  const values = known.enum ?? (known.const === undefined ? [] : [known.const]);
  const usual = known.default !== undefined && t("settings.default", { value: JSON.stringify(known.default) });
  const below = Object.entries(known.properties ?? {});
  const list = h(
    "dl",
    {},
    below.map(([key, each]) => [h("dt", {}, h("code", {}, key)), h("dd", { class: "soft" }, each.description ?? "")]),
  );
  return [
    name,
    known.description && h("p", {}, known.description),
    kinds.length && h("p", { class: "soft" }, t("settings.kind", { kind: [...new Set(kinds)].join(", ") })),
    values.length &&
      h(
        "p",
        {},
        values.map((each) => [h("code", {}, each), " "]),
      ),
    usual && h("p", { class: "soft" }, usual),
    below.length && h("details", {}, h("summary", {}, t("settings.keys", { count: below.length })), list),
  ].filter(Boolean);
}

// what is wrong, and where things stand

async function showFindings({ t, gateway }, draft, editor) {
  if (!draft.told.path && !isChanged()) return h("p", { class: "soft" }, t("settings.nofile"));
  const { findings, issues } = await gateway.ask("policy.lint", { raw: draft.text });
  const lead = (line, word) => (line ? button(word, () => editor.goTo(line), { class: "link" }) : word);
  const told = [...issues.map((each) => ({ ...each, level: "error", origin: each.path, place: each })), ...findings];
  if (!told.length) return h("p", { class: "good" }, t("settings.clean"));
  const colours = { error: "bad", warning: "warn" };
  return h(
    "ul",
    { class: "findings" },
    told.map(({ level, origin, message, remedy, place }) =>
      h(
        "li",
        { class: level },
        badge(level, colours[level]),
        " ",
        lead(place?.line, origin || "–"),
        h("div", {}, message),
        remedy && h("small", { class: "soft" }, remedy),
      ),
    ),
  );
}

function showPlaces(t, { places = {}, config, path }, editor) {
  const shown = h("div"),
    label = t("settings.find");
  const lead = (where) => {
    const [, file, line] = where.match(/^(.*):(\d+)$/) ?? [null, where, 0];
    const word = `${file.split("/").at(-1)}${line ? `:${line}` : ""}`;
    return line && file === path ? button(word, () => editor.goTo(Number(line)), { class: "link" }) : word;
  };
  const draw = (word) => {
    const rows = Object.entries(places).filter((pair) => pair.join(" ").toLowerCase().includes(word.toLowerCase()));
    shown.replaceChildren(
      table(
        t,
        t("settings.places"),
        [
          [t("settings.key"), ([key]) => key],
          [t("settings.value"), ([key]) => h("code", {}, writeJson(readSetting(config, key), 0)), "wide"],
          [t("settings.where"), ([, where]) => lead(where)],
        ],
        rows.slice(0, MAX_PLACES),
      ),
    );
  };
  draw("");
  const find = ({ target }) => draw(target.value);
  return [input("places", "", { type: "search", "aria-label": label, placeholder: label, oninput: find }), shown];
}

// Follow a dotted name into what is set; names of keys may have dots of their own.
function readSetting(value, name) {
  if (name === "" || typeof value !== "object" || value === null) return value;
  const keys = Object.keys(value).sort((a, b) => b.length - a.length);
  for (const [key, taken] of keys.flatMap((each) => [
    [each, each],
    [each, `[${each}]`],
  ])) {
    const rest = name.slice(taken.length);
    if (name.startsWith(taken) && /^(\.|\[|$)/.test(rest)) return readSetting(value[key], rest.replace(/^\./, ""));
  }
  return undefined;
}

// what saving would change

async function showReview(app, draft, save) {
  const { t } = app,
    rights = h("div");
  if (!isChanged()) return h("p", { class: "soft" }, t("views.unchanged"));
  fill(rights, () => showChanges(app, draft.text));
  return [
    section(t("settings.diff"), showDiff(t, draft.told.raw, draft.text)),
    section(t("who.changes"), rights),
    h("div", { class: "row wrap" }, button(t("settings.save"), save, { class: "main" })),
  ];
}

// Show for whom a draft decides otherwise than what counts.
export async function showChanges({ t, gateway }, raw, callers) {
  const { changes, beside } = await gateway.ask("policy.diff", { raw, ...(callers?.length ? { callers } : {}) });
  const others = beside.length ? h("p", {}, t("who.beside"), " ", beside.join(", ")) : null;
  if (!changes.length) return others ?? h("p", { class: "soft" }, t("who.nochange"));
  return h(
    "div",
    {},
    table(
      t,
      t("who.changes"),
      [
        [t("who.tool"), (each) => each.tool],
        [t("who.caller"), (each) => nameCaller(t, each.caller), "wide"],
        [t("who.before"), (each) => verdict(t, each.before)],
        [t("who.after"), (each) => verdict(t, each.after)],
        [t("who.because"), (each) => each.reason, "wide"],
      ],
      changes,
    ),
    others,
  );
}
