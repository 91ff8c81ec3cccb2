// The official TypeScript SDK's client, told by its one argument whom to ask; it prints what it saw as one JSON object.
const { createRequire } = require("node:module");

const told = JSON.parse(process.argv[2]);
const sdk = createRequire(`${told.sdk}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/sdk/client/streamableHttp.js");

function transport() {
  if (told.stdio) return new StdioClientTransport({ ...told.stdio, stderr: "ignore" });
  const headers = { Authorization: `Bearer ${told.http.token}` };
  return new StreamableHTTPClientTransport(new URL(told.http.url), { requestInit: { headers } });
}

function seen(result) {
  const parts = result.content.map((part) => (part.type === "text" ? part.text : `${part.mimeType} ${part.data}`));
  return { isError: result.isError ?? false, parts };
}

async function stopped(client) {
  const stop = new AbortController();
  let began = "";
  // it has begun when it shows its first progress
  const onprogress = ({ message }) => {
    began = message;
    stop.abort("enough");
  };
  try {
    await client.callTool({ name: "hold", arguments: {} }, undefined, { signal: stop.signal, onprogress });
    return { began, reason: "it was not stopped" };
  } catch (error) {
    return { began, reason: String(error.message ?? error) };
  }
}

async function main() {
  const client = new Client({ name: "tests", version: "1.0.0" });
  await client.connect(transport());
  const { tools } = await client.listTools();
  const results = {};
  for (const [name, args] of Object.entries(told.calls)) {
    results[name] = seen(await client.callTool({ name, arguments: args }));
  }
  const progress = [];
  const hear = ({ progress: done, total, message }) => progress.push([done, total, message]);
  await client.callTool({ name: "steps", arguments: {} }, undefined, { onprogress: hear });
  const { began, reason } = await stopped(client);
  const over = seen(await client.callTool({ name: "is_over", arguments: {} }));
  const capabilities = client.getServerCapabilities();
  await client.close();
  const names = tools.map((tool) => tool.name).sort();
  console.log(JSON.stringify({ names, results, progress, began, reason, over, capabilities }));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
