// The page around a canvas. It speaks to the frame by postMessage alone, and passes on to the gateway's canvas host only
// what a person has just done (the browser tells, not the frame) and answers to what was asked.
"use strict";
(() => {
  const frame = document.getElementById("frame");
  let socket, wait = 500;

  function connect() {
    const at = new URL(`ws?version=${document.body.dataset.version}`, location.href);
    at.protocol = at.protocol.replace("http", "ws");
    socket = new WebSocket(at);
    socket.onopen = () => { wait = 500; };
    socket.onmessage = ({ data }) => {
      if (data === "reload") location.reload();
      else if (frame) frame.contentWindow.postMessage(JSON.parse(data), "*");
    };
    socket.onclose = () => { setTimeout(connect, wait); wait = Math.min(wait * 2, 30000); };
  }

  addEventListener("message", ({ source, data }) => {
    if (!frame || source !== frame.contentWindow || typeof data !== "object" || data === null) return;
    if (socket?.readyState !== WebSocket.OPEN) return;
    if (data.evaluated) socket.send(JSON.stringify({ evaluated: data.evaluated }));
    else if (data.userAction && navigator.userActivation.isActive) socket.send(JSON.stringify({ userAction: data.userAction }));
  });
  addEventListener("load", connect); // the frame is there by then
})();
