// The canvas of a session, framed from an origin of its own: nothing in it reaches this page.

import { h } from "../dom.js";
import { button, field, fill, select } from "./pieces.js";

// It keeps its own origin, which is not this one, so that its socket is let in; it opens no windows and leads nowhere.
const SANDBOX = "allow-scripts allow-forms allow-same-origin";

export function mount(root, { gateway, t, go }, [wanted]) {
  const show = () =>
    fill(root, async () => {
      const { canvases } = await gateway.ask("canvas.list");
      const chosen = canvases.find((each) => each.sessionKey === wanted) ?? canvases[0];
      const head = h("h1", {}, t("nav.canvas")),
        again = button(t("canvas.again"), show);
      if (!chosen) return [head, h("p", { class: "soft" }, t("canvas.none")), h("div", { class: "row" }, again)];
      const open = ({ target }) => go(`#/canvas/${encodeURIComponent(target.value)}`);
      const options = canvases.map((each) => [each.sessionKey, each.sessionKey]);
      const src = seeFromHere(chosen.url),
        title = t("canvas.of", { key: chosen.sessionKey });
      const bar = h(
        "div",
        { class: "row wrap" },
        field(t("canvas.session"), select("session", options, chosen.sessionKey, { onchange: open })),
        again,
        h("a", { href: src, target: "_blank", rel: "noopener noreferrer" }, t("canvas.tab")),
      );
      const frame = h("iframe", { src, title, sandbox: SANDBOX, referrerpolicy: "no-referrer" });
      return [head, bar, chosen.hidden ? h("p", { class: "soft" }, t("canvas.hidden")) : null, frame];
    });
  show();
}

// The host is the one that this page was reached by: a browser elsewhere finds no 127.0.0.1 of ours.
function seeFromHere(url) {
  const there = new URL(url);
  there.hostname = location.hostname;
  return there.href;
}
