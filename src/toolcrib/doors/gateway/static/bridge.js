// The bridge of a page inside a canvas: posts what a person did, through whichever way there is, and evaluates what the
// page around it asks for.
"use strict";
(() => {
  const NAME = "openclawCanvasA2UIAction", MAX_CHARS = 100000;

  // not every browser follows the policy's webrtc 'block'
  for (const name of ["RTCPeerConnection", "webkitRTCPeerConnection"]) {
    Object.defineProperty(window, name, {value: undefined, configurable: false, writable: false});
  }

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
