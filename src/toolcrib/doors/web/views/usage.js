// What turns took: by day, model, tool and caller; every picture has its table.

import { h, s } from "../dom.js";
import { drawBars, field, fill, nameCaller, scroller, section, select, showNumber, table } from "./pieces.js";

const DAYS = [7, 30, 90, 365],
  TALL = 160,
  WIDE = 720,
  LEFT = 56,
  BASE = TALL - 20,
  MAX_BARS = 20,
  DAY_MS = 86_400_000;
const MEASURES = {
  tokens: (row) => row.totalTokens ?? 0,
  cost: (row) => row.totalCost ?? 0,
  turns: (row) => row.turns ?? row.calls ?? 0,
};
const DOLLARS = { style: "currency", currency: "USD", maximumFractionDigits: 4 };

export function mount(root, { gateway, t }) {
  const body = h("div"),
    props = { onchange: () => show() };
  const days = select(
    "days",
    DAYS.map((each) => [String(each), t("usage.days", { count: each })]),
    "30",
    props,
  );
  const measure = select(
    "measure",
    Object.keys(MEASURES).map((each) => [each, t(`usage.${each}`)]),
    "tokens",
    props,
  );
  const show = () =>
    fill(body, async () => {
      const told = await gateway.ask("usage.report", { days: Number(days.value) }),
        whole = told.totals ?? {};
      const kind = measure.value;
      const total = { tokens: showAmount("tokens", whole.totalTokens), cost: showAmount("cost", whole.totalCost) };
      return [
        h("p", {}, t("usage.total", { ...total, turns: showNumber(whole.turns) })),
        showDays(t, told, kind),
        h(
          "div",
          { class: "cards" },
          showRows(t, "model", told.models, kind, (row) => row.model || "–"),
          showRows(t, "tool", told.tools, kind, (row) => row.tool || "–"),
          showRows(t, "caller", told.callers, kind, ({ caller }) => nameCaller(t, caller)),
        ),
      ];
    });
  root.append(
    h("h1", {}, t("nav.usage")),
    h("div", { class: "fields" }, field(t("usage.span"), days), field(t("usage.measure"), measure)),
    body,
  );
  show();
}

function showRows(t, name, rows, kind, word) {
  if (!rows?.length) return null;
  const measure = rows[0].calls === undefined ? kind : "turns",
    value = MEASURES[measure]; // tools are counted by calls
  const bars = rows.map((row) => ({ name: word(row), value: value(row), told: showAmount(measure, value(row)) }));
  const caption = t(`usage.by.${name}`);
  bars.sort((a, b) => b.value - a.value);
  return section(caption, drawBars(bars.slice(0, MAX_BARS)), details(t, caption, t(`usage.${name}`), word, rows));
}

function showDays(t, told, kind) {
  const caption = t("usage.by.day");
  if (!told.daily.length) return section(caption, h("p", { class: "soft" }, t("usage.none")));
  return section(
    caption,
    scroller(caption, drawDays(t, fillDays(told), kind)),
    details(t, caption, t("usage.day"), (row) => row.date, told.daily),
  );
}

function details(t, caption, head, word, rows) {
  const number = (name, options) => (row) => (row[name] === undefined ? "–" : showNumber(row[name], options));
  return h(
    "details",
    {},
    h("summary", {}, t("usage.table")),
    table(
      t,
      caption,
      [
        [head, word],
        [t("usage.input"), number("input"), "number"],
        [t("usage.output"), number("output"), "number"],
        [t("usage.cost"), number("totalCost", DOLLARS), "number"],
        [t("usage.turns"), (row) => showNumber(row.turns ?? row.calls), "number"],
      ],
      rows,
    ),
  );
}

function showAmount(kind, amount) {
  if (kind === "cost") return showNumber(amount, DOLLARS);
  return showNumber(amount, kind === "tokens" ? { notation: "compact", maximumFractionDigits: 1 } : {});
}

// A day on which nothing happened is a day, too.
function fillDays({ daily, days }) {
  const byDate = new Map(daily.map((row) => [row.date, row])),
    now = Date.now();
  return Array.from({ length: days }, (_, at) => {
    const date = new Date(now - (days - 1 - at) * DAY_MS).toISOString().slice(0, 10);
    return byDate.get(date) ?? { date };
  });
}

function drawDays(t, rows, kind) {
  const value = MEASURES[kind],
    most = Math.max(...rows.map(value)) || 1,
    step = (WIDE - LEFT) / rows.length;
  const tall = (amount) => ((amount ?? 0) / most) * (BASE - 10);
  const bars = rows.map((row, at) => {
    const parts =
      kind === "tokens"
        ? [
            ["input", row.input],
            ["output", row.output],
          ]
        : [["input", value(row)]];
    const x = LEFT + at * step,
      width = Math.max(1, step - 2);
    let y = BASE;
    return s(
      "g",
      {},
      s("title", {}, `${row.date}: ${showAmount(kind, value(row))}`),
      parts.map(([name, amount]) => s("rect", { class: name, x, width, y: (y -= tall(amount)), height: tall(amount) })),
    );
  });
  const rules = [0, 0.5, 1].map((share) => {
    const y = BASE - tall(most * share);
    return [
      s("line", { class: "rule", x1: LEFT, x2: WIDE, y1: y, y2: y }),
      s("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, showAmount(kind, most * share)),
    ];
  });
  const legend =
    kind === "tokens"
      ? ["input", "output"].map((name, at) =>
          s("text", { class: name, x: WIDE / 2 + at * 90, y: TALL - 4 }, `■ ${t(`usage.${name}`)}`),
        )
      : [];
  const names = [
    legend,
    s("text", { x: LEFT, y: TALL - 4 }, rows[0].date),
    s("text", { x: WIDE, y: TALL - 4, "text-anchor": "end" }, rows.at(-1).date),
  ];
  const props = { width: WIDE, height: TALL, viewBox: `0 0 ${WIDE} ${TALL}` };
  const told = t("usage.plot", { most: showAmount(kind, most) });
  return s("svg", { class: "plot", role: "img", "aria-label": told, ...props }, rules, bars, names);
}
