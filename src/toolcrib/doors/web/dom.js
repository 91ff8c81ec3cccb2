// Elements. Whatever is not an element becomes a text node: no markup is ever read here.

const SVG = "http://www.w3.org/2000/svg";
const SHAPES = new Set(["svg", "path", "g", "line", "rect", "circle", "polyline", "text", "title"]);
const PLAIN = new Set(["value", "checked", "selected", "disabled", "hidden", "open", "htmlFor", "tabIndex"]);

// Make an element: h("button", {class: "main", onclick: send, "aria-label": "Send"}, "Send").
// `on...` is a listener, `data` an object for dataset, `style` an object of CSS properties, null and false leave out.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

// Make an element of SVG.
export function s(tag, props, ...children) {
  if (!SHAPES.has(tag)) throw new Error(`no shape ${tag}`);
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "style") for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    else if (PLAIN.has(name)) element[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
  return element;
}

// Add children: elements as they are, lists one by one, null and false not at all, the rest as text.
export function add(parent, ...children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child))
      child.forEach((each) => add(parent, each)); // not spread: it may be very long
    else parent.append(child instanceof Node ? child : String(child));
  }
  return parent;
}

// Put these in place of what an element holds.
export function put(parent, ...children) {
  parent.replaceChildren();
  return add(parent, ...children);
}

const UNSEEN = /[^\n\P{C}]|[\u2028\u2029]|\p{Default_Ignorable_Code_Point}/gu;

// Write a value as JSON in which all is seen: marks that hide, or turn the direction of writing, are written out.
export function writeJson(value, indent = 2) {
  const spell = (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return (JSON.stringify(value, null, indent) ?? "").replace(UNSEEN, (found) => found.split("").map(spell).join(""));
}

const ICONS = {
  chat: "M4 5h16v11H9l-5 4z",
  who: "M12 3l8 3v6c0 5-3.5 8-8 9-4.500-1-8-4-8-9V6z",
  now: "M3 12h4l3-7 4 14 3-7h4",
  record: "M6 3h12v18H6zM9 8h6M9 12h6M9 16h4",
  usage: "M4 20V10M10 20V4M16 20v-7M3 20h18",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4",
  canvas: "M3 5h18v14H3zM3 9h18",
  plus: "M12 5v14M5 12h14",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  stop: "M7 7h10v10H7z",
  send: "M5 12h14M13 6l6 6-6 6",
  mic: "M12 4a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V7a3 3 0 0 1 3-3zM6 12a6 6 0 0 0 12 0M12 18v3",
  speak: "M4 10v4h4l5 4V6l-5 4zM17 9a4 4 0 0 1 0 6",
  clip: "M8 12l6-6a3 3 0 0 1 4 4l-8 8a4.500 4.500 0 0 1-6-6l7-7",
  side: "M3 5h18v14H3zM9 5v14",
  close: "M6 6l12 12M18 6L6 18",
  down: "M12 5v14M6 13l6 6 6-6",
};

// Draw an icon; it says nothing by itself, so whatever holds it has a name.
export function icon(name) {
  const line = { stroke: "currentColor", "stroke-width": "1.8", "stroke-linecap": "round", "stroke-linejoin": "round" };
  const shape = s("path", { d: ICONS[name], fill: "none", ...line });
  return s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, shape);
}

// Show a dialog with the focus inside, and tell `closed` when it has gone; the browser keeps the focus and Escape.
export function openDialog(props, ...children) {
  const { closed, ...rest } = props;
  const dialog = h("dialog", rest, ...children);
  dialog.addEventListener("close", () => {
    dialog.remove();
    closed?.(dialog.returnValue);
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// Ask for a yes, or for a line of text where `value` is given; resolves to null when it was left.
export function ask(t, question, { value = undefined, yes = undefined } = {}) {
  return new Promise((resolve) => {
    const field =
      value === undefined ? null : h("input", { value, "aria-label": question, maxlength: 64, autofocus: true });
    const form = h(
      "form",
      { method: "dialog" },
      h("h2", { id: "asked" }, question),
      field,
      h(
        "div",
        { class: "row end" },
        h(
          "button",
          { value: "no", formnovalidate: true, type: "button", onclick: () => dialog.close("no") },
          t("app.cancel"),
        ),
        h("button", { value: "yes", class: "main" }, yes ?? t("app.ok")),
      ),
    );
    const closed = (said) => resolve(said === "yes" ? (field ? field.value.trim() : true) : null);
    const dialog = openDialog({ class: "small", "aria-labelledby": "asked", closed }, form);
  });
}
