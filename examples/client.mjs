// A client of a gateway in JavaScript, for Node 22 and browsers alike: protocol 3 over a plain WebSocket.
//
//     TOOLCRIB_TOKEN=... node examples/client.mjs [URL]
//
// client.html is the same in a page. The gateway answers pages of the origins in gateway.allowedOrigins.

export async function connect(url, token) {
  const socket = new WebSocket(url);
  const asked = new Map(), listeners = new Set(), tools = new Map();
  let count = 0;

  const ask = (method, params = {}) =>
    new Promise((resolve, reject) => {
      const id = `js-${++count}`;
      asked.set(id, { resolve, reject });
      socket.send(JSON.stringify({ type: "req", id, method, params }));
    });

  const answer = async ({ callId, tool, args }) => {
    let told;
    try {
      told = { result: (await tools.get(tool)(args)) ?? "done" };
    } catch (error) {
      told = { error: String(error.message ?? error) };
    }
    await ask("tools.answer", { callId, ...told }).catch(() => {}); // nobody waits for it any more
  };

  socket.addEventListener("message", ({ data }) => {
    const frame = JSON.parse(data);
    if (frame.type === "event") {
      if (frame.event === "tool.call") answer(frame.payload);
      for (const listener of listeners) listener(frame.event, frame.payload);
      return;
    }
    const waiting = asked.get(frame.id); // `tools.offer` is answered again when it ends: nobody waits then
    asked.delete(frame.id);
    if (frame.ok) waiting?.resolve(frame.payload);
    else waiting?.reject(new Error(frame.error.message));
  });
  socket.addEventListener("close", ({ reason }) => {
    for (const { reject } of asked.values()) reject(new Error(`the gateway hung up: ${reason || "no reason given"}`));
  });
  await new Promise((resolve, reject) => {
    socket.addEventListener("open", resolve);
    socket.addEventListener("error", () => reject(new Error(`no gateway answers at ${url}`)));
  });

  const client = { id: "gateway-client", version: "1", platform: "javascript", mode: "backend" };
  const hello = await ask("connect", { minProtocol: 3, maxProtocol: 3, client, auth: { token } });

  return {
    hello,
    ask,
    on: (listener) => listeners.add(listener),
    close: () => socket.close(),

    // Lend the models of a session functions: { name: { description, parameters, run } }.
    async offer(offered, session = "main") {
      const definitions = Object.entries(offered).map(([name, { run, ...about }]) => {
        tools.set(name, run);
        return { type: "function", function: { name, ...about } };
      });
      return ask("tools.offer", { tools: definitions, sessionKey: session, idempotencyKey: crypto.randomUUID() });
    },

    // Say something, and return the answer; `heard` is told what has come so far.
    say(message, session = "main", heard = () => {}) {
      const runId = crypto.randomUUID();
      return new Promise((resolve, reject) => {
        const listener = (event, told) => {
          if (event !== "chat" || told.runId !== runId) return;
          const text = told.message?.content?.[0]?.text ?? "";
          if (told.state === "delta") return heard(text);
          listeners.delete(listener);
          if (told.state === "final") resolve(text);
          else reject(new Error(told.errorMessage ?? told.state));
        };
        listeners.add(listener);
        ask("chat.send", { message, sessionKey: session, idempotencyKey: runId }).catch(reject);
      });
    },
  };
}

export const shop = {
  price: {
    description: "Tell what something costs in this shop.",
    parameters: {
      type: "object",
      properties: { item: { type: "string" }, count: { type: "integer", minimum: 1 } },
      required: ["item"],
    },
    run({ item, count = 1 }) {
      const prices = { nut: 3, bolt: 5 };
      if (!(item in prices)) throw new Error(`no ${item} in the shop`);
      return `${count} x ${item}: ${count * prices[item]} euros`;
    },
  },
};

if (globalThis.process?.argv?.[1]?.endsWith("client.mjs")) {
  const crib = await connect(process.argv[2] ?? "ws://127.0.0.1:18789", process.env.TOOLCRIB_TOKEN);
  await crib.offer(shop, "shop");
  for (const words of ['price {"item": "nut", "count": 4}', 'price {"item": "moon"}']) {
    console.log(">", words);
    console.log(await crib.say(words, "shop"));
  }
  crib.close();
}
