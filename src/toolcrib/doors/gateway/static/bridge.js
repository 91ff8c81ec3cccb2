// The bridge of a page inside a canvas: posts what a person did, through whichever way there is, and evaluates what the
// page around it asks for.
"use strict";
(() => {
  const NAME = "openclawCanvasA2UIAction", MAX_CHARS = 100000;

  // Not every browser follows the policy's webrtc 'block', and a page that this one makes (`srcdoc`, `javascript:`) has the
  // constructors again. So it makes none: by trusted types every text that becomes a page or a script comes by here. What
  // a script that comes later could replace is taken first; `write` gets what the parser drops, so that no two make a word.
  const bind = (method) => Function.prototype.call.bind(method);
  const lower = bind("".toLowerCase), has = bind("".includes), ends = bind("".endsWith);
  const isPartial = (low) => ends(low, "s") || ends(low, "sr") || ends(low, "src") || ends(low, "srcd") || ends(low, "srcdo");
  window.trustedTypes?.createPolicy("default", {
    createHTML(text, _, sink) {
      const low = lower(text);
      if (sink === "HTMLIFrameElement srcdoc" || has(low, "srcdoc") || has(low, "<!entity")) return null;
      return sink === "Document write" && isPartial(low) ? text + "\0" : text;
    },
    createScript: (code, _, sink) => (sink === "Location href" ? null : code),
    createScriptURL: (url) => url,
  });
  const { get, set } = Object.getOwnPropertyDescriptor(XMLHttpRequest.prototype, "responseType"), choose = bind(set);
  for (const [owner, name] of [
    [window, "RTCPeerConnection"], [window, "webkitRTCPeerConnection"], [window, "trustedTypes"],
    [window, "XSLTProcessor"], [XMLHttpRequest.prototype, "responseXML"],
  ]) Object.defineProperty(owner, name, { value: undefined, configurable: false, writable: false });
  Object.defineProperty(XMLHttpRequest.prototype, "responseType", {
    get, set(value) { if ((value = `${value}`) !== "document") choose(this, value); }, configurable: false,
  });

  function post(told) {
    const ios = window.webkit?.messageHandlers?.[NAME];
    const android = window[NAME];
    if (ios) ios.postMessage(told);
    else if (typeof android?.postMessage === "function") android.postMessage(JSON.stringify(told));
    else if (parent !== window) parent.postMessage(told, "*");
    else return false;
    return true;
  }

  function write(value) {
    if (typeof value === "string") return value.slice(0, MAX_CHARS);
    const text = typeof value === "object" ? JSON.stringify(value) : undefined;
    return (text ?? String(value)).slice(0, MAX_CHARS);
  }

  const still = window.openclawStill;
  delete window.openclawStill;
  window.openclawPostMessage = post;
  window.openclawSendUserAction = (action) => {
    const id = action.id || `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
    return post({ userAction: { surfaceId: "main", sourceComponentId: "", context: {}, ...action, id } });
  };
  addEventListener("message", async ({ source, data }) => {
    if (source !== parent || parent === window || !(data?.eval || data?.still)) return;
    const { id, code } = data.eval ?? data.still;
    let told;
    try {
      told = { id, ok: true, value: data.still ? still() : write(await (0, eval)(code)) };
    } catch (error) {
      told = { id, ok: false, value: write(String(error)) };
    }
    parent.postMessage({ evaluated: told }, "*");
  });
})();
