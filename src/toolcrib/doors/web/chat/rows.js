// A row of a conversation: what somebody said, what the model answered, or the card of a call.

import { add, h, icon, put } from "../dom.js";
import { render, renderCode } from "../markdown.js";
import { formatTime } from "../words.js";

const CLIP = 20_000,
  CLIP_ARGUMENT = 2_000; // characters that are shown before somebody asks for all
const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const MARKS = { running: "…", ok: "✓", error: "✗", pending: "?", unknown: "–" };

// Return the row of an item; `chat` is {app, session, speak, branch}, the last two where that can be done.
export function drawRow(item, chat) {
  const { t } = chat.app;
  const draw = { user: drawUser, reply: drawReply, call: drawCall, note: drawNote }[item.kind];
  return h("article", { class: `item ${item.kind}`, "aria-label": nameRow(item, t), tabIndex: -1 }, draw(item, chat));
}

function nameRow({ kind, tool, label }, t) {
  return kind === "call" ? t("chat.call", { tool: label || tool }) : t(`chat.${kind}`);
}

function drawUser({ text, pictures, at, number, run, isSteering, isPending }, { app: { t }, branch }) {
  return [
    h(
      "div",
      { class: "by" },
      t("chat.user"),
      isSteering && h("span", { class: "chip" }, t("chat.steered")),
      isPending && h("span", { class: "chip" }, t("chat.sending")),
      at && drawTime(at),
      !isPending &&
        Boolean(number ?? run) &&
        branch &&
        h(
          "button",
          { class: "bare soft", data: { part: "branch" }, onclick: () => branch({ number, run }) },
          t("chat.branch"),
        ),
    ),
    h("div", { class: "plain", dir: "auto" }, clip(text, CLIP, t)),
    drawPictures(pictures, t),
  ];
}

function drawReply(item, { app: { t }, speak }) {
  const { text, thinking, at, isLive } = item;
  const body = h("div", { class: "markdown", dir: "auto" });
  const isLong = text.length > CLIP * 5 && !item.isWhole;
  put(body, render(isLong ? text.slice(0, CLIP * 5) : text, t));
  if (isLong)
    body.append(
      h(
        "button",
        { onclick: () => put(body, render(((item.isWhole = true), text), t)) },
        t("chat.all", { count: text.length }),
      ),
    );
  return [
    h(
      "div",
      { class: "by" },
      t("chat.reply"),
      at && drawTime(at),
      speak &&
        !isLive &&
        h(
          "button",
          { class: "bare", "aria-label": t("chat.speak"), data: { part: "speak" }, onclick: () => speak(text) },
          icon("speak"),
        ),
    ),
    thinking &&
      h(
        "details",
        { class: "thinking" },
        h("summary", {}, t("chat.thinking")),
        h("div", { class: "plain" }, clip(thinking, CLIP, t)),
      ),
    body,
    isLive && h("span", { class: "cursor", "aria-hidden": "true" }),
  ];
}

function drawNote({ text, tone, compacted }, { app: { t } }) {
  return h("p", { class: `note ${tone}`, dir: "auto" }, compacted ? t("chat.compacted", compacted) : text);
}

