// Who may what: the belt of any caller, the way of every tool through the layers, and a change tried before it counts.

import { add, h, put } from "../dom.js";
import { badge, button, colourOf, complain, field, fill, input, leadTo, nameCaller } from "./pieces.js";
import { scroller, section, select, table, verdict } from "./pieces.js";
import { drawEditor, loadDraft } from "./draft.js";
import { showChanges } from "./settings.js";
import { drawWays } from "./ways.js";

const FIELDS = ["channel", "group", "sender", "agent", "model", "parents"],
  DECISIONS = ["allow", "ask", "deny"];
const compared = []; // the callers for whom a draft is compared; kept while views come and go
document.addEventListener("signout", () => (compared.length = 0));

export function mount(root, app, [address]) {
  const { t, gateway, go } = app,
    asked = new URLSearchParams(address ?? ""),
    caller = readCaller(asked);
  const belt = h("div"),
    promises = h("div"),
    trial = h("div"),
    known = h("div", { hidden: true });
  root.append(
    h("h1", {}, t("nav.who")),
    h("p", { class: "soft" }, t("who.about")),
    drawForm(t, asked, go),
    known,
    belt,
    section(t("who.expect"), promises),
    section(t("who.try"), trial),
  );
  suggest(gateway, known);
  fill(belt, () => showBelt(app, caller));
  fill(promises, () => showPromises(app));
  fill(trial, () => showTrial(app, caller, promises));
}

// The caller stands in the address, so that it can be kept and sent to somebody.
function drawForm(t, asked, go) {
  const submit = (event) => {
    event.preventDefault();
    const given = [...new FormData(event.target)].map(([name, value]) => [name, String(value).trim()]);
    go(`#/who/${encodeURIComponent(new URLSearchParams(given.filter(([, value]) => value)).toString())}`);
  };
  const fields = FIELDS.map((name) => {
    const props = { placeholder: t(`who.${name}.like`), list: `known-${name}` };
    return field(t(`who.${name}`), input(name, asked.get(name), props));
  });
  const owner = [
    ["", t("who.owner.auto")],
    ["yes", t("who.owner.yes")],
    ["no", t("who.owner.no")],
  ];
  const box = h("input", { type: "checkbox", name: "sandboxed", value: "yes", checked: asked.has("sandboxed") });
  return h(
    "form",
    { class: "fields", onsubmit: submit, "aria-label": t("who.caller") },
    fields,
    field(t("who.owner"), select("owner", owner, asked.get("owner") ?? "")),
    h("label", { class: "field check" }, box, h("span", {}, t("who.sandboxed"))),
    h("button", { class: "main" }, t("who.show")),
  );
}

function readCaller(asked) {
  const caller = {};
  for (const name of FIELDS) if (asked.get(name)) caller[name] = asked.get(name);
  const [provider, model] = (caller.model ?? "").split(/:(.*)/);
  if (provider) Object.assign(caller, { provider, model });
  if (asked.has("sandboxed")) caller.sandboxed = true;
  if (asked.get("owner")) caller.owner = asked.get("owner") === "yes";
  return caller;
}

// What is known by name is offered while somebody types; anything else may be typed, too.
async function suggest(gateway, place) {
  const asked = ["channels.list", "agents.list", "models.list"].map((method) => gateway.ask(method).catch(() => ({})));
  const [{ channels = [] }, { agents = [] }, { models = [] }] = await Promise.all(asked),
    ids = (each) => each.id;
  const known = { channel: channels.map((each) => each.channel), agent: agents.map(ids), model: models.map(ids) };
  const list = (name) => (known[name] ?? []).map((value) => h("option", { value }));
  add(
    place,
    FIELDS.map((name) => h("datalist", { id: `known-${name}` }, list(name))),
  );
}

// the belt

