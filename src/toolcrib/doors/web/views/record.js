// What was decided and what came of it: searched, verified, and any decision judged again by the rules of now.

import { h } from "../dom.js";
import { badge, button, complain, field, fill, input, leadTo, nameCaller, section, select } from "./pieces.js";
import { showJson, showTime, table, verdict } from "./pieces.js";

const PAGE = 100;

export function mount(root, { gateway, t }) {
  const check = button(t("record.verify"), () => fill(chain, verify));
  const found = h("div"),
    detail = h("div", { "aria-live": "polite" }),
    chain = h("div", { "aria-live": "polite" });
  const decisions = [["", t("record.any")], ...["allow", "ask", "deny"].map((each) => [each, t(`views.${each}`)])];
  const form = h(
    "form",
    { class: "fields", role: "search", onsubmit: (event) => (event.preventDefault(), search()) },
    field(t("record.tool"), input("tool")),
    field(t("record.session"), input("session")),
    field(t("record.sender"), input("sender", "", { placeholder: "id:7" })),
    field(t("record.decision"), select("decision", decisions, "")),
    field(t("record.text"), input("text", "", { type: "search" })),
    field(t("record.since"), input("since", "", { type: "datetime-local" })),
    h("button", { class: "main" }, t("record.search")),
  );

  function search() {
    const { since, ...words } = Object.fromEntries(new FormData(form));
    const from = since ? new Date(String(since)).getTime() / 1000 : 0;
    const kept = Object.fromEntries(Object.entries({ ...words, since: from }).filter(([, value]) => value));
    const rows = [],
      place = h("div");
    const load = (before) =>
      fill(place, async () => {
        const { calls, next } = await gateway.ask("audit.search", { ...kept, limit: PAGE, ...(before && { before }) });
        if (!calls.length && next && place.isConnected) return load(next); // a search ends before a long record does
        rows.push(...calls);
        return [showCalls(rows), next ? button(t("record.older"), () => load(next)) : null];
      });
    found.replaceChildren(place);
    return load(0);
  }

  function showCalls(rows) {
    return table(
      t,
      t("record.calls"),
      [
        [t("record.tool"), (row) => button(row.tool || "–", () => showCall(row), { class: "link" })],
        [t("record.time"), (row) => showTime(row.at * 1000)],
        [t("record.decision"), (row) => verdict(t, row.decision)],
        [t("record.caller"), (row) => nameCaller(t, row.caller)],
        [t("record.reason"), (row) => row.reason, "wide"],
        [
          t("record.outcome"),
          (row) => badge(row.outcome, { ok: "good", error: "bad", uncertain: "warn" }[row.outcome]),
        ],
      ],
      rows,
    );
  }

  function showCall(row) {
    const again = h("div", { "aria-live": "polite" }),
      judge = () => fill(again, () => replay(row));
    const head = h("h2", { tabIndex: -1 }, t("record.call", { row: row.row, tool: row.tool }));
    detail.replaceChildren(
      h(
        "section",
        { class: "part" },
        head,
        h("p", {}, verdict(t, row.decision), " ", row.layer ?? "", " ", row.reason),
        row.origin ? h("p", { class: "soft" }, t("record.by", { rule: row.rule ?? "–", origin: row.origin })) : null,
        row.answered && h("p", {}, t(row.answered.yes ? "record.yes" : "record.no", { by: row.answered.by ?? "–" })),
        row.error ? complain(row.error) : null,
        showJson(row.args ?? null),
        h("div", { class: "row" }, button(t("record.replay"), judge, { class: "main" })),
        again,
      ),
    );
    head.focus();
  }

  async function replay(row) {
    const { recorded, now, differs, uncertain } = await gateway.ask("audit.replay", { row: row.row });
    const said = differs.length
      ? badge(t("record.differs", { keys: differs.join(", ") }), "warn")
      : badge(t("record.same"), "good");
    const tell = (word, told) =>
      h(
        "p",
        {},
        word,
        " ",
        verdict(t, told?.decision),
        " ",
        told?.reason ?? "",
        " ",
        told?.origin ? leadTo(t, [told.origin, told.rule].filter(Boolean).join(": "), told.place) : "",
      );
    return [
      h("p", {}, said),
      tell(t("record.then"), recorded),
      tell(t("record.now"), now),
      uncertain.map((each) => h("p", { class: "warn" }, each)),
    ];
  }

  async function verify() {
    const { rows, decisions, derived, hash, findings, uncertain } = await gateway.ask("audit.verify", { replay: true });
    const said = findings.length
      ? badge(t("record.broken", { count: findings.length }), "bad")
      : badge(t("record.holds", { count: rows }), "good");
    return [
      h("p", {}, said, " ", t("record.derived", { decisions, derived })),
      h("p", { class: "soft mono" }, hash),
      h(
        "ul",
        { class: "findings" },
        findings.map((each) => h("li", { class: "error" }, each.sentence)),
      ),
      uncertain.length ? h("p", {}, t("record.uncertain", { count: uncertain.length })) : null,
    ];
  }

  root.append(
    h("h1", {}, t("nav.record")),
    form,
    section(t("record.calls"), found),
    detail,
    section(t("record.chain"), h("div", { class: "row" }, check), chain),
  );
  search();
}
