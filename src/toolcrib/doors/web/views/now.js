// What goes on: turns and their subagents, jobs, devices, MCP servers, channels. It follows by itself.

import { h, writeJson } from "../dom.js";
import { makeId } from "../rpc.js";
import { formatTime } from "../words.js";
import { badge, button, complain, fill, scroller, section, showDiff } from "./pieces.js";
import { showNumber, showSpan, showTime, table } from "./pieces.js";

const LOOK_MS = 15_000,
  SOON_MS = 500; // between two looks; from an event to the look that it brings
const MAX_UPCOMING = 200,
  MAX_BADGES = 6; // runs of a job in the calendar, and jobs in a day of it
const DAY_MS = 86_400_000,
  MONDAY = Date.UTC(2024, 0, 1);
const PICTURES = ["canvas.snapshot", "camera.snap", "screen.snapshot"]; // commands of nodes that answer with one
const GOOD = ["open", "connected", "ready", "running", "ok"],
  BAD = ["failed", "down", "error"];

const PARTS = {
  turns: showTurns,
  jobs: showJobs,
  nodes: showNodes,
  clients: showClients,
  servers: showServers,
  channels: showChannels,
};
const HEARD = {
  agent: "turns",
  chat: "turns",
  cron: "jobs",
  presence: "clients",
  "device.pair.requested": "nodes",
  "device.pair.resolved": "nodes",
}; // events, and what they change

const colourState = (state) => (GOOD.includes(state) ? "good" : BAD.includes(state) ? "bad" : "");

export function mount(root, app) {
  const { t, gateway } = app;
  const places = {},
    timers = {};
  root.append(h("h1", {}, t("nav.now")));
  for (const [name, show] of Object.entries(PARTS)) {
    places[name] = h("div");
    places[name].show = () => fill(places[name], () => show(app, places[name].show));
    root.append(section(t(`now.${name}`), places[name]));
    places[name].show();
  }
  const look = (name) =>
    (timers[name] ??= setTimeout(() => {
      timers[name] = undefined;
      const at = places[name],
        used = document.activeElement;
      const isUsed = at.querySelector(".spread")?.scrollTop || (at !== used && at.contains(used));
      if (gateway.state === "open" && !isUsed) at.show(); // nobody's place is taken away
    }, SOON_MS));
  const ends = Object.entries(HEARD).map(([event, name]) => gateway.on(event, () => look(name)));
  const again = setInterval(() => Object.keys(PARTS).forEach(look), LOOK_MS);
  return () => {
    clearInterval(again);
    Object.values(timers).forEach(clearTimeout);
    ends.forEach((end) => end());
  };
}

// turns

async function showTurns({ t, gateway }) {
  const { sessions } = await gateway.ask("sessions.list", { limit: 500, activeMinutes: 1440 });
  const byKey = new Map(sessions.map((each) => [each.key, each])),
    below = new Map();
  const live = new Set();
  for (const each of sessions) {
    below.set(each.spawnedBy, [...(below.get(each.spawnedBy) ?? []), each]);
    if (each.running) for (let at = each; at && !live.has(at.key); at = byKey.get(at.spawnedBy)) live.add(at.key);
  }
  const seen = new Set();
  const draw = (each) => {
    if (seen.has(each.key)) return null;
    seen.add(each.key);
    const inside = (below.get(each.key) ?? []).map(draw).filter(Boolean);
    return h(
      "li",
      {},
      badge(t(each.running ? "now.running" : "now.idle"), each.running ? "good" : ""),
      " ",
      h("a", { href: `#/chat/${encodeURIComponent(each.key)}` }, each.title || each.key),
      " ",
      h("small", { class: "soft" }, `${each.model} · `, showTime(each.updatedAt)),
      inside.length ? h("ul", {}, inside) : null,
    );
  };
  const roots = sessions.filter((each) => live.has(each.key) && !byKey.has(each.spawnedBy));
  if (!roots.length) return h("p", { class: "soft" }, t("now.quiet"));
  return h("ul", { class: "tree" }, roots.map(draw));
}

// jobs

