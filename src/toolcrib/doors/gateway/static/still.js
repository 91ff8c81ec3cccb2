// The still of a page: what stands in it now, as a document without scripts, for a picture of what people have.
"use strict";
(() => {
  const MAX_CHARS = 1000000, SKIPPED = new Set(["SCRIPT", "NOSCRIPT", "BASE", "META"]);

  // how an element stands is not in its attributes: what was typed, picked, drawn and styled by scripts
  function settle(made, node) {
    if (node instanceof HTMLInputElement && node.type !== "file") {
      made.setAttribute("value", node.value);
      made.toggleAttribute("checked", node.checked);
    } else if (node instanceof HTMLTextAreaElement) made.textContent = node.value;
    else if (node instanceof HTMLOptionElement) made.toggleAttribute("selected", node.selected);
    else if (node instanceof HTMLStyleElement && node.sheet) made.textContent = list(node.sheet);
    else if (node instanceof HTMLCanvasElement) {
      made.style.background = `content-box 0 0 / 100% 100% no-repeat url("${node.toDataURL()}")`;
    }
  }

  const list = (sheet) => [...sheet.cssRules].map((rule) => rule.cssText).join("\n");

  function copy(node, into) {
    const made = into.importNode(node, false);
    try { settle(made, node); } catch { /* what cannot be read stays as it was written */ }
    for (const root of [node, node.shadowRoot]) {
      const there = root === node ? made : root && made.appendChild(into.createElement("template"));
      if (root && root !== node) there.setAttribute("shadowrootmode", "open");
      const hides = root === node && /^(TEXTAREA|STYLE|CANVAS|TEMPLATE)$/.test(node.nodeName);
      for (const child of hides || !root ? [] : root.childNodes) {
        if (!SKIPPED.has(child.nodeName)) (there.content ?? there).append(copy(child, into));
      }
      for (const sheet of (root === node ? [] : root?.adoptedStyleSheets) ?? []) {
        there.content.append(Object.assign(into.createElement("style"), { textContent: list(sheet) }));
      }
    }
    return made;
  }

  window.openclawStill = () => {
    const into = document.implementation.createHTMLDocument(""), page = copy(document.documentElement, into);
    for (const sheet of document.adoptedStyleSheets) {
      page.append(Object.assign(into.createElement("style"), { textContent: list(sheet) }));
    }
    const html = (document.doctype ? "<!doctype html>" : "") + page.outerHTML;
    return JSON.stringify({ html: html.slice(0, MAX_CHARS), width: innerWidth, height: innerHeight, top: scrollY });
  };
})();
