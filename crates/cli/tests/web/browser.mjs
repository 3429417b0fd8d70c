// Walks through the dashboard in Chromium. The first argument names the walk. It prints `done` at its end; every console
// error, page error and failed request of any page fails it.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const { BASE, LINK, CLIENTS, CHROMIUM, SHOTS, ROUNDS, GO } = process.env;
const require = createRequire(CLIENTS + "/");
const playwright = await import(pathToFileURL(require.resolve("playwright-core")).href);
const { chromium } = playwright.default ?? playwright;
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const WAIT = 60_000;
const LIVE = "/api/v1/events";

const browser = await chromium.launch({
  executablePath: CHROMIUM,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
});
const problems = [];

// Watches everything that a page complains about. `allowed` are texts that a walk expects.
function watch(page, allowed = []) {
  const add = (text) => { if (!allowed.some((one) => text.includes(one))) problems.push(`${page.url()}: ${text}`); };
  page.on("console", (message) => { if (message.type() === "error" || message.type() === "warning") add(message.text()); });
  page.on("pageerror", (error) => add(String(error)));
  page.on("request", (request) => { if (!request.url().startsWith(BASE)) add(`asks for ${request.url()}`); });
  page.on("dialog", (dialog) => { add(`dialog ${dialog.message()}`); dialog.dismiss(); });
  page.setDefaultTimeout(WAIT);
  return page;
}

async function signedIn(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = watch(await context.newPage());
  await page.goto(LINK);
  return { context, page };
}

