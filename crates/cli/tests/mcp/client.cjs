// A client of the Model Context Protocol with the official packages: lists the tools, makes the calls of CALLS, and
// prints everything as one JSON document. MODE chooses the package and with it the revision.
const { createRequire } = require("node:module");
const load = createRequire(`${process.env.CLIENTS}/`);
const isModern = process.env.MODE === "modern";
const of = isModern ? "@modelcontextprotocol/client" : "@modelcontextprotocol/sdk/client";
const { Client } = load(isModern ? of : `${of}/index.js`);
const { StreamableHTTPClientTransport } = isModern ? {} : load(`${of}/streamableHttp.js`);
const { StdioClientTransport } = load(isModern ? `${of}/stdio` : `${of}/stdio.js`);

async function main() {
  const [command, ...args] = JSON.parse(process.env.SERVER);
  const { CLIENTS, SERVER, CALLS, MODE, ...env } = process.env;
  const { SERVER_URL: url, TOKEN: token } = process.env;
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } })
    : new StdioClientTransport({ command, args, env, cwd: process.cwd(), stderr: "inherit" });
  const options = isModern ? { versionNegotiation: { mode: { pin: "2026-07-28" } } } : {};
  const client = new Client({ name: "loopwright-test", version: "1.0.0" }, options);
  await client.connect(transport);
  const { tools } = await client.listTools();
  const results = [];
  for (const call of JSON.parse(CALLS)) {
    try {
      results.push(await client.callTool(call));
    } catch (error) {
      results.push({ thrown: String(error) });
    }
  }
  const version = isModern ? client.getNegotiatedProtocolVersion() : client.getServerVersion().name;
  await client.close();
  process.stdout.write(JSON.stringify({ version, tools, results }));
}

main().catch((error) => {
  process.stderr.write(`${error.stack}\n`);
  process.exit(1);
});
