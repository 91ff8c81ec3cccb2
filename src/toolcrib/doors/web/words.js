// What the page says, in the language of who reads it.

export const languages = { en: "English", uk: "Українська" };
let table = {},
  plain = {};

// Return the language in force: the chosen one, else the first of the browser's that there is.
export function language() {
  const wanted = [localStorage.getItem("toolcrib.language"), ...navigator.languages.map((each) => each.split("-")[0])];
  return wanted.find((each) => each in languages) ?? "en";
}

// Load the words of a language; those that it lacks are said in English.
export async function load(chosen = language()) {
  ({ default: plain } = await import("./words/en.js"));
  ({ default: table } = await import(`./words/${chosen}.js`));
  document.documentElement.lang = chosen;
}

export async function choose(chosen) {
  localStorage.setItem("toolcrib.language", chosen);
  await load(chosen);
}

// Say something: t("chat.calls", {count: 3}); a number picks between "one|many" (or "one|few|many") by `count`.
export function t(key, values = {}) {
  const said = table[key] ?? plain[key] ?? key;
  const forms = said.split("|");
  const form = forms.length > 1 && "count" in values ? pickForm(forms, values.count) : said;
  return form.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

function pickForm(forms, count) {
  const kind = new Intl.PluralRules(document.documentElement.lang).select(count);
  return kind === "one" ? forms[0] : kind === "few" && forms.length > 2 ? forms[1] : forms.at(-1);
}

// Say a time as the language writes it; `at` in milliseconds.
/** @param {Intl.DateTimeFormatOptions} options */
export function formatTime(at, options = { dateStyle: "medium", timeStyle: "short" }) {
  return new Intl.DateTimeFormat(document.documentElement.lang, options).format(at);
}

// Say how long something takes; in seconds.
export function formatSpan(seconds) {
  const [unit, count] = seconds < 3600 ? ["minute", seconds / 60] : ["hour", seconds / 3600];
  return new Intl.NumberFormat(document.documentElement.lang, { style: "unit", unit, unitDisplay: "long" }).format(
    count,
  );
}
