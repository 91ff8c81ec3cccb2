// What Chromium can tell of a page. Each function is evaluated in it, and returns plain values.
const tools = {
  // how a stylesheet would name an element, in three steps at most
  name(node) {
    const own = one => one.id ? `#${CSS.escape(one.id)}`
      : one.localName + [...one.classList].slice(0, 2).map(each => `.${CSS.escape(each)}`).join("");
    let name = own(node), up = node.parentElement;
    for (let step = 0; step < 2 && up && up !== document.body && document.querySelectorAll(name).length > 1; step++) {
      name = `${own(up)} > ${name}`;
      up = up.parentElement;
    }
    return name;
  },
  isShown(node) {
    const box = node.getBoundingClientRect(), style = getComputedStyle(node);
    return box.width > 1 && box.height > 1 && style.visibility !== "hidden" && style.opacity !== "0";
  },
};

// the layout at the width that the window has now
const layout = () => {
  const root = document.documentElement, room = root.clientWidth, all = [...document.body.querySelectorAll("*")];
  const isOut = node => tools.isShown(node) && node.getBoundingClientRect().right > room + 1;
  const isScrolled = node => {
    for (let up = node.parentElement; up && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== "visible") return true;
    return false;
  };
  const scrolls = document.scrollingElement.scrollWidth > room + 1;
  const outer = all.filter(node => isOut(node) && !isScrolled(node) && !(node.parentElement !== document.body && isOut(node.parentElement)));
  // where no box is too wide, what is in one of them is
  const inner = all.filter(node => node.scrollWidth > room && node.scrollWidth > node.clientWidth + 1);
  const wide = !scrolls ? [] : outer.length ? outer : inner.slice(-1);
  const isInText = node => getComputedStyle(node).display === "inline"
    && [...node.parentElement.childNodes].some(each => each.nodeType === 3 && each.data.trim());
  const targets = all.filter(node => node.matches("a[href],button,input:not([type=hidden]),select,textarea")
    && tools.isShown(node) && !isInText(node));
  const hasText = node => [...node.childNodes].some(each => each.nodeType === 3 && each.data.trim());
  return {
    room, width: document.scrollingElement.scrollWidth, height: document.scrollingElement.scrollHeight, scrolls,
    wide: [...new Set(wide.map(tools.name))].slice(0, 5),
    small: targets.filter(node => {
      const box = node.getBoundingClientRect();
      return box.width < 24 || box.height < 24;
    }).slice(0, 10).map(tools.name),
    tiny: all.filter(node => hasText(node) && tools.isShown(node) && parseFloat(getComputedStyle(node).fontSize) < 12)
      .slice(0, 10).map(tools.name),
  };
};

// what is in the page, whatever its width
const facts = async () => {
  const meta = name => document.querySelector(`meta[name="${name}"],meta[property="${name}"]`)?.content?.trim() ?? "";
  const resources = performance.getEntriesByType("resource"), visit = performance.getEntriesByType("navigation")[0];
  const seen = {lcp: 0, cls: 0};
  for (const type of ["largest-contentful-paint", "layout-shift"]) {
    new PerformanceObserver(list => {
      for (const entry of list.getEntries())
        type === "layout-shift" ? seen.cls += entry.hadRecentInput ? 0 : entry.value : seen.lcp = entry.startTime;
    }).observe({type, buffered: true});
  }
  await new Promise(resolve => setTimeout(resolve, 100));
  const links = [...document.querySelectorAll("a[href]")].slice(0, 100).map(node => ({
    target: tools.name(node), href: node.getAttribute("href"), url: node.href,
  }));
  const isOurs = link => link.url.startsWith(`${location.origin}/`);
  const paths = [...new Set(links.filter(isOurs).map(link => link.url.split("#")[0]))].slice(0, 30);
  const statuses = Object.fromEntries(await Promise.all(paths.map(async url => {
    try { return [url, (await fetch(url, {method: "HEAD"})).status]; } catch { return [url, 0]; }
  })));
  return {
    title: document.title.trim(), description: meta("description"), viewport: meta("viewport"), robots: meta("robots"),
    shared: meta("og:title"), lang: document.documentElement.lang, icon: !!document.querySelector("link[rel~=icon]"),
    headings: document.querySelectorAll("h1").length, words: document.body.innerText.split(/\s+/).length,
    links: links.map(link => ({
      ...link, isOurs: isOurs(link), status: statuses[link.url.split("#")[0]],
      isMissing: isOurs(link) && link.url.split("#")[0] === location.href.split("#")[0] && link.href.includes("#")
        && !(link.href.endsWith("#top") || document.getElementById(decodeURIComponent(link.href.split("#")[1] || " "))),
    })),
    unsized: [...document.images].filter(each => !each.hasAttribute("width") || !each.hasAttribute("height")).map(tools.name),
    broken: [...document.images].filter(each => each.complete && !each.naturalWidth).map(tools.name),
    blocking: [...document.querySelectorAll("head script[src]:not([async]):not([defer]):not([type=module])")].map(tools.name),
    outside: [...document.querySelectorAll("script[src],link[rel~=stylesheet],img[src],iframe[src],source[src],video[src]")]
      .map(node => [tools.name(node), node.src || node.href]).filter(([, url]) => /^https?:/.test(url) && !url.startsWith(location.origin)),
    requests: resources.length + 1,
    bytes: resources.reduce((sum, each) => sum + each.encodedBodySize, visit.encodedBodySize),
    paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0,
    load: visit.loadEventEnd, nodes: document.querySelectorAll("*").length, ...seen,
  };
};
