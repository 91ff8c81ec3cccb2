// Shows A2UI (v0.8, and v0.9 read as v0.8) as plain elements. Words become text, never markup.
"use strict";
(() => {
  const MAX_DEPTH = 64, MAX_ELEMENTS = 5000;
  const ICONS = {
    add: "+", arrowBack: "←", arrowForward: "→", calendarToday: "📅", call: "📞", camera: "📷", check: "✓", close: "✕",
    delete: "🗑", download: "⬇", edit: "✎", error: "⛔", event: "📅", favorite: "♥", folder: "📁", help: "?", home: "⌂",
    info: "ℹ", locationOn: "📍", lock: "🔒", mail: "✉", menu: "☰", moreVert: "⋮", notifications: "🔔", pause: "⏸",
    person: "👤", phone: "📞", photo: "🖼", play: "▶", print: "🖨", refresh: "↻", search: "⌕", send: "➤", settings: "⚙",
    share: "↗", shoppingCart: "🛒", star: "★", upload: "⬆", visibility: "👁", warning: "⚠",
  };
  const FLEX = { start: "flex-start", end: "flex-end", spaceBetween: "space-between", spaceAround: "space-around", spaceEvenly: "space-evenly" };
  const stage = document.getElementById("stage");
  const surfaces = new Map();
  let shown = 0;

  function make(tag, className = "", ...inside) {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...inside);
    return element;
  }

  // the data of a surface: what stands at a path, and who is told when that changes

  class Surface {
    components = new Map();
    data = Object.create(null);
    root = "";
    watchers = [];
    isStale = false;
    element = make("section");

    constructor(id) {
      this.id = id;
      stage.append(this.element);
    }

    get(path) {
      let at = this.data;
      for (const key of split(path)) at = at !== null && typeof at === "object" && Object.hasOwn(at, key) ? at[key] : undefined;
      return at;
    }

    put(path, value) {
      const keys = split(path), last = keys.pop();
      if (last === undefined) {
        this.data = value !== null && typeof value === "object" ? value : Object.create(null);
        return;
      }
      if ([...keys, last].includes("__proto__")) return;
      let at = this.data;
      for (const key of keys) {
        if (!Object.hasOwn(at, key) || at[key] === null || typeof at[key] !== "object") at[key] = Object.create(null);
        at = at[key];
      }
      at[last] = value;
    }

    set(path, value) {
      this.put(path, value);
      this.tell();
    }

    tell() {
      for (const watcher of [...this.watchers]) watcher();
      if (this.isStale) this.draw();
    }

    watch(watcher) {
      this.watchers.push(watcher);
      watcher();
    }

    draw() {
      const focused = document.activeElement?.dataset?.at;
      this.watchers = [];
      this.isStale = false;
      this.element.replaceChildren();
      shown = 0;
      if (this.root) this.element.append(build(this, this.root, "", 0));
      if (focused) [...this.element.querySelectorAll("[data-at]")].find((each) => each.dataset.at === focused)?.focus();
    }
  }

  const split = (path) => String(path ?? "").split("/").filter(Boolean).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  const join = (scope, path) => (String(path).startsWith("/") ? String(path) : `${scope}/${path}`);

  // a value of a component: written out, at a path, or both, which sets what stands there

  function literal(value) {
    if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
    for (const key of ["literalString", "literalNumber", "literalBoolean", "literalArray", "literal"]) if (key in value) return value[key];
    return undefined;
  }

  function read(surface, value, scope) {
    if (value === null || typeof value !== "object" || !("path" in value)) return literal(value);
    const path = join(scope, value.path), found = surface.get(path), given = literal(value);
    if (found === undefined && given !== undefined) surface.put(path, given);
    return found ?? given;
  }

  const words = (surface, value, scope) => {
    const found = read(surface, value, scope);
    return found === undefined || found === null ? "" : typeof found === "object" ? JSON.stringify(found) : String(found);
  };

  // a field keeps what was filled in at its path; without one, at a place of its own
  function keep(surface, id, value, scope) {
    const path = value !== null && typeof value === "object" && "path" in value ? join(scope, value.path) : `/ fields/${id}${scope.replaceAll("/", ".")}`;
    const given = literal(value);
    if (surface.get(path) === undefined && given !== undefined) surface.put(path, given);
    return path;
  }

  function field(surface, input, path, tell, take) {
    input.dataset.at = path + (input.value && /checkbox|radio/.test(input.type) ? `=${input.value}` : "");
    surface.watch(() => { if (document.activeElement !== input || /checkbox|radio/.test(input.type)) tell(surface.get(path)); });
    input.addEventListener("input", () => surface.set(path, take()));
    return input;
  }

  function label(surface, value, scope, ...inside) {
    const said = make("span");
    surface.watch(() => { said.textContent = words(surface, value, scope); });
    return make("label", "", said, ...inside);
  }

  // children: a list of ids, or one component for each thing that stands at a path

  function buildAll(each, run) {
    const made = [];
    for (const one of each) {
      if (shown > MAX_ELEMENTS) break; // whatever refers to itself, and however often
      made.push(run(one));
    }
    return made;
  }

  function fill(surface, element, children, scope, depth) {
    const ids = Array.isArray(children) ? children : children?.explicitList;
    if (ids) {
      element.append(...buildAll(ids, (id) => build(surface, id, scope, depth)));
      return element;
    }
    const template = children?.template ?? children;
    if (!template?.componentId) return element;
    const path = join(scope, template.dataBinding ?? template.path ?? "");
    let known = null;
    surface.watch(() => {
      const keys = Object.keys(surface.get(path) ?? {}), mark = JSON.stringify(keys);
      if (known === null) {
        const place = (key) => `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
        element.append(...buildAll(keys, (key) => build(surface, template.componentId, place(key), depth)));
      }
      if (known !== null && mark !== known) surface.isStale = true;
      known = mark;
    });
    return element;
  }

  function build(surface, id, scope, depth) {
    const found = surface.components.get(id);
    if (++shown > MAX_ELEMENTS || depth > MAX_DEPTH || !found) return document.createComment(`no ${id}`);
    const element = (Object.hasOwn(KINDS, found.kind) ? KINDS[found.kind] : unknown)({ surface, id, scope, of: found.of, kind: found.kind, child: (each) => build(surface, each, scope, depth + 1), fill: (node, each) => fill(surface, node, each, scope, depth + 1) });
    if (found.weight !== undefined) element.style.flex = String(Number(found.weight) || 0);
    return element;
  }

  const unknown = ({ kind }) => make("p", "caption", `[${kind}]`);

  function box(className) {
    return ({ of, fill }) => {
      const element = fill(make("div", className), of.children);
      const spread = of.distribution ?? of.justify, align = of.alignment ?? of.align;
      if (spread) element.style.justifyContent = FLEX[spread] ?? spread;
      if (align) element.style.alignItems = FLEX[align] ?? align;
      if (of.direction === "horizontal") element.classList.add("horizontal");
      return element;
    };
  }

  function media(tag) {
    return ({ surface, scope, of }) => {
      const element = make(tag);
      element.controls = true;
      surface.watch(() => { element.src = words(surface, of.url, scope); });
      return of.description ? make("figure", "", element, label(surface, of.description, scope)) : element;
    };
  }

  function act(surface, id, scope, action) {
    const said = action?.event ?? action ?? {}, context = {};
    const given = Array.isArray(said.context) ? said.context.map(({ key, value }) => [key, value]) : Object.entries(said.context ?? {});
    for (const [key, value] of given) if (key !== "__proto__") context[key] = read(surface, value, scope) ?? null;
    window.openclawSendUserAction({ name: String(said.name ?? ""), surfaceId: surface.id, sourceComponentId: id, timestamp: new Date().toISOString(), context });
  }

  const KINDS = {
    Text: ({ surface, scope, of }) => {
      const hint = of.usageHint ?? of.variant ?? "body";
      const element = make(/^h[1-5]$/.test(hint) ? hint : "p", hint === "caption" ? "caption" : "");
      surface.watch(() => { element.textContent = words(surface, of.text, scope); });
      return element;
    },
    Image: ({ surface, scope, of }) => {
      const element = make("img", String(of.usageHint ?? of.variant ?? ""));
      if (of.fit) element.style.objectFit = of.fit;
      surface.watch(() => {
        element.src = words(surface, of.url, scope);
        element.alt = words(surface, of.altText ?? of.description ?? of.url, scope);
      });
      return element;
    },
    Icon: ({ surface, scope, of }) => {
      const element = make("span", "icon");
      element.setAttribute("role", "img");
      surface.watch(() => {
        const name = words(surface, of.name, scope);
        element.textContent = Object.hasOwn(ICONS, name) ? ICONS[name] : name;
        element.setAttribute("aria-label", name);
      });
      return element;
    },
    Row: box("row"),
    Column: box("column"),
    List: box("list"),
    Card: ({ of, child, fill }) => (of.child ? make("div", "card", child(of.child)) : fill(make("div", "card column"), of.children)),
    Tabs: ({ surface, scope, of, child }) => {
      const items = of.tabItems ?? of.tabs ?? [], bar = make("div"), panels = items.map((item) => make("div", "", child(item.child)));
      bar.setAttribute("role", "tablist");
      const choose = (chosen) => panels.forEach((panel, at) => {
        panel.hidden = at !== chosen;
        bar.children[at].setAttribute("aria-selected", String(at === chosen));
      });
      items.forEach((item, at) => {
        const tab = make("button");
        tab.type = "button";
        tab.setAttribute("role", "tab");
        surface.watch(() => { tab.textContent = words(surface, item.title, scope); });
        tab.addEventListener("click", () => choose(at));
        bar.append(tab);
      });
      choose(0);
      return make("div", "tabs", bar, ...panels);
    },
    Divider: ({ of }) => make("hr", of.axis === "vertical" ? "vertical" : ""),
    Modal: ({ of, child }) => {
      const close = make("button", "", "✕"), dialog = make("dialog", "", close, child(of.contentChild ?? of.content));
      const entry = make("div", "entry", child(of.entryPointChild ?? of.trigger));
      close.setAttribute("aria-label", "close");
      close.addEventListener("click", () => dialog.close());
      entry.addEventListener("click", () => dialog.showModal());
      return make("div", "", entry, dialog);
    },
    Button: ({ surface, id, scope, of, child }) => {
      const element = make("button", of.primary || of.variant === "primary" ? "primary" : "");
      element.type = "button";
      element.dataset.at = `${id}${scope}`;
      if (of.child) element.append(child(of.child));
      else surface.watch(() => { element.textContent = words(surface, of.label ?? of.text, scope); });
      element.addEventListener("click", () => act(surface, id, scope, of.action));
      return element;
    },
    CheckBox: ({ surface, id, scope, of }) => {
      const input = make("input"), path = keep(surface, id, of.value, scope);
      input.type = "checkbox";
      field(surface, input, path, (value) => { input.checked = Boolean(value); }, () => input.checked);
      const element = label(surface, of.label, scope, input);
      element.className = "check";
      element.prepend(input);
      return element;
    },
    TextField: ({ surface, id, scope, of }) => {
      const value = of.text ?? of.value, kind = of.textFieldType ?? of.variant ?? of.type ?? "shortText";
      const input = make(kind === "longText" ? "textarea" : "input"), path = keep(surface, id, value, scope);
      if (kind !== "longText") input.type = { number: "number", date: "date", obscured: "password" }[kind] ?? "text";
      if (of.validationRegexp) input.pattern = of.validationRegexp;
      field(surface, input, path, (found) => { input.value = found ?? ""; }, () => input.value);
      return label(surface, of.label, scope, input);
    },
    DateTimeInput: ({ surface, id, scope, of }) => {
      const input = make("input"), path = keep(surface, id, of.value, scope);
      input.type = of.enableTime && !of.enableDate ? "time" : of.enableTime ? "datetime-local" : "date";
      field(surface, input, path, (found) => { input.value = found ?? ""; }, () => input.value);
      return label(surface, of.label ?? "", scope, input);
    },
    MultipleChoice: ({ surface, id, scope, of }) => {
      const path = keep(surface, id, of.selections ?? of.value, scope), most = Number(of.maxAllowedSelections ?? (of.variant === "mutuallyExclusive" ? 1 : 0));
      const inputs = (of.options ?? []).map((option) => {
        const input = make("input");
        input.type = most === 1 ? "radio" : "checkbox";
        input.name = `${surface.id} ${path}`;
        input.value = String(option.value);
        return input;
      });
      const chosen = () => inputs.filter((each) => each.checked).map((each) => each.value);
      const rows = (of.options ?? []).map((option, at) => {
        const input = inputs[at];
        field(surface, input, path, (found) => { input.checked = [found ?? []].flat().map(String).includes(input.value); }, () => {
          if (most > 1 && chosen().length > most) input.checked = false;
          return chosen();
        });
        const row = label(surface, option.label, scope, input);
        row.className = "check";
        row.prepend(input);
        return row;
      });
      return make("fieldset", "", ...(of.label ? [make("legend", "", words(surface, of.label, scope))] : []), ...rows);
    },
    Slider: ({ surface, id, scope, of }) => {
      const input = make("input"), said = make("output"), path = keep(surface, id, of.value, scope);
      input.type = "range";
      input.min = String(of.minValue ?? of.min ?? 0);
      input.max = String(of.maxValue ?? of.max ?? 100);
      input.step = "any";
      if (Number.isInteger(Number(input.min)) && Number.isInteger(Number(input.max)) && input.max - input.min > 1) input.step = "1";
      field(surface, input, path, (found) => { input.value = String(found ?? input.min); }, () => Number(input.value));
      surface.watch(() => { said.textContent = String(surface.get(path) ?? input.min); });
      return label(surface, of.label ?? "", scope, input, said);
    },
    Video: media("video"),
    AudioPlayer: media("audio"),
  };
  KINDS.ChoicePicker = KINDS.MultipleChoice; // as v0.9 calls it

  // messages

  function entries(contents) {
    const made = Object.create(null);
    for (const each of contents ?? []) {
      if (each.key === "__proto__") continue;
      made[each.key] = each.valueMap ? entries(each.valueMap) : each.valueString ?? each.valueNumber ?? each.valueBoolean ?? each.value ?? null;
    }
    return made;
  }

  function take(surface, components) {
    for (const { id, weight, component, ...flat } of components ?? []) {
      const [kind, of] = typeof component === "string" ? [component, flat] : Object.entries(component ?? {})[0] ?? ["", {}];
      surface.components.set(id, { kind, of: of ?? {}, weight });
    }
  }

  function apply(message) {
    const [name, said] = Object.entries(message).find(([, value]) => value?.constructor === Object) ?? [];
    if (!said) return;
    const id = String(said.surfaceId ?? "main");
    if (name === "deleteSurface") {
      surfaces.get(id)?.element.remove();
      surfaces.delete(id);
      return;
    }
    if (!surfaces.has(id)) surfaces.set(id, new Surface(id));
    const surface = surfaces.get(id);
    if (name === "dataModelUpdate" || name === "updateDataModel") {
      if (name === "updateDataModel") surface.put(said.path ?? "/", said.value);
      else if (split(said.path).length) surface.put(said.path, entries(said.contents));
      else for (const [key, value] of Object.entries(entries(said.contents))) surface.put(key, value);
      surface.tell();
      return;
    }
    if (name === "surfaceUpdate" || name === "updateComponents") take(surface, said.components);
    if (name === "beginRendering") surface.root = String(said.root ?? "root");
    if (name === "createSurface") surface.root = "root";
    const style = said.styles ?? said.theme;
    if (/^#[0-9a-f]{3,8}$/i.test(style?.primaryColor ?? "")) surface.element.style.setProperty("--primary", style.primaryColor);
    surface.draw();
  }

  function applyMessages(messages) {
    for (const message of messages) {
      try {
        apply(message);
      } catch (error) {
        console.error("a message of A2UI could not be shown", error); // the others can
      }
    }
  }

  function reset() {
    surfaces.clear();
    stage.replaceChildren();
  }

  const first = JSON.parse(document.getElementById("messages").textContent);
  let known = first.length;
  applyMessages(first);
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || parent === window || !data?.a2ui) return;
    const { at, messages } = data.a2ui;
    applyMessages(messages.slice(Math.max(known - at, 0)));
    known = Math.max(known, at + messages.length);
  });
  window.openclawA2UI = { applyMessages, reset };
})();
