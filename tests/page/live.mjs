// The browser's side of live.py (live.mjs API STORY [INSTANCE]) and served.py (URL served).
import assert from "node:assert/strict";

import { browser, open, overflow, shot } from "./browser.mjs";

const [api, story, instance] = process.argv.slice(2);
const url = `${api}/_spotter/`;
// Waits for states, never for times: the machine may be busy.
const patience = 400000;

const text = (page, id) => page.locator(`#${id}`).innerText();
const shows = (page, id, pattern) => page.waitForFunction(([name, source]) =>
  new RegExp(source, "s").test(document.getElementById(name).innerText), [id, pattern],
{ timeout: patience });

// The run goes on elsewhere, and every part of the page says so.
async function resumed(page) {
  await shows(page, "interruption-table", `${instance}.*\\d`);
  await page.waitForFunction((old) => [...document.querySelectorAll(".thing.machine")].some((it) =>
    it.dataset.instance !== old && /training/.test(it.innerText)), instance, { timeout: patience });
  await shows(page, "state", "Training");
  await page.waitForFunction(() => {
    const heads = [...document.querySelectorAll("#interruption-table th")].map((it) =>
      it.textContent);
    const cells = [...document.querySelectorAll("#interruption-table tbody tr td")].map((it) =>
      it.textContent);
    return /^[\d,]+$/.test(cells[heads.indexOf("Resumed at")] || "");
  }, null, { timeout: patience });
  assert.ok(await page.locator("#timeline-chart g[data-index]").count() >= 2);
  assert.equal(await page.locator("#notice").isVisible(), false);
}

const stories = {
  async interrupt() {
    const page = await open({ url });
    const phone = await open({ url, width: 375, height: 760, colorScheme: "dark" });
    await shows(page, "live", "live");
    await shows(page, "job", "digits");
    await shows(page, "state", "Training");
    await shows(page, "progress-words", "step [\\d,]+");
    await page.waitForFunction(() => !document.getElementById("curve").hidden, null,
      { timeout: patience });
    await page.locator("#lead").selectOption("30");
    await page.locator(`[data-instance=${instance}]`).getByText("Interrupt").click();
    await shows(page, "said", `${instance} has its notice: it is terminated in 30 s`);
    await shows(page, "notice", `0:\\d\\d.*${instance}.*is terminated`);
    await shot(page, "live-notice");
    await resumed(page);
    await shot(page, "live-resumed");
    await shows(phone, "interruption-table", instance);
    assert.equal(await overflow(phone), 0);
    await shot(phone, "live-phone");
    return [page, phone];
  },

  async keyboard() {
    const page = await open({ url });
    await page.waitForSelector(`[data-instance=${instance}] button`, { timeout: patience });
    const wanted = () => page.evaluate((id) => {
      const it = document.activeElement;
      return it.dataset.what === "interrupt" && it.parentElement.getAttribute("aria-label") === id;
    }, instance);
    for (let i = 0; i < 80 && !await wanted(); ++i) await page.keyboard.press("Tab");
    assert.ok(await wanted(), "Tab leads to the button");
    await page.waitForTimeout(1500);  // the page is drawn again, and the focus stays
    assert.ok(await wanted(), "the focus stays while the page follows");
    await page.keyboard.press("Enter");
    await shows(page, "said", "has its notice");
    await resumed(page);
    return [page];
  },

  async served() {
    const page = await open({ url: api });
    await shows(page, "live", "live");
    await shows(page, "job", "digits");
    await shows(page, "state", "Training");
    await shows(page, "journal", "onerror");
    await shows(page, "notice", "\\d:\\d\\d.*i-one.*is terminated");
    await page.locator("#curve-chart").focus();
    await page.waitForFunction(() => {
      const it = document.getElementById("curve-chart");
      it.dispatchEvent(new KeyboardEvent("keydown", { key: "Home" }));
      it.dispatchEvent(new KeyboardEvent("keydown", { key: "End" }));
      return document.getElementById("curve-says").textContent.startsWith("step 260 ");
    }, null, { timeout: patience });
    assert.equal(await page.evaluate(() => window.hacked), undefined);
    assert.equal(await page.locator("#controls").isVisible(), false);
    await shot(page, "served");
    return [page];
  },

  async world() {
    const page = await open({ url });
    await shows(page, "live", "live");
    const add = await fetch(`${url}instance`, { method: "POST",
      body: JSON.stringify({ zone: "us-west-2a" }) });
    const { instance: added } = await add.json();
    const box = page.locator(`[data-instance=${added}]`);
    await box.getByText("Rebalance").click();
    await shows(page, "said", "rebalance recommendation");
    await page.getByText("Throttle EC2").click();
    await shows(page, "said", "RequestLimitExceeded");
    await page.getByText("Break the network").click();
    await shows(page, "said", "until you press Mend");
    await page.getByText("Mend", { exact: true }).click();
    await shows(page, "said", "works again");
    await box.getByText("Kill").click();
    await shows(page, "said", `${added} is dead`);
    await shows(page, "interruption-table", `${added}`);
    await shows(page, "journal", "instance-killed");
    await shot(page, "live-world");
    assert.deepEqual(page.troubles, []);
    await strangers();
    return [page];
  },
};

// A page of another origin, and one that a name led here.
async function strangers() {
  const kill = { method: "POST", body: "{}" };
  assert.equal((await fetch(`${url}kill`, { ...kill, headers: { Origin: "http://evil.example" } }))
    .status, 403);
  const page = await browser.newPage();
  await page.route("http://evil.example/", (route) => route.fulfill({ contentType: "text/html",
    body: "<p>hello" }));
  await page.goto("http://evil.example/");
  const outcome = await page.evaluate((address) => fetch(`${address}kill`, { method: "POST",
    body: "{}", mode: "no-cors" }).then((answer) => answer.type, (error) => error.message), url);
  assert.ok(["opaque", "Failed to fetch"].includes(outcome), outcome);  // it learns nothing
  await page.close();
}

try {
  for (const page of await stories[story]()) {
    assert.deepEqual(page.troubles, []);
    await page.context().close();
  }
} finally {
  await browser.close();
}
console.log(`${story}: as it should be`);
