// A report's document: whatever is in its model, on any screen, it asks nobody for anything.
import { readFileSync } from "node:fs";
import assert from "node:assert/strict";
import { after, test } from "node:test";

import { browser, html, open, overflow, shot } from "./browser.mjs";
import * as samples from "./samples.mjs";

after(() => browser.close());

const models = { small: samples.job(), finished: samples.job({ finished: true }),
  long: samples.long(), sweep: samples.sweep(), notice: samples.notice(), bare: samples.bare(),
  nothing: samples.nothing(), hostile: samples.hostile() };
const screens = { desk: { width: 1280 }, dark: { width: 1280, colorScheme: "dark" },
  phone: { width: 375, height: 760 }, "dark-phone": { width: 375, colorScheme: "dark" } };

for (const [name, model] of Object.entries(models))
  test(`${name}: is shown without a request, an error or anything to scroll sideways for`,
    async () => {
      const document = html(model);
      for (const [screen, settings] of Object.entries(screens)) {
        const page = await open({ document, ...settings });
        await shot(page, `${name}-${screen}`);
        assert.deepEqual(page.asked, ["http://127.0.0.1:9/report.html"], screen);
        assert.deepEqual(page.troubles, [], screen);
        assert.equal(await overflow(page), 0, screen);
        await page.context().close();
      }
    });

test("a reason is not cut at any width", async () => {
  for (const width of [1400, 1200, 800, 400]) {
    const page = await open({ document: html(samples.job({ count: 4 })), width });
    const wide = await page.locator("#interruptions .scroll").evaluate((box) =>
      box.scrollWidth - box.clientWidth);
    assert.equal(wide, 0, `${width}`);
    await page.context().close();
  }
});

test("an axis over twenty decades has labels that fit", () => {
  const decades = new Function(`${readFileSync("agent/report/page/curve.js")}; return decades`)();
  for (const [low, high, most] of [[1e-10, 1e10, 9], [1e-10, 1e10, 5], [3e-4, 7, 9], [2, 3, 9]]) {
    const found = decades(low, high, most);
    assert.ok(found.length > 0 && found.length <= most, `${low} to ${high}: ${found}`);
  }
  assert.deepEqual(decades(1e-10, 1e10, 5), [1e-10, 1e-5, 1, 1e5, 1e10]);
});

test("says at a glance what a person asks", async () => {
  const page = await open({ document: html(samples.job()) });
  assert.equal(await page.locator("#job").textContent(), "mnist");
  assert.match(await page.locator("#state").textContent(), /Training/);
  const figures = await page.locator("#figures").innerText();
  for (const words of [/Where\s+us-west-2/, /Loss\s+0\.\d/, /Spot cost\s+\$/, /Saved\s+67 %/,
    /Goodput\s+\d+\.\d %/, /Interruptions\s+2/, /Problems\s+1/]) assert.match(figures, words);
  assert.equal(await page.locator("#interruption-table tbody tr").count(), 2);
  assert.equal(await page.locator("#timeline-chart g[data-index]").count(), 3);
  await page.locator("#repeats-details summary").click();
  assert.match(await page.locator("#repeats tbody").innerText(), /40\s+12\s+the trainer failed/);
  await page.context().close();
});

test("a name and a line of the log stay text", async () => {
  const model = samples.hostile();
  const page = await open({ document: html(model) });
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.equal(await page.locator("img").count(), 0);
  assert.ok((await page.locator("#job").textContent()).startsWith(model.evil));
  assert.ok((await page.locator("#journal").textContent()).includes(model.evil));
  await page.context().close();
});

