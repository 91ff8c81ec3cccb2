// The gateway's own protocol over one WebSocket. It connects again by itself; see docs/gateway.md.

import { pageKey } from "./login.js";

const PART = '{"type":"part",';
const PART_CHARS = 64_000; // of a request that is sent in parts
const WHOLE_CHARS = 100_000; // a longer one may have more bytes than a frame
const SILENCE_MS = 75_000; // two ticks and a half: whoever says nothing for so long has gone
const MAX_SENT = 5; // how often something with a key is said: a gateway that hangs up each time hangs up because of it
const FIRST_WAIT_MS = 250,
  LONGEST_WAIT_MS = 15_000;
const REFUSED = /^(unauthorized|the credential was taken back)/;

// state: connecting, open, lost (it connects again) or out (nobody is let in: sign in).
export class Gateway extends EventTarget {
  state = "connecting";
  hello = null;
  why = ""; // the gateway's sentence when it hung up
  #asked = new Map();
  #count = 0;
  #token = "";
  #socket = null;
  #wait = FIRST_WAIT_MS;
  #timer = 0;
  #heard = 0;

  // Connect: by the cookie and the page's half of it, or with a token that somebody typed, kept in memory alone.
  open(token = "") {
    this.#token = token;
    this.#wait = FIRST_WAIT_MS;
    this.#connect();
  }

  // End it for good.
  close() {
    this.#end("out", "");
  }

  // Return what a method answers. Asked while the gateway is lost, it waits; one that was under way is asked again when
  // it only reads or carries a key, and fails otherwise: nobody knows whether it was done.
  ask(method, params = {}) {
    if (this.state === "out") return Promise.reject(fail("you are signed out", "OUT"));
    return new Promise((resolve, reject) => {
      const id = `p${++this.#count}`;
      const waiting = { method, params, resolve, reject, sent: 0 };
      this.#asked.set(id, waiting);
      if (this.state === "open") this.#send(id, waiting);
    });
  }

  // Tell whether the gateway has a method.
  has(method) {
    return this.hello?.features.methods.includes(method) ?? false;
  }

  // Tell whether whoever is signed in has a scope.
  may(scope) {
    const scopes = this.hello?.auth.scopes ?? [];
    return scopes.includes("operator.admin") || scopes.includes(scope);
  }

  // Listen to an event of the gateway's; return how to end that.
  on(event, heard) {
    const listener = (/** @type {CustomEvent} */ { detail }) => heard(detail);
    this.addEventListener(event, listener);
    return () => this.removeEventListener(event, listener);
  }

  #connect() {
    clearTimeout(this.#timer);
    this.#socket?.close();
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/`);
    this.#socket = socket;
    let pieces = [];
    socket.addEventListener("message", ({ data }) => {
      if (socket !== this.#socket) return;
      this.#heard = performance.now();
      if (data.startsWith(PART)) {
        const part = JSON.parse(data);
        pieces.push(part.text);
        if (part.more) return;
        data = pieces.join("");
        pieces = [];
      }
      this.#take(JSON.parse(data));
    });
    socket.addEventListener("close", ({ reason }) => {
      if (socket !== this.#socket) return;
      if (REFUSED.test(reason)) this.#end("out", reason);
      else this.#lose(reason);
    });
    if (this.state === "out") this.#say("connecting");
  }

  #take(frame) {
    if (frame.type === "event") {
      if (frame.event === "connect.challenge") this.#introduce();
      else this.dispatchEvent(new CustomEvent(frame.event, { detail: frame.payload }));
      return;
    }
    if (frame.id === "connect") {
      if (!frame.ok && REFUSED.test(frame.error.message)) return this.#end("out", frame.error.message);
      if (!frame.ok) return this.#lose(frame.error.message);
      this.hello = frame.payload;
      this.#wait = FIRST_WAIT_MS;
      this.why = "";
      this.#watch();
      for (const [id, waiting] of this.#asked) this.#send(id, waiting);
      return this.#say("open");
    }
    const waiting = this.#asked.get(frame.id);
    this.#asked.delete(frame.id);
    if (frame.ok) waiting?.resolve(frame.payload);
    else waiting?.reject(fail(frame.error.message, frame.error.details?.code ?? frame.error.code));
  }

  #introduce() {
    const client = { id: "toolcrib-page", version: "1", platform: "web", mode: "webchat", displayName: "Page" };
    const params = { minProtocol: 3, maxProtocol: 3, client, caps: ["parts"], locale: document.documentElement.lang };
    const key = pageKey();
    if (this.#token) params.auth = { token: this.#token, password: this.#token };
    else if (key) params.auth = { page: key };
    this.#socket.send(JSON.stringify({ type: "req", id: "connect", method: "connect", params }));
  }

  #send(id, waiting) {
    waiting.sent++;
    const spell = (_, value) => (typeof value === "string" ? value.toWellFormed() : value); // half a character is none
    const text = JSON.stringify({ type: "req", id, method: waiting.method, params: waiting.params }, spell);
    if (text.length <= WHOLE_CHARS) return this.#socket.send(text);
    for (let at = 0, end; at < text.length; at = end) {
      end = Math.min(at + PART_CHARS, text.length);
      if (end < text.length && /[\ud800-\udbff]/.test(text[end - 1])) end--;
      this.#socket.send(JSON.stringify({ type: "part", text: text.slice(at, end), more: end < text.length }));
    }
  }

  #lose(why) {
    const reads = this.hello?.features.reads ?? [];
    for (const [id, { method, params, sent, reject }] of this.#asked) {
      if (!sent || reads.includes(method) || (params.idempotencyKey && sent < MAX_SENT)) continue;
      this.#asked.delete(id);
      reject(fail(`the gateway was lost while it did ${method}; nobody knows whether it was done`, "LOST"));
    }
    this.#drop(why);
    this.#timer = setTimeout(() => this.#connect(), this.#wait * (0.75 + Math.random() / 2));
    this.#wait = Math.min(this.#wait * 2, LONGEST_WAIT_MS);
    this.#say("lost");
  }

  #end(state, why) {
    this.#drop(why);
    this.hello = null;
    this.#token = "";
    const asked = [...this.#asked.values()];
    this.#asked.clear();
    this.#say(state);
    for (const { reject } of asked) reject(fail("you are signed out", "OUT"));
  }

  #drop(why) {
    const socket = this.#socket;
    this.#socket = null;
    this.why = why;
    clearTimeout(this.#timer);
    socket?.close();
  }

  // A socket of a machine that slept looks open, and hears nothing any more.
  #watch() {
    this.#timer = setTimeout(() => {
      if (performance.now() - this.#heard > SILENCE_MS) this.#lose("");
      else this.#watch();
    }, SILENCE_MS / 5);
  }

  #say(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }
}

// Return what names a request or a session for good. (Browsers have `randomUUID` only over TLS, or on this machine.)
export function makeId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (each) => each.toString(16).padStart(2, "0")).join("");
}

const fail = (message, code) => Object.assign(new Error(message), { code });