async function check(page, name) {
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  const shown = found.violations.map((one) => `${one.id}: ${one.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.failureSummary}`).join(" | ")}`);
  if (shown.length) problems.push(`${name}: axe\n  ${shown.join("\n  ")}`);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) problems.push(`${name}: ${wide} pixels wider than the window`);
  if (await page.locator("h1").count() !== 1) problems.push(`${name}: not one h1`);
}

const PLACES = [["overview", "/"], ["loops", "/loops"], ["loop", "/loops/fix"], ["inbox", "/inbox"], ["spend", "/spend"],
  ["calendar", "/calendar"], ["health", "/health"], ["nowhere", "/rounds/r-nothing"]];

const walks = {
  async pages() {
    const rounds = ROUNDS.split(",").map((id, at) => [["reported", "evil", "broken", "rejected", "waiting"][at], `/rounds/${id}`]);
    const state = await (await signedIn()).context.storageState();
    if (SHOTS) mkdirSync(SHOTS, { recursive: true });
    const context = await browser.newContext({ storageState: state });
    for (const [name, path] of [...PLACES, ...rounds]) {
      const page = watch(await context.newPage(), name === "nowhere" ? ["404"] : []);
      await page.goto(BASE + path, { waitUntil: "load" });
      await page.evaluate(axe);
      for (const [width, height] of [[1280, 900], [390, 844], [3840, 2160]]) {
        await page.setViewportSize({ width, height });
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          await check(page, `${name} ${width} ${colorScheme}`);
          if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}-${width}-${colorScheme}.png`, fullPage: true });
        }
      }
      await page.close();
    }
    await context.close();
  },

  // The pictures of the manual: a part of a page as people see it first, in both schemes.
  async pictures() {
    const state = await (await signedIn()).context.storageState();
    const context = await browser.newContext({ storageState: state, viewport: { width: 1100, height: 700 } });
    mkdirSync(SHOTS, { recursive: true });
    for (const [name, path] of [["overview", "/"], ["inbox", "/inbox"], ["round", `/rounds/${ROUNDS}`], ["spend", "/spend"]]) {
      const page = watch(await context.newPage());
      await page.goto(BASE + path, { waitUntil: "load" });
      await page.locator("#live", { hasText: "live" }).waitFor();
      await page.screenshot({ path: `${SHOTS}/${name}.png` });
      await page.close();
    }
    const page = watch(await context.newPage());
    await page.emulateMedia({ colorScheme: "dark" });
    await page.setViewportSize({ width: 390, height: 700 });
    await page.goto(`${BASE}/`, { waitUntil: "load" });
    await page.locator("#live", { hasText: "live" }).waitFor();
    await page.screenshot({ path: `${SHOTS}/phone.png` });
  },

  async live() {
    const { page, context } = await signedIn();
    await page.goto(`${BASE}/loops/slow`);
    await page.getByRole("button", { name: "Run now" }).click();
    await page.waitForURL(/\/loops\/slow/);
    const watcher = watch(await context.newPage());
    await watcher.goto(`${BASE}/`);
    await watcher.evaluate(() => { window.isFirstLoad = true; });
    const link = watcher.locator("#running a[href^='/rounds/']");
    await link.waitFor();
    const round = await link.getAttribute("href");
    await page.goto(BASE + round);
    await page.evaluate(() => { window.isFirstLoad = true; });
    await page.locator("#log-lines", { hasText: "half way there" }).waitFor();
    writeFileSync(GO, "");
    await page.locator(".title .badge", { hasText: "waiting" }).waitFor();
    await watcher.locator(".tile.wait", { hasText: "1" }).waitFor();
    for (const one of [page, watcher]) assert.equal(await one.evaluate(() => window.isFirstLoad), true, "it did not reload");
    await page.goto(`${BASE}/inbox`);
    await page.keyboard.press("?");
    await page.locator("#live", { hasText: "a approves" }).waitFor();
    // The first key only marks the question; nothing is answered that nobody chose.
    await page.keyboard.press("a");
    assert.equal(await page.evaluate(() => document.activeElement.className), "question wait");
    const sent = page.waitForResponse((answer) => answer.request().method() === "POST" && answer.url().endsWith("/approve"));
    await page.keyboard.press("a");
    assert.equal((await sent).status(), 303);
    await page.locator("main", { hasText: "Nothing waits for you" }).waitFor();
    await watcher.locator("#needs", { hasText: "Nothing waits for you" }).waitFor();
    assert.equal(await watcher.evaluate(() => window.isFirstLoad), true, "it did not reload");
  },

  async stale() {
    // Without its stream, the first page keeps what it showed.
    const { page, context } = await signedIn();
    await context.route(`**${LIVE}`, (route) => route.abort());
    const first = watch(await context.newPage(), ["ERR_FAILED", "409"]);
    await first.goto(`${BASE}/inbox`);
    await first.locator(".question").waitFor();
    const state = await context.storageState();
    const plain = await browser.newContext({ storageState: state, javaScriptEnabled: false });
    const second = watch(await plain.newPage());
    for (const [, path] of PLACES.slice(0, 7)) {
      await second.goto(BASE + path);
      assert.ok((await second.locator("main").innerText()).length > 40, `${path} is readable without a script`);
    }
    await second.goto(`${BASE}/inbox`);
    await second.locator("input[name=why]").fill("not this way");
    await second.getByRole("button", { name: "Deny", exact: true }).click();
    await second.locator("main", { hasText: "Nothing waits for you" }).waitFor();
    const sent = first.waitForResponse((answer) => answer.request().method() === "POST");
    await first.getByRole("button", { name: "Approve" }).click();
    const answer = await sent;
    assert.ok(answer.status() >= 400, `the stale approval was answered with ${answer.status()}`);
    await first.locator("h1", { hasText: "Not done" }).waitFor();
    await page.close();
  },

  async restart() {
    const { page } = await signedIn();
    // While no daemon listens, the browser reports the failed connections.
    const open = watch(await page.context().newPage(), ["Failed to load resource", "ERR_"]);
    await page.close();
    await open.goto(`${BASE}/`);
    await open.evaluate(() => { window.isFirstLoad = true; });
    await open.locator("#live", { hasText: "live" }).waitFor();
    console.log("opened");
    const input = createInterface({ input: process.stdin });
    await new Promise((resolve) => input.once("line", resolve));
    input.close();
    await open.locator("#recent a[href^='/loops/look']").waitFor();
    assert.equal(await open.evaluate(() => window.isFirstLoad), true, "it did not reload");
  },
};

try {
  await walks[process.argv[2]]();
} finally {
  await browser.close();
}
assert.equal(problems.join("\n"), "");
console.log("done");
process.exit(0);