async function showBelt({ t, gateway }, caller) {
  const { tools, ...told } = await gateway.ask("policy.explain", { who: caller }),
    name = nameCaller(t, told.caller);
  const rows = h("div"),
    detail = h("div", { "aria-live": "polite" });
  const pick = (tool) => {
    picture.pick(tool);
    put(
      detail,
      showSteps(
        t,
        tools.find((each) => each.tool === tool),
      ),
    );
    detail.scrollIntoView({ block: "nearest" });
  };
  const picture = drawWays(t, tools, pick);
  const isShown = (each) =>
    (!kind.value || each.decision === kind.value) &&
    `${each.tool} ${each.group} ${each.source}`.includes(word.value.trim().toLowerCase());
  const draw = () =>
    put(
      rows,
      table(
        t,
        t("who.belt", { caller: name }),
        [
          [t("who.tool"), (each) => button(each.tool, () => pick(each.tool), { class: "link" })],
          [t("who.verdict"), (each) => verdict(t, each.decision)],
          [t("who.layer"), (each) => each.layer ?? "–"],
          [t("who.because"), (each) => each.reason, "wide"],
          [t("who.rule"), (each) => showRule(t, each), "wide"],
          [t("who.remedy"), (each) => each.remedy ?? "–", "wide"],
        ],
        tools.filter(isShown),
      ),
    );
  const word = input("filter", "", { type: "search", oninput: () => draw() });
  const kinds = DECISIONS.map((each) => [each, t(`views.${each}`)]);
  const kind = select("kind", [["", t("who.all")], ...kinds], "", { onchange: () => draw() });
  const count = (decision) => tools.filter((each) => each.decision === decision).length;
  const counts = kinds.map(([each, said]) => [badge(`${said} ${count(each)}`, colourOf(each)), " "]);
  draw();
  return [
    section(
      name,
      h("p", { role: "status" }, counts),
      h("div", { class: "fields" }, field(t("who.filter"), word), field(t("who.verdict"), kind)),
      rows,
    ),
    section(
      t("who.layers"),
      h("p", { class: "soft" }, t("who.layers.how")),
      scroller(t("who.layers"), picture),
      detail,
    ),
  ];
}

function showRule(t, { origin, rule, place }) {
  const name = [origin, rule].filter(Boolean).join(": ");
  return name ? leadTo(t, name, place) : "–";
}

function showSteps(t, { tool, decision, reason, remedy, steps }) {
  return h(
    "section",
    { class: "part" },
    h("h3", {}, t("who.way", { tool })),
    h("p", {}, verdict(t, decision), " ", reason),
    remedy && h("p", { class: "soft" }, remedy),
    h(
      "ol",
      { class: "steps" },
      steps.map((each) =>
        h(
          "li",
          { class: colourOf(each.decision) },
          h("strong", {}, each.layer),
          " ",
          verdict(t, each.decision),
          " ",
          showRule(t, each),
        ),
      ),
    ),
  );
}

// what is expected

async function showPromises({ t, gateway }, raw) {
  const { entries } = await gateway.ask("policy.test", raw === undefined ? {} : { raw });
  if (!entries.length) return h("p", { class: "soft" }, t("who.noexpect"));
  const mark = (holds) => (holds ? badge(t("who.kept"), "good") : badge(t("who.broken"), "bad"));
  return h(
    "ul",
    { class: "findings" },
    entries.map(({ holds, caller, place, promises }) =>
      h(
        "li",
        { class: holds ? "" : "error" },
        mark(holds),
        " ",
        leadTo(t, nameCaller(t, caller), place),
        h(
          "ul",
          {},
          promises.map((made) =>
            h(
              "li",
              { class: made.holds ? "" : "error" },
              mark(made.holds),
              " ",
              t(`who.${made.key}`, { tools: made.tool ?? made.entry }),
              " ",
              h("small", { class: "soft" }, made.reason ?? t("who.notool")),
            ),
          ),
        ),
      ),
    ),
  );
}

// a change, tried

async function showTrial(app, caller, promises) {
  const { t, gateway } = app,
    draft = await loadDraft(gateway),
    list = h("ul");
  const found = h("div", { "aria-live": "polite" }),
    key = JSON.stringify(caller);
  const drawList = () =>
    put(
      list,
      compared.map((each, at) =>
        h(
          "li",
          {},
          nameCaller(t, nameable(each)),
          " ",
          button(t("who.forget"), () => (compared.splice(at, 1), drawList()), { class: "link" }),
        ),
      ),
    );
  const choose = () => {
    if (!compared.some((each) => JSON.stringify(each) === key)) compared.push(caller);
    drawList();
  };
  const compare = () => {
    fill(found, () => showChanges(app, draft.text, compared));
    fill(promises, () => showPromises(app, draft.text));
  };
  drawList();
  return [
    draft.told.rawProblem && complain(draft.told.rawProblem),
    h("p", { class: "soft" }, t("who.try.how")),
    drawEditor(t),
    h("h3", {}, t("who.compared")),
    list,
    h("p", { class: "soft" }, t("who.everybody")),
    h(
      "div",
      { class: "row wrap" },
      button(t("who.choose"), choose),
      button(t("who.compare"), compare, { class: "main" }),
      h("a", { href: "#/settings" }, t("who.save")),
    ),
    found,
  ];
}

// A caller as the form has it, to be named like one that the gateway told.
function nameable({ sender, parents, ...caller }) {
  const [kind, id] = sender?.includes(":") ? sender.split(/:(.*)/) : ["id", sender];
  const isOwner = caller.owner ?? (!sender && !caller.channel);
  return { ...caller, owner: isOwner, parents: parents?.split("/"), sender: sender && { [kind]: id } };
}
