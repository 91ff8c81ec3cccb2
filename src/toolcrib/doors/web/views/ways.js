// The layers as a picture: every tool's way through them, as far as it comes.

import { s } from "../dom.js";

const NINE = [
  "profile",
  "provider-profile",
  "global",
  "global-provider",
  "agent",
  "agent-provider",
  "group",
  "sandbox",
  "subagent",
];
const BEFORE = ["owner", "requires", "source"],
  AFTER = ["ask"];
const NAMES = 190,
  STEP = 62,
  ROW = 18,
  HEAD = 116,
  ENDS = { allow: "✓", ask: "?", deny: "✕" };

// Draw the ways; `pick` is told which tool was chosen. The names of layers that say something are marked.
export function drawWays(t, tools, pick) {
  const order = orderLayers(tools),
    at = new Map(order.map((name, index) => [name, NAMES + 24 + index * STEP]));
  const speaking = new Set(tools.flatMap((each) => each.steps.flatMap(({ origin, layer }) => (origin ? [layer] : []))));
  const height = HEAD + tools.length * ROW + 8,
    right = NAMES + 24 + order.length * STEP,
    width = right + 60;
  const heads = s(
    "g",
    { "aria-hidden": "true" },
    order.map((name) => {
      const x = at.get(name),
        kind = speaking.has(name) ? "layer speaks" : "layer";
      return [
        s("line", { class: kind, x1: x, x2: x, y1: HEAD - 8, y2: height }),
        s("text", { transform: `translate(${x} ${HEAD - 14}) rotate(-45)` }, name),
      ];
    }),
  );
  const ways = tools.map((each, row) => {
    const y = HEAD + row * ROW + ROW / 2,
      stop = at.get(each.layer) ?? right;
    return drawWay(t, each, { y, stop, right, width });
  });
  const all = s("g", { role: "listbox", "aria-label": t("who.layers") }, ways);
  const svg = s("svg", { class: "ways", width, height, viewBox: `0 0 ${width} ${height}` }, heads, all);
  const hold = (way) => ways.forEach((each) => each.setAttribute("tabindex", each === way ? "0" : "-1"));
  svg.pick = (tool) =>
    ways.forEach((each) => {
      const isIt = each.dataset.tool === tool;
      each.classList.toggle("picked", isIt);
      each.setAttribute("aria-selected", String(isIt));
      if (isIt) hold(each);
    });
  all.addEventListener("click", ({ target }) => {
    const way = target.closest(".way");
    if (way) pick(way.dataset.tool);
  });
  all.addEventListener("keydown", (event) => {
    const here = ways.indexOf(document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: ways.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") pick(ways[here].dataset.tool);
    else if (to === undefined) return;
    else if (ways[to]) hold(ways[to]), ways[to].focus();
    event.preventDefault();
  });
  if (ways.length) hold(ways[0]);
  return svg;
}

// They stand in their order; what else stopped a tool stands before or behind them.
function orderLayers(tools) {
  const met = new Set(tools.map((each) => each.layer)),
    known = [...BEFORE, ...NINE, ...AFTER];
  const others = [...met].filter((name) => name && !known.includes(name));
  return [...BEFORE.filter((name) => met.has(name)), ...NINE, ...others, ...AFTER.filter((name) => met.has(name))];
}

function drawWay(t, { tool, decision, layer, reason }, { y, stop, right, width }) {
  const end = decision === "deny" ? stop : right;
  const told = t(layer ? "who.stops" : "who.passes", { tool, verdict: t(`views.${decision}`), layer, reason });
  const short = tool.length > 26 ? `${tool.slice(0, 25)}…` : tool;
  const props = { class: `way ${decision}`, role: "option", "aria-selected": "false", "aria-label": told };
  return s(
    "g",
    { ...props, data: { tool } },
    s("title", {}, told),
    s("rect", { class: "hit", x: 1, y: y - ROW / 2 + 1, width: width - 2, height: ROW - 2, rx: 3 }),
    s("text", { x: NAMES, y: y + 4, "text-anchor": "end" }, short),
    s("path", { d: `M${NAMES + 8} ${y}H${decision === "ask" ? stop : end}` }),
    decision === "ask" ? s("path", { class: "asked", d: `M${stop} ${y}H${end}` }) : null,
    s("circle", { class: "end", cx: end, cy: y, r: 7 }),
    s("text", { x: end, y: y + 4, "text-anchor": "middle" }, ENDS[decision] ?? ""),
  );
}
