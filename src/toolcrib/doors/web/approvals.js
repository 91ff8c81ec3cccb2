// Questions about calls, wherever on the page somebody is: the whole of what was asked, and what a yes would bind.

import { h, openDialog, put, writeJson } from "./dom.js";
import { colorDiff } from "./markdown.js";
import { formatSpan, formatTime } from "./words.js";

const GUARD_MS = 600; // a key that was meant for something else must not say yes
const TERMS = [600, 3600, 8 * 3600, 86_400]; // seconds

// Watch for questions; returns the button that says how many wait, and what ends it.
export function watchApprovals(app) {
  const { gateway, t } = app;
  let questions = [],
    dialog = null,
    shown = null,
    asked = 0;
  const left = new Set(); // those that somebody has put off
  const button = h("button", { class: "waiting", hidden: true, onclick: () => (left.clear(), openNext()) });

  async function refresh() {
    if (!gateway.may("operator.approvals")) return;
    const mine = ++asked;
    try {
      const told = await gateway.ask("approvals.list");
      if (mine !== asked) return;
      questions = told;
    } catch (error) {
      if (error.code !== "OUT") app.say(error.message);
      return;
    }
    button.hidden = !questions.length;
    button.textContent = t("approvals.wait", { count: questions.length });
    if (shown && !questions.some(({ id }) => id === shown)) dialog?.close("gone");
    openNext();
  }

  function openNext() {
    const next = questions.find(({ id }) => !left.has(id));
    if (dialog || !next) return;
    shown = next.id;
    dialog = openDialog({ class: "approval", "aria-labelledby": "question", closed }, drawQuestion(next));
    dialog.querySelector("pre").focus();
  }

  function closed(how) {
    if (how === "") left.add(shown); // Escape: it goes on waiting
    dialog = shown = null;
    openNext();
  }

  function drawQuestion(question) {
    const choice = drawChoice(question),
      failed = h("p", { class: "failed", role: "alert" });
    const answer = async (params) => {
      yes.disabled = no.disabled = true;
      try {
        await gateway.ask("approvals.answer", { id: question.id, ...params });
        questions = questions.filter(({ id }) => id !== question.id);
        left.add(question.id);
        dialog?.close("answered");
        refresh();
      } catch (error) {
        if (failed.isConnected) put(failed, error.message);
        else app.say(error.message); // somebody else was first: this answer did not count
        yes.disabled = no.disabled = false;
      }
    };
    const yes = h("button", { type: "submit", class: "main", disabled: true }, t("approvals.yes"));
    const refuse = () => answer({ answer: "no" });
    const no = h("button", { type: "button", class: "danger", disabled: true, onclick: refuse }, t("approvals.no"));
    setTimeout(() => (yes.disabled = no.disabled = false), GUARD_MS);
    return h(
      "form",
      { onsubmit: (event) => (event.preventDefault(), answer(choice.read())) },
      h("h2", { id: "question", dir: "auto" }, t("approvals.may", { tool: question.tool })),
      h("p", { dir: "auto" }, t("approvals.because", { reason: question.reason })),
      h("pre", { class: "sheet-text", tabIndex: 0, "aria-label": t("approvals.sheet") }, drawSheet(question.shown)),
      choice.element,
      question.always &&
        h(
          "details",
          {},
          h("summary", {}, t("approvals.always")),
          h("p", {}, t("approvals.always.how", { path: question.always.path.join(".") })),
          h("pre", { tabIndex: 0 }, writeJson(question.always.entry)),
        ),
      failed,
      h(
        "div",
        { class: "row" },
        h("span", { class: "grow soft" }, t("approvals.until", { time: formatTime(question.expiresAt * 1000) })),
        h("button", { type: "button", onclick: () => dialog.close("") }, t("approvals.later")),
        no,
        yes,
      ),
    );
  }

  // What a yes would be for, and for how long: once, unless somebody says otherwise.
  function drawChoice({ lasting, once }) {
    if (!lasting.length) {
      const element = h("p", { class: "soft" }, t("approvals.once.only", { why: once }));
      return { element, read: () => ({ answer: "once" }) };
    }
    const field = (name, control) => h("label", {}, t(`approvals.${name}`), control);
    const which = h(
      "select",
      {},
      lasting.map((words, at) => h("option", { value: at }, words)),
    );
    const term = h(
      "select",
      {},
      TERMS.map((each) => h("option", { value: each }, formatSpan(each))),
    );
    const calls = h("input", { type: "number", min: 2, max: 1000, placeholder: "∞" });
    const more = h("div", { class: "more", hidden: true }, field("which", which), field("calls", calls));
    const bound = h("p", { class: "soft", role: "status" });
    const radio = (value, control) =>
      h(
        "label",
        { class: "row" },
        h("input", { type: "radio", name: "answer", value, checked: value === "once" }),
        t(`approvals.${value}`),
        control,
      );
    const element = h(
      "fieldset",
      { onchange: sayBound, oninput: sayBound },
      h("legend", {}, t("approvals.binds")),
      radio("once"),
      radio("session"),
      radio("lasting", term),
      more,
      bound,
    );
    term.setAttribute("aria-label", t("approvals.term"));
    const answer = () => element.querySelector("[name=answer]:checked").value;

    function sayBound() {
      more.hidden = answer() === "once";
      const time = formatTime(Date.now() + Number(term.value) * 1000);
      const words = { what: lasting[Number(which.value)], time, count: Number(calls.value) };
      const often = words.count && answer() !== "once" ? ` ${t("approvals.bound.calls", words)}` : "";
      bound.textContent = t(`approvals.bound.${answer()}`, words) + often;
    }

    sayBound();
    const read = () => {
      const said = { answer: answer() };
      if (said.answer !== "once") Object.assign(said, { which: Number(which.value), calls: Number(calls.value) || 0 });
      return said.answer === "lasting" ? { ...said, seconds: Number(term.value) } : said;
    };
    return { element, read };
  }

  const stops = [
    gateway.on("exec.approval.requested", refresh),
    gateway.on("exec.approval.resolved", refresh),
    gateway.on("state", (state) => state === "open" && refresh()),
  ];
  if (gateway.state === "open") refresh();
  return {
    button,
    open: () => (left.clear(), openNext()),
    stop() {
      stops.forEach((each) => each());
      asked++;
      questions = [];
      dialog?.close("gone");
    },
  };
}

// The sheet as it is, with the lines of a diff in their colours.
function drawSheet(text) {
  const at = text.search(/^changes /m);
  return at < 0 ? text : [text.slice(0, at), colorDiff(text.slice(at), "  ")];
}
