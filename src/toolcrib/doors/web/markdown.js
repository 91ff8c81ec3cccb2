// Markdown as nodes of the document, never as markup: what is not understood stays the text it is.
//
// Every step takes time in proportion to the text, whatever the text: no regular expression looks twice, nesting has an
// end, and a link or a code that is never closed is looked for once.

import { add, h } from "./dom.js";

const MAX_DEPTH = 12; // of quotes and lists
const MAX_OPEN = 32; // emphases and links that are open at once
const MAX_ADDRESS = 2048;
const PICTURE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?:[ \t]+(.*))?$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:([ \t]+)(.*)|)$/;
const ROW_RULE = /^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/;
const TASK = /^\[([ xX])\][ \t]+/;

// Return a text as a fragment; `t` names the button that copies code.
export function render(text, t = (key) => key) {
  const fragment = document.createDocumentFragment();
  return add(fragment, readBlocks(text.replace(/\r\n?/g, "\n").split("\n"), 0, t));
}

function readBlocks(lines, depth, t) {
  const blocks = [];
  let at = 0,
    said = [];
  const endParagraph = () => {
    if (said.length) blocks.push(h("p", {}, readInline(said.join("\n"))));
    said = [];
  };
  while (at < lines.length) {
    const line = lines[at];
    let found;
    if (line.trim() === "") {
      endParagraph();
      at++;
    } else if ((found = FENCE.exec(line))) {
      endParagraph();
      at = readFence(lines, at, found, blocks, t);
    } else if ((found = HEADING.exec(line))) {
      endParagraph();
      const level = Math.min(found[1].length + 2, 6); // the page has headings of its own above these
      blocks.push(h(`h${level}`, {}, readInline((found[2] ?? "").replace(/[ \t]#+[ \t]*$/, "").trim())));
      at++;
    } else if (RULE.test(line)) {
      endParagraph();
      blocks.push(h("hr"));
      at++;
    } else if (said.length === 0 && /^(?: {4}|\t)/.test(line)) {
      let end = findEnd(lines, at, (each) => /^(?: {4}|\t|\s*$)/.test(each));
      while (lines[end - 1].trim() === "") end--;
      blocks.push(
        renderCode(
          lines
            .slice(at, end)
            .map((each) => each.replace(/^(?: {1,4}|\t)/, ""))
            .join("\n"),
          "",
          t,
        ),
      );
      at = end;
    } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
      endParagraph();
      const end = findEnd(lines, at, (each) => /^ {0,3}>/.test(each));
      const inside = lines.slice(at, end).map((each) => each.replace(/^ {0,3}> ?/, ""));
      blocks.push(h("blockquote", {}, readBlocks(inside, depth + 1, t)));
      at = end;
    } else if ((found = ITEM.exec(line)) && depth < MAX_DEPTH && (said.length === 0 || found[4])) {
      endParagraph();
      at = readList(lines, at, found, depth, blocks, t);
    } else if (line.includes("|") && at + 1 < lines.length && said.length === 0 && isTable(line, lines[at + 1])) {
      at = readTable(lines, at, blocks);
    } else {
      said.push(line.trim() === line ? line : line.replace(/^[ \t]+/, ""));
      at++;
    }
  }
  endParagraph();
  return blocks;
}

function findEnd(lines, at, holds) {
  while (at < lines.length && holds(lines[at])) at++;
  return at;
}

function readFence(lines, at, [, mark, about], blocks, t) {
  const closes = (line) => {
    const bare = line.trim();
    return bare.length >= mark.length && bare[0] === mark[0] && bare === mark[0].repeat(bare.length);
  };
  const end = findEnd(lines, at + 1, (line) => !closes(line));
  blocks.push(renderCode(lines.slice(at + 1, end).join("\n"), about.trim().split(/\s/)[0], t));
  return end + 1;
}

// Return a block of code, with its language and a button that copies it.
export function renderCode(code, name, t) {
  const copy = ({ currentTarget }) =>
    navigator.clipboard?.writeText(code).then(
      () => (currentTarget.textContent = t("app.copied")),
      () => {},
    );
  return h(
    "div",
    { class: "code" },
    h(
      "div",
      { class: "code-head" },
      h("span", {}, name.slice(0, 32)),
      h("button", { class: "bare", onclick: copy }, t("app.copy")),
    ),
    h("pre", { tabIndex: 0 }, h("code", {}, name === "diff" ? colorDiff(code) : code)),
  );
}

// Return the lines of a diff, each as what it is; they may all stand behind an indent.
export function colorDiff(text, indent = "") {
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  const kindOf = (line) => (/^(---|\+\+\+) /.test(line) ? "place" : kinds[line[0]]);
  const colour = (line) => line.startsWith(indent) && kindOf(line.slice(indent.length));
  return text.split("\n").map((line) => h("span", { class: colour(line) }, `${line}\n`));
}

function readList(lines, at, [, , mark], depth, blocks, t) {
  const isOrdered = /\d/.test(mark),
    kind = mark.at(-1);
  const list = h(isOrdered ? "ol" : "ul", isOrdered && parseInt(mark, 10) !== 1 ? { start: parseInt(mark, 10) } : {});
  while (at < lines.length) {
    const found = ITEM.exec(lines[at]);
    if (!found || found[2].at(-1) !== kind || RULE.test(lines[at])) break;
    const width = found[1].length + found[2].length + Math.min((found[3] ?? " ").length, 4);
    const inside = [found[4] ?? ""];
    for (at++; at < lines.length; at++) {
      const line = lines[at],
        indent = line.search(/[^ ]/);
      const rest = line.slice(Math.min(Math.max(indent, 0), width));
      if (indent >= width || (indent >= 2 && ITEM.test(rest))) inside.push(rest);
      else if (indent < 0 && at + 1 < lines.length && lines[at + 1].search(/[^ ]/) >= width) inside.push("");
      else if (indent >= 0 && inside.at(-1) !== "" && !ITEM.test(line) && !startsBlock(line)) inside.push(line.trim());
      else break;
    }
    list.append(readItem(inside, depth, t));
    if (at < lines.length && lines[at].trim() === "" && at + 1 < lines.length && ITEM.test(lines[at + 1])) at++;
  }
  blocks.push(list);
  return at;
}

function readItem(inside, depth, t) {
  const task = TASK.exec(inside[0]);
  if (task) inside[0] = inside[0].slice(task[0].length);
  const [first, ...rest] = readBlocks(inside, depth + 1, t);
  const words = first?.tagName === "P" ? [...first.childNodes] : first; // tight: no paragraph around a line
  return h("li", {}, task && (task[1] === " " ? "☐ " : "☑ "), words, rest);
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}>/.test(line);
}

function isTable(head, rule) {
  return ROW_RULE.test(rule.trim()) && splitRow(head).length === splitRow(rule).length;
}

function readTable(lines, at, blocks) {
  const sides = splitRow(lines[at + 1]).map((cell) =>
    cell.startsWith(":") && cell.endsWith(":") ? "center" : cell.endsWith(":") ? "right" : null,
  );
  const make = (tag, line) => {
    const cells = splitRow(line);
    const most = line.length + 1; // many short rows below a wide head are no more cells than there are letters
    return h(
      "tr",
      {},
      sides.slice(0, most).map((side, at) => h(tag, { class: side }, readInline(cells[at] ?? ""))),
    );
  };
  const end = findEnd(lines, at + 2, (line) => line.includes("|") && line.trim() !== "");
  blocks.push(
    h(
      "div",
      { class: "table", tabIndex: 0 },
      h(
        "table",
        {},
        h("thead", {}, make("th", lines[at])),
        h(
          "tbody",
          {},
          lines.slice(at + 2, end).map((line) => make("td", line)),
        ),
      ),
    ),
  );
  return end;
}

function splitRow(line) {
  const cells = [];
  let cell = "",
    isCode = false;
  const bare = line.trim().replace(/^\|/, "");
  for (let at = 0; at < bare.length; at++) {
    if (bare[at] === "\\" && bare[at + 1] === "|") cell += bare[++at];
    else if (bare[at] === "|" && !isCode) {
      cells.push(cell.trim());
      cell = "";
    } else {
      if (bare[at] === "`") isCode = !isCode;
      cell += bare[at];
    }
  }
  if (cell.trim() || !bare.endsWith("|")) cells.push(cell.trim());
  return cells;
}

// Within a line. `out` holds nodes and texts; what is open remembers where in it it began.
function readInline(text) {
  const out = [],
    open = [],
    ticks = findTicks(text);
  let plain = 0,
    at = 0; // what stands between these is plain text so far
  const flush = (end) => {
    if (end > plain) out.push(text.slice(plain, end));
  };
  const replace = (length, ...nodes) => {
    flush(at);
    out.push(...nodes);
    at += length;
    plain = at;
  };
  while (at < text.length) {
    const mark = text[at];
    if (mark === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) {
      replace(2, text[at + 1]);
    } else if (mark === "\n") {
      flush(at);
      const isBreak = text.endsWith("  ", at) || text[at - 1] === "\\";
      out.push(isBreak ? h("br") : "\n");
      plain = ++at;
    } else if (mark === "`") {
      const length = ticks.lengthAt(at),
        end = ticks.findClose(at, length);
      if (end < 0) at += length;
      else replace(end + length - at, h("code", {}, trimCode(text.slice(at + length, end))));
    } else if (mark === "[" || (mark === "!" && text[at + 1] === "[")) {
      const length = mark === "!" ? 2 : 1;
      if (open.length >= MAX_OPEN) at += length;
      else {
        flush(at);
        open.push({ mark, place: out.length });
        out.push(text.slice(at, at + length));
        plain = at += length;
      }
    } else if (mark === "]") {
      closeBracket();
    } else if (mark === "*" || mark === "_" || mark === "~") {
      readEmphasis(mark);
    } else if (
      mark === "h" &&
      /^https?:\/\/[^\s<>"'`|\\]/.test(text.slice(at, at + 9)) &&
      !/\w/.test(text[at - 1] ?? "")
    ) {
      const found = readAddress(text, at);
      const link = makeLink(found, [found]);
      if (link) replace(found.length, link);
      else at += found.length;
    } else if (mark === "<" && /^<(?:https?:|mailto:)/.test(text.slice(at, at + 9))) {
      const end = text.slice(at, at + MAX_ADDRESS).search(/[\s>]/),
        found = end > 0 ? text.slice(at + 1, at + end) : "";
      const link = text[at + end] === ">" ? makeLink(found, [found]) : null;
      if (link) replace(end + 1, link);
      else at++;
    } else at++;
  }
  flush(text.length);
  return out;

  // A bracket closes a link or a picture when an address follows; else it is a bracket.
  function closeBracket() {
    const last = open.findLastIndex(({ mark }) => mark === "[" || mark === "!");
    if (last < 0) return void at++;
    const { mark, place } = open[last],
      target = text[at + 1] === "(" ? readTarget(text, at + 2) : null;
    if (target === null) {
      open.splice(last, 1);
      return void at++;
    }
    flush(at);
    const inside = out.splice(place).slice(1);
    open.length = last; // an emphasis that was opened inside ends here, as the text it is
    const node = mark === "!" ? makePicture(target.address, inside) : makeLink(target.address, inside);
    out.push(node ?? add(document.createDocumentFragment(), inside, ` (${target.address})`));
    plain = at = target.end;
  }

  function readEmphasis(mark) {
    let length = 1;
    while (text[at + length] === mark) length++;
    const before = text[at - 1] ?? " ",
      after = text[at + length] ?? " ";
    const isWord = (each) => /[\p{L}\p{N}]/u.test(each);
    const opens = !/\s/.test(after) && (mark !== "_" || !isWord(before));
    const closes = !/\s/.test(before) && (mark !== "_" || !isWord(after));
    if (length > 3 || (mark === "~" && length !== 2)) return void (at += length);
    const last = closes ? open.findLastIndex((each) => each.mark === mark && each.length === length) : -1;
    if (last >= 0 && out.length + Number(at > plain) > open[last].place + 1) {
      const { place } = open[last];
      flush(at);
      const inside = out.splice(place).slice(1);
      open.length = last;
      out.push(wrap(mark, length, inside));
      plain = at += length;
    } else if (opens && open.length < MAX_OPEN) {
      flush(at);
      open.push({ mark, length, place: out.length });
      out.push(text.slice(at, at + length));
      plain = at += length;
    } else at += length;
  }
}

function wrap(mark, length, inside) {
  if (mark === "~") return h("s", {}, inside);
  return length === 1
    ? h("em", {}, inside)
    : length === 2
      ? h("strong", {}, inside)
      : h("strong", {}, h("em", {}, inside));
}

function trimCode(code) {
  const flat = code.replaceAll("\n", " ");
  return flat.length > 2 && flat.startsWith(" ") && flat.endsWith(" ") && flat.trim() ? flat.slice(1, -1) : flat;
}

// Runs of backticks by their length, so that one that is never closed is looked for once.
function findTicks(text) {
  const runs = new Map(),
    lengths = new Map();
  for (let at = text.indexOf("`"); at >= 0; at = text.indexOf("`", at)) {
    const from = at;
    while (text[at] === "`") at++;
    lengths.set(from, at - from);
    if (!runs.has(at - from)) runs.set(at - from, { places: [], next: 0 });
    runs.get(at - from).places.push(from);
  }
  return {
    lengthAt: (at) => lengths.get(at) ?? 1,
    findClose(at, length) {
      const run = runs.get(length);
      while (run && run.next < run.places.length && run.places[run.next] <= at) run.next++;
      return run?.places[run.next] ?? -1;
    },
  };
}

function readAddress(text, at) {
  const piece = text.slice(at, at + MAX_ADDRESS),
    end = piece.search(/[\s<>"`|\\\]]/);
  const found = end < 0 ? piece : piece.slice(0, end),
    loose = found.includes("(") ? ".,;:!?'*_~" : ".,;:!?'*_~)";
  let length = found.length;
  while (length > 0 && loose.includes(found[length - 1])) length--;
  return found.slice(0, length);
}

// Read `address "title")` and return the address and where it ends, null where it does not.
function readTarget(text, from) {
  let at = from,
    depth = 0;
  for (; at < text.length && at - from < MAX_ADDRESS * 512; at++) {
    if (text[at] === "(" && ++depth > 1) return null;
    else if (text[at] === ")" && depth-- === 0) {
      return { address: text.slice(from, at).replace(/^<|>$/g, ""), end: at + 1 };
    } else if (/\s/.test(text[at])) break;
  }
  const title = /^[ \t]+"[^"\n]{0,300}"[ \t]*\)/.exec(text.slice(at, at + 320));
  return title && depth === 0 ? { address: text.slice(from, at), end: at + title[0].length } : null;
}

// Return a link that leads out in a window of its own, null where the address is of no kind that may be followed.
export function makeLink(address, inside) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null; // no whole address
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol) || address.length > MAX_ADDRESS) return null;
  return h("a", { href: url.href, rel: "noopener noreferrer", target: "_blank", title: url.href }, inside);
}

// A picture is shown when it is in the text or the gateway's own; one from elsewhere would tell who looks at it.
function makePicture(address, inside) {
  const alt = inside.map((each) => (typeof each === "string" ? each : each.textContent)).join("");
  const isOwn = /^\/[\w./%-]*$/.test(address) && !address.startsWith("//");
  if (PICTURE.test(address) || isOwn) return h("img", { src: address, alt, loading: "lazy" });
  return makeLink(address, [alt || address]);
}
