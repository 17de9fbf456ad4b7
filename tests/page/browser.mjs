// A headless Chromium for the tests of the page. Where it or playwright-core is missing the test
// ends with 77, and says so. Each page notes what it asked for and what went wrong in it.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

const root = path.resolve(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname),
  "../..");
const binaries = process.env.SPOTTER_BIN || path.join(root, "build/release/bin");
const chromium = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"]
  .find((each) => existsSync(each));

function skip(why) {
  console.log(`skipped: ${why}: run scripts/setup --page`);
  process.exit(77);
}
if (!chromium) skip("there is no Chromium");
const modules = path.join(root, "build/page/node_modules/playwright-core");
if (!existsSync(modules)) skip("playwright-core is not in build/page");
const playwright = createRequire(modules + "/")(modules);

// As LIMIT of tests/e2e/emulator.py: a busy machine is no failure.
const patience = 400_000;
// What Chromium writes besides is its own: nothing of this machine's user.
const home = mkdtempSync(path.join(tmpdir(), "chromium-"));
process.on("exit", () => rmSync(home, { recursive: true, force: true }));

export const browser = await playwright.chromium.launch({ executablePath: chromium,
  timeout: patience, env: { ...process.env, HOME: home, XDG_CONFIG_HOME: home,
    XDG_CACHE_HOME: home },
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-dev-shm-usage"] });

// The page as it is served or written; without a model the live one.
export function html(model) {
  return execFileSync(path.join(binaries, "page_print"), {
    input: model === undefined ? "" : JSON.stringify(model), maxBuffer: 1 << 28 }).toString();
}

// `url`, or a document that is answered at an address where nothing else is.
export async function open({ url, document, width = 1280, height = 900, colorScheme = "light",
  reducedMotion = "no-preference" }) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme,
    reducedMotion, locale: "en-GB", timezoneId: "UTC" });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.asked = [];
  page.troubles = [];
  page.on("request", (request) => page.asked.push(request.url()));
  page.on("pageerror", (error) => page.troubles.push(`${error.message}\n${error.stack}`));
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) page.troubles.push(message.text());
  });
  if (document !== undefined) {
    url = "http://127.0.0.1:9/report.html";
    await page.route(url, (route) => route.fulfill({ body: document,
      contentType: "text/html; charset=utf-8" }));
  }
  await page.goto(url);
  await page.waitForFunction(() => document.documentElement.dataset.drawn ||
    !document.getElementById("empty").hidden);
  return page;
}

// For people: SPOTTER_SHOTS names a folder.
export async function shot(page, name) {
  const folder = process.env.SPOTTER_SHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name}.png`), fullPage: true });
}

// No wider than the window: nothing to scroll sideways for.
export const overflow = (page) => page.evaluate(() =>
  document.documentElement.scrollWidth - document.documentElement.clientWidth);