test("another script does not run, even where it gets into the page", async () => {
  const document = html(samples.job()).replace("</body>",
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'></body>");
  const page = await open({ document });
  await page.waitForTimeout(200);
  assert.equal(await page.evaluate(() => window.hacked), undefined);
  assert.ok(page.troubles.some((each) => each.includes("Content Security Policy")));
  await page.context().close();
});

test("a notice counts down", async () => {
  const model = samples.notice(70);
  const page = await open({ document: html(model) });
  assert.match(await page.locator("#notice").textContent(), /1:\d\d.*is terminated.*durable/);
  await page.context().close();
});

test("the keyboard reaches everything", async () => {
  const page = await open({ document: html(samples.sweep()) });
  const seen = [];
  for (let i = 0; i < 60; ++i) {
    await page.keyboard.press("Tab");
    const [id, outline] = await page.evaluate(() => [document.activeElement.id,
      getComputedStyle(document.activeElement).outlineStyle]);
    if (await page.evaluate(() => document.activeElement !== document.body))
      assert.notEqual(outline, "none", `the focus on ${id} is seen`);
    seen.push(id);
  }
  for (const id of ["theme", "zoom-in", "timeline-chart", "curve-chart", "log", "parallel",
    "troubles"]) assert.ok(seen.includes(id), `${id} of ${seen}`);

  await page.locator("#timeline-chart").focus();
  await page.keyboard.press("Home");
  const first = await page.locator("#timeline-says").textContent();
  assert.match(first, /^i-\w+ · .* · us-west-2a · /);
  await page.keyboard.press("ArrowRight");
  assert.notEqual(await page.locator("#timeline-says").textContent(), first);

  await page.locator("#curve-chart").focus();
  await page.keyboard.press("Home");
  assert.match(await page.locator("#curve-says").textContent(), /^step 0 · loss 2\./);
  await page.keyboard.press("End");
  assert.match(await page.locator("#curve-says").textContent(),
    /^step 3,990 · loss 0\..* · val_loss 0\..* · val_accuracy 94\.\d\d % · constructor 0\.001 · /);
  assert.match(await page.locator("#figures").textContent(), /val_loss0\.31val_accuracy94\.32 %/);

  await page.locator("#parallel").focus();
  await page.keyboard.press("ArrowDown");
  assert.match(await page.locator("#sweep-says").textContent(), /lr .* · loss /);
  assert.equal(await page.locator("#sweep-table tr.chosen-row").count(), 1);

  const validated = (await page.locator("#sweep-table tbody tr td:nth-child(8)")
    .allTextContents()).filter(Boolean).map(parseFloat);
  assert.deepEqual(validated, [...validated].sort((a, b) => b - a), "the best is above");
  assert.match(await page.locator("#sweep-table tbody tr:first-child").textContent(), /★/);
  assert.match(await page.locator("#objective").textContent(),
    /best by val_accuracy: the largest/);

  await page.locator("th[data-key=loss] button").focus();
  await page.keyboard.press("Enter");
  const losses = async () => (await page.locator("#sweep-table tbody tr td:nth-child(6)")
    .allTextContents()).filter(Boolean).map(Number);
  assert.deepEqual(await losses(), [...await losses()].sort((a, b) => a - b));
  await page.keyboard.press("Enter");  // the focus stayed
  assert.deepEqual(await losses(), [...await losses()].sort((a, b) => b - a));
  await page.context().close();
});

test("colours: the system's first, then what was chosen; moving things rest where asked",
  async () => {
    const page = await open({ document: html(samples.job()), colorScheme: "dark",
      reducedMotion: "reduce" });
    const theme = () => page.evaluate(() => document.documentElement.dataset.theme);
    assert.equal(await theme(), "dark");
    await page.locator("#theme").click();
    assert.equal(await theme(), "light");
    await page.context().close();
  });

// WCAG 2: what is read has 4.5, signs that mean something have 3.
test("contrast is enough, dark and light", async () => {
  const pairs = [["ink", "paper", 4.5], ["soft", "paper", 4.5], ["soft", "card", 4.5],
    ["good", "paper", 4.5], ["warn", "paper", 4.5], ["bad", "paper", 4.5],
    ["bad", "bad-paper", 4.5],
    ["accent", "card", 4.5], ["accent-ink", "accent", 4.5], ["on-training", "training", 4.5],
    ["loss", "card", 4.5], ["accuracy", "card", 4.5], ["mark", "card", 4.5],
    ["training", "card", 3], ["stopping", "card", 3], ["blocked", "card", 3],
    ["storage", "card", 3],
    ["preparing", "card", 2.5], ["waiting", "card", 2.5]];
  for (const colorScheme of ["light", "dark"]) {
    const page = await open({ document: html(samples.job()), colorScheme });
    const low = await page.evaluate((all) => {
      const channel = (value) => value <= 0.04045 ? value / 12.92
        : ((value + 0.055) / 1.055) ** 2.4;
      const light = (name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
        const [r, g, b] = [1, 3, 5].map((at) => channel(parseInt(hex.slice(at, at + 2), 16) / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
      };
      return all.map(([a, b, least]) => {
        const [x, y] = [light(a), light(b)].sort((one, other) => other - one);
        return [a, b, (x + 0.05) / (y + 0.05), least];
      }).filter(([, , ratio, least]) => !(ratio >= least));
    }, pairs);
    assert.deepEqual(low, [], colorScheme);
    await page.context().close();
  }
});

test("prints everything, on white, without its switches", async () => {
  const page = await open({ document: html(samples.long()), colorScheme: "dark" });
  await page.emulateMedia({ media: "print" });
  await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
  assert.equal(await page.locator("#theme").isVisible(), false);
  assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".scroll"))
    .overflowY), "visible");
  await shot(page, "long-print");
  await page.context().close();
});

test("what is no model is said to be none", async () => {
  for (const document of [html("x"), html({ version: 2 })]) {
    const page = await open({ document });
    assert.match(await page.locator("#empty").textContent(), /cannot be read/);
    await page.context().close();
  }
});