async function showJobs({ t, gateway }, again) {
  const { jobs } = await gateway.ask("cron.list", { includeDisabled: true, upcoming: MAX_UPCOMING });
  if (!jobs.length) return h("p", { class: "soft" }, t("now.nojobs"));
  const when = (job) => (Number.isFinite(job.state?.nextRunAtMs) ? showTime(job.state.nextRunAtMs) : "–");
  const rows = table(
    t,
    t("now.jobs"),
    [
      [t("now.name"), (job) => job.name || job.id],
      [t("now.schedule"), (job) => describeSchedule(t, job.schedule)],
      [t("now.next"), when],
      [
        t("now.last"),
        ({ state }) =>
          state?.lastRunAtMs
            ? [showTime(state.lastRunAtMs), " ", badge(state.lastStatus ?? "–", colourState(state.lastStatus))]
            : "–",
      ],
      [
        t("now.state"),
        ({ state, enabled }) =>
          state?.runningAtMs ? badge(t("now.running"), "good") : badge(t(enabled ? "now.waiting" : "now.off")),
      ],
      [
        t("now.act"),
        (job) => {
          const asked = { id: job.id, mode: "force" },
            said = h("div");
          const run = () => fill(said, () => gateway.ask("cron.run", asked).then(again));
          const props = { "aria-label": t("now.runjob", { name: job.name || job.id }) };
          return gateway.may("operator.write") && [button(t("now.run"), run, props), said];
        },
      ],
    ],
    jobs,
  );
  return [rows, drawCalendar(t, jobs)];
}

function describeSchedule(t, schedule) {
  if (schedule?.kind === "every") return t("now.every", { span: showSpan(schedule.everyMs) });
  if (schedule?.kind === "at") return showTime(schedule.atMs ?? Date.parse(schedule.at));
  return h("code", {}, [schedule?.expr, schedule?.tz].filter(Boolean).join(" · ") || "–");
}

function drawCalendar(t, jobs) {
  const lang = document.documentElement.lang,
    now = new Date(),
    days = new Map();
  for (const job of jobs) {
    for (const at of job.state?.upcomingMs ?? [job.state?.nextRunAtMs]) {
      if (!Number.isFinite(at)) continue;
      const day = new Date(at).toDateString(),
        held = days.get(day) ?? new Map();
      days.set(day, held.set(job, [...(held.get(job) ?? []), at]));
    }
  }
  const first = new Date(now.getFullYear(), now.getMonth(), 1),
    offset = (first.getDay() + 6) % 7;
  const count = new Date(now.getFullYear(), now.getMonth() + 1, 0).getDate();
  const cell = (at) => {
    const day = new Date(first.getFullYear(), first.getMonth(), at - offset + 1);
    const held = [...(days.get(day.toDateString()) ?? [])],
      left = held.length - MAX_BADGES;
    const runs = held.slice(0, MAX_BADGES).map(([job, times]) => {
      const hour = formatTime(times[0], { timeStyle: "short" });
      return badge(`${hour} ${job.name || job.id}${times.length > 1 ? ` ×${times.length}` : ""}`);
    });
    const isToday = day.toDateString() === now.toDateString(),
      isOut = day.getMonth() !== first.getMonth();
    const props = { class: isToday ? "today" : isOut ? "soft" : null, "aria-current": isToday ? "date" : null };
    return h("td", props, day.getDate(), runs, left > 0 && badge(t("views.more", { count: left })));
  };
  const weeks = Array.from({ length: Math.ceil((offset + count) / 7) }, (_, week) =>
    h(
      "tr",
      {},
      Array.from({ length: 7 }, (_, day) => cell(week * 7 + day)),
    ),
  );
  const weekday = new Intl.DateTimeFormat(lang, { weekday: "short", timeZone: "UTC" });
  const names = Array.from({ length: 7 }, (_, day) => h("th", { scope: "col" }, weekday.format(MONDAY + day * DAY_MS)));
  const title = new Intl.DateTimeFormat(lang, { month: "long", year: "numeric" }).format(first);
  const heads = h("thead", {}, h("tr", {}, names));
  return scroller(title, h("table", { class: "calendar" }, h("caption", {}, title), heads, h("tbody", {}, weeks)));
}

// devices

async function showNodes({ t, gateway }) {
  const { nodes } = await gateway.ask("node.list");
  if (!nodes.length) return h("p", { class: "soft" }, t("now.nonodes"));
  return h(
    "div",
    { class: "cards" },
    nodes.map((node) => {
      const picture = h("div", { "aria-live": "polite" });
      const take = (command) =>
        fill(picture, async () => {
          const asked = { nodeId: node.nodeId, command, idempotencyKey: makeId() };
          return showPicture(t, await gateway.ask("node.invoke", asked));
        });
      const able = gateway.may("operator.write") && node.connected ? PICTURES : [];
      const buttons = able
        .filter((each) => node.commands?.includes(each))
        .map((each) => button(t("now.snapshot", { command: each }), () => take(each)));
      return h(
        "article",
        { class: "card" },
        h("h3", {}, node.displayName || node.nodeId),
        h(
          "p",
          {},
          badge(t(node.connected ? "now.connected" : "now.away"), node.connected ? "good" : ""),
          " ",
          [node.platform, node.version, node.remoteIp].filter(Boolean).join(" · "),
        ),
        h("p", { class: "soft" }, (node.commands ?? []).join(", ") || t("now.nocommands")),
        h("div", { class: "row wrap" }, buttons),
        picture,
      );
    }),
  );
}

