// A long list of which only what is seen stands in the document. Rows have whatever height they come to have.

import { h } from "./dom.js";

const GUESS = 72,
  BEYOND = 600; // pixels: of a row that nobody has seen, and that are drawn above and below
const NEAR = 24; // of the end: who is there stays there when more comes

// Show `items`, each with a `key` of its own, by `draw(item) -> element`; `wantsMore` is told when the top comes near.
export function makeList({ label, draw, wantsMore }) {
  const rows = h("div", { class: "rows" });
  const scroller = h("div", { class: "scroller", role: "region", "aria-label": label, tabIndex: 0 }, rows);
  const heights = new Map(),
    shown = new Map(); // by key
  let items = [],
    tops = new Float64Array(1),
    isAtEnd = true,
    isDue = false;
  let placed = 0; // where we have scrolled to ourselves

  const sizes = new ResizeObserver((entries) => {
    for (const entry of entries) {
      const target = /** @type {HTMLElement} */ (entry.target);
      const key = target.dataset.key,
        height = target.offsetHeight;
      if (height && shown.get(key) === target) heights.set(key, height);
    }
    schedule();
  });
  sizes.observe(scroller);
  scroller.addEventListener("scroll", () => {
    const left = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight;
    if (Math.abs(scroller.scrollTop - placed) > 1) isAtEnd = left < NEAR;
    schedule();
  });

  function schedule() {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      place();
    });
  }

  // The first row that is seen stays where it is while those above it turn out taller or shorter.
  function findAnchor() {
    const at = findRow(scroller.scrollTop);
    return items[at] && { key: items[at].key, offset: scroller.scrollTop - tops[at] };
  }

  function findRow(y) {
    let low = 0,
      high = items.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function measure() {
    if (tops.length !== items.length + 1) tops = new Float64Array(items.length + 1);
    for (let at = 0; at < items.length; at++) tops[at + 1] = tops[at] + (heights.get(items[at].key) ?? GUESS);
  }

  let anchor = null;
  function place() {
    anchor = anchor ?? findAnchor();
    measure();
    rows.style.height = `${tops[items.length]}px`;
    const wanted = isAtEnd
      ? scroller.scrollHeight
      : anchor
        ? tops[findKey(anchor.key)] + anchor.offset
        : scroller.scrollTop;
    if (Math.abs(wanted - scroller.scrollTop) > 1) scroller.scrollTop = wanted;
    anchor = null;
    placed = scroller.scrollTop;
    const first = findRow(scroller.scrollTop - BEYOND);
    const last = findRow(scroller.scrollTop + scroller.clientHeight + BEYOND);
    const kept = new Set();
    let before = null;
    for (let at = first; at <= last && at < items.length; at++) before = show(at, before, kept);
    for (const [key, element] of shown) {
      // whoever has the focus in a row keeps it, wherever the row has gone
      const isHeld = element.contains(document.activeElement) && items.some((each) => each.key === key);
      if (kept.has(key) || isHeld) continue;
      sizes.unobserve(element);
      element.remove();
      shown.delete(key);
    }
    if (scroller.scrollTop < scroller.clientHeight * 2) wantsMore?.();
  }

  function findKey(key) {
    return Math.max(
      0,
      items.findIndex((each) => each.key === key),
    );
  }

  function show(at, before, kept) {
    const { key } = items[at];
    let element = shown.get(key);
    if (!element) {
      element = draw(items[at]);
      element.dataset.key = key;
      shown.set(key, element);
      rows.insertBefore(element, before ? before.nextSibling : rows.firstChild);
      sizes.observe(element);
    }
    element.style.transform = `translateY(${tops[at]}px)`;
    element.setAttribute("aria-posinset", at + 1);
    element.setAttribute("aria-setsize", items.length);
    kept.add(key);
    return element;
  }

  return {
    element: scroller,
    // Show other items; rows whose key is known stay as they are.
    set(list) {
      anchor = findAnchor();
      items = list;
      scroller.setAttribute("role", items.length ? "feed" : "region"); // an empty feed is none
      schedule();
    },
    // Draw a row anew, where it is seen.
    refresh(item) {
      const old = shown.get(item.key);
      if (!old) return;
      const active = /** @type {HTMLElement} */ (document.activeElement);
      const focused = old.contains(active) ? active.dataset.part : null;
      const made = draw(item);
      made.dataset.key = item.key;
      sizes.unobserve(old);
      old.replaceWith(made);
      made.style.transform = old.style.transform;
      shown.set(item.key, made);
      sizes.observe(made);
      if (focused) made.querySelector(`[data-part="${focused}"]`)?.focus();
      schedule();
    },
    // Go to the end, and stay there.
    toEnd() {
      isAtEnd = true;
      schedule();
    },
    isAtEnd: () => isAtEnd,
    stop: () => sizes.disconnect(),
  };
}
