// page.mjs REPEAT: measures in the browser, prints JSON.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";

import { browser, html } from "../../tests/page/browser.mjs";
import { long } from "../../tests/page/samples.mjs";

const repeat = Number(process.argv[2] || 7);
const model = long();
const { curve, ...rest } = model;
const document = html(model);
const live = html();
const event = (name, data) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`;
const beginning = event("model", rest) + event("points", { experiment: null, from: 0, ...curve });
const listeners = new Set();
const server = http.createServer((request, response) => {
  const stream = request.url === "/events";
  response.setHeader("Content-Type", stream ? "text/event-stream" : "text/html; charset=utf-8");
  if (!stream) return response.end(live);
  response.write(beginning);
  listeners.add(response);
  request.on("close", () => listeners.delete(response));
});
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));

// From the navigation's begin until the curve, its last part, is on the screen.
async function load(url) {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  await page.addInitScript(() => {
    const look = () => {
      const drawn = document.documentElement?.dataset.drawn;
      const canvas = document.getElementById("curve-canvas");
      if (drawn && canvas?.style.height) requestAnimationFrame(() => {
        window.took = performance.now();
      });
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
  await page.goto(url);
  await page.waitForFunction(() => window.took);
  return [await page.evaluate(() => window.took), page];
}
const middle = (values) => values.sort((a, b) => a - b)[values.length >> 1];

async function loads(url) {
  const times = [];
  for (let i = 0; i < repeat; ++i) {
    const [took, page] = await load(url);
    times.push(took);
    await page.close();
  }
  return middle(times);
}

async function frames(url) {
  const [, page] = await load(url);
  await page.evaluate(() => {
    window.frames_seen = [];
    let last = performance.now();
    const each = (at) => {
      window.frames_seen.push(at - last);
      last = at;
      requestAnimationFrame(each);
    };
    requestAnimationFrame(each);
  });
  let step = curve.step.at(-1);
  let count = curve.step.length;
  const box = await page.locator("#curve-chart").boundingBox();
  for (let i = 0; i < 20; ++i) {
    step += 10;
    for (const each of listeners) each.write(event("points", { experiment: null, from: count,
      step: [step], loss: [0.1], accuracy: [null], time: [model.now + i] }) +
      event("model", { progress: { ...model.progress, step }, now: model.now + i }));
    ++count;
    for (let j = 0; j < 5; ++j) {
      await page.mouse.move(box.x + 60 + (i * 5 + j) * 10, box.y + 80);
      await page.waitForTimeout(50);
    }
  }
  const seen = (await page.evaluate(() => window.frames_seen)).slice(2).sort((a, b) => a - b);
  await page.close();
  return { frame_ms_median: seen[seen.length >> 1], frame_ms_longest: seen.at(-1),
    frame_ms_p95: seen[Math.floor(seen.length * 0.95)] };
}

const folder = mkdtempSync(path.join(tmpdir(), "page-bench-"));
try {
  const file = path.join(folder, "report.html");
  writeFileSync(file, document);
  const url = `http://127.0.0.1:${server.address().port}/`;
  console.log(JSON.stringify({ bytes: document.length / 2 ** 20,
    report_ms: await loads(`file://${file}`), live_ms: await loads(url), ...await frames(url) }));
} finally {
  rmSync(folder, { recursive: true });
  await browser.close();
  server.closeAllConnections?.();
  server.close();
}