function drawCall(item, chat) {
  const { t } = chat.app,
    { tool, label, status, args, startedAt, endedAt } = item;
  const diff = typeof item.details?.diff === "string" ? item.details.diff : "";
  const isOpen = item.isOpen ?? (status === "running" || Boolean(item.pictures?.length || diff || item.display));
  const seconds = endedAt && startedAt ? (endedAt - startedAt) / 1000 : null;
  const body = h("div", { class: "call-body" });
  const fill = () => {
    if (!body.childNodes.length) add(body, drawVerdict(item, chat), drawArguments(args, t), drawOutcome(item, diff, t));
  };
  if (isOpen) fill();
  const toggle = ({ currentTarget }) => {
    item.isOpen = currentTarget.open;
    fill();
  };
  const brief = Object.values(args ?? {}).find((each) => typeof each === "string") ?? "";
  return h(
    "details",
    { class: `call-card ${status}`, open: isOpen, ontoggle: toggle },
    h(
      "summary",
      { data: { part: "card" } },
      h("span", { class: "mark", role: "img", "aria-label": t(`chat.status.${status}`) }, MARKS[status] ?? "–"),
      h("strong", {}, label || tool),
      h("span", { class: "brief mono", dir: "auto" }, brief.split("\n")[0].slice(0, 160)),
      item.verdict &&
        item.verdict.decision !== "allow" &&
        h("span", { class: `chip ${item.verdict.decision}` }, t(`chat.decision.${item.verdict.decision}`)),
      seconds !== null &&
        h("span", { class: "soft" }, t("chat.seconds", { seconds: seconds.toFixed(seconds < 10 ? 1 : 0) })),
    ),
    body,
  );
}

function drawVerdict(item, { app: { gateway, t }, session }) {
  const line = h("div", { class: "verdict" });
  const show = ({ decision, layer, rule, origin, reason, remedy }) =>
    put(
      line,
      h("span", { class: `chip ${decision}` }, t(`chat.decision.${decision}`)),
      " ",
      reason,
      [layer && t("chat.layer", { layer }), rule && t("chat.rule", { rule }), origin]
        .filter(Boolean)
        .map((each) => h("span", { class: "mono soft" }, ` · ${each}`)),
      decision !== "allow" && item.status !== "ok" && remedy && h("div", { class: "soft" }, remedy),
    );
  const explain = async () => {
    try {
      const told = await gateway.ask("tools.explain", { tool: item.tool, sessionKey: session(), args: item.args });
      show((item.verdict = told.tools[0]));
    } catch (error) {
      put(line, error.message);
    }
  };
  if (item.verdict) show(item.verdict);
  else if (item.status !== "running") add(line, h("button", { onclick: explain }, t("chat.why")));
  return line;
}

function drawArguments(args, t) {
  const rows = Object.entries(args ?? {}).map(([name, value]) => [
    h("dt", { class: "mono" }, name),
    h(
      "dd",
      { class: "mono plain", dir: "auto" },
      clip(typeof value === "string" ? value : JSON.stringify(value, null, 1), CLIP_ARGUMENT, t),
    ),
  ]);
  return rows.length > 0 && h("dl", { class: "arguments" }, rows);
}

function drawOutcome(item, diff, t) {
  const { status, live, text, display, markdown, source } = item;
  const words = status === "running" ? (live ?? "") : text;
  const box =
    display || (markdown && status !== "running")
      ? h("div", { class: "markdown", dir: "auto" }, render((display || words).slice(0, CLIP * 5), t))
      : words &&
        h(
          "pre",
          { class: "output", tabIndex: 0, "aria-label": t("chat.output") },
          status === "running" ? words.slice(-CLIP) : clip(words, CLIP, t),
        );
  return [
    source && h("div", { class: "soft" }, t("chat.outside", { source })),
    box,
    diff && renderCode(diff.slice(0, CLIP * 5), "diff", t),
    drawPictures(item.pictures, t),
  ];
}

function drawPictures(pictures, t) {
  const shown = (pictures ?? []).filter(
    ({ mimeType, data }) => PICTURES.includes(mimeType) && /^[A-Za-z0-9+/=]+$/.test(data),
  );
  return shown.map(({ mimeType, data }) =>
    h("img", { class: "picture", src: `data:${mimeType};base64,${data}`, alt: t("chat.picture") }),
  );
}

function drawTime(at) {
  return h("time", { class: "soft", datetime: new Date(at).toISOString() }, formatTime(at, { timeStyle: "short" }));
}

// Return a text, or its beginning with a button for the rest.
function clip(text, most, t) {
  if (text.length <= most) return text;
  const box = h(
    "span",
    {},
    text.slice(0, most),
    h("button", { onclick: () => put(box, text) }, t("chat.all", { count: text.length })),
  );
  return box;
}