function showPicture(t, answer) {
  const told = answer?.payload ?? answer ?? {},
    kind = String(told.format ?? "").replace("jpg", "jpeg");
  const isPicture = /^(png|jpeg|webp|gif)$/.test(kind) && /^[A-Za-z0-9+/=\s]+$/.test(told.base64 ?? "");
  if (!isPicture) throw new Error(t("now.nopicture"));
  return h("img", { src: `data:image/${kind};base64,${told.base64}`, alt: t("now.picture") });
}

async function showClients({ t, gateway }) {
  const clients = await gateway.ask("system-presence");
  return table(
    t,
    t("now.clients"),
    [
      [t("now.name"), (each) => each.displayName || each.host || each.id],
      [t("now.mode"), (each) => [each.role, each.mode, each.platform].filter(Boolean).join(" · ")],
      [t("now.device"), (each) => each.deviceId],
      [t("now.address"), (each) => each.ip ?? "–"],
      [t("now.since"), (each) => showTime(each.ts)],
    ],
    clients,
  );
}

// MCP servers

const PINS = ["accepted", "new", "changed", "gone"];

async function showServers({ t, gateway }, again) {
  const isOwner = gateway.may("operator.admin");
  const { servers, problems } = isOwner
    ? await gateway.ask("mcp.list")
    : { servers: await gateway.ask("mcp.status"), problems: [] };
  if (!servers.length && !problems.length) return h("p", { class: "soft" }, t("now.noservers"));
  return [
    ...problems.map(complain),
    h(
      "div",
      { class: "cards" },
      servers.map((each) => {
        const changes = h("div", { "aria-live": "polite" });
        const pins = PINS.map((standing) => [standing, each.tools.filter((tool) => tool.standing === standing)]);
        const waits = each.tools.some(({ standing }) => standing === "changed" || standing === "new");
        const look = () => fill(changes, () => showChanges(t, gateway, each.server, again));
        return h(
          "article",
          { class: "card" },
          h("h3", {}, each.server),
          h("p", {}, badge(each.state, colourState(each.state)), " ", each.about),
          pins
            .filter(([, tools]) => tools.length)
            .map(([standing, tools]) =>
              h(
                "p",
                {},
                badge(t(`now.pin.${standing}`, { count: tools.length }), standing === "accepted" ? "good" : "warn"),
                " ",
                tools.map(({ tool }) => tool).join(", "),
              ),
            ),
          each.problems.map((sentence) => h("p", { class: "warn" }, sentence)),
          waits && isOwner ? button(t("now.review"), look) : null,
          changes,
        );
      }),
    ),
  ];
}

async function showChanges(t, gateway, server, again) {
  const { changes } = await gateway.ask("mcp.changes", { server });
  const write = (value) => (value ? writeJson(value) : "");
  return changes.map(({ tool, before, after, digest }) => {
    const said = h("div");
    const accept = () => fill(said, async () => (await gateway.ask("mcp.accept", { server, tool, digest }), again()));
    return h(
      "div",
      {},
      h("h4", {}, tool),
      showDiff(t, write(before), write(after)),
      button(t("now.accept", { tool }), accept),
      said,
    );
  });
}

// channels

async function showChannels({ t, gateway }) {
  const [{ channels }, { notInForce }] = await Promise.all([gateway.ask("channels.status"), gateway.ask("status")]);
  const told = notInForce ? complain(`${t("settings.invalid")}: ${notInForce}`) : null;
  return h(
    "div",
    {},
    told,
    table(
      t,
      t("now.channels"),
      [
        [t("now.name"), (each) => each.channel],
        [t("now.state"), (each) => badge(each.state, colourState(each.state))],
        [t("now.direct"), (each) => each.dmPolicy],
        [t("now.waits"), (each) => showNumber(each.invitations?.length)],
        [t("now.problem"), (each) => each.problem ?? "", "wide"],
      ],
      channels,
    ),
  );
}
