// The live page and its server-sent events: what it shows while they come, and while none do.
import assert from "node:assert/strict";
import http from "node:http";
import { after, test } from "node:test";

import { browser, html, open, overflow, shot } from "./browser.mjs";
import * as samples from "./samples.mjs";

const page = html();
const listeners = new Set();
let answering = true;
const asked = [];
const server = http.createServer((request, response) => {
  asked.push(request.url);
  if (request.url.split("?")[0] === "/somewhere/") {
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    return response.end(page);
  }
  if (!answering) return response.writeHead(503).end();
  response.setHeader("Content-Type", "text/event-stream");
  response.flushHeaders();
  listeners.add(response);
  request.on("close", () => listeners.delete(response));
  for (const one of beginning) tell(...one, [response]);
});
let beginning = [];
function tell(event, data, to = listeners) {
  for (const each of to) each.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}
// As agent/report/page/feed.cpp begins a connection.
function first(model) {
  const { curve, ...rest } = model;
  return [["model", rest], ["points", { experiment: null, from: 0, ...curve }]];
}
await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
const url = `http://127.0.0.1:${server.address().port}/somewhere/`;
after(async () => {
  await browser.close();
  server.closeAllConnections?.();
  server.close();
});
const says = (one, id, pattern) => one.waitForFunction(([name, source]) =>
  new RegExp(source).test(document.getElementById(name).textContent), [id, pattern],
{ timeout: 20000 });

test("shows what comes, keeps the points that it has, and takes back those that were not",
  async () => {
    beginning = first(samples.job());
    const one = await open({ url });
    await says(one, "live", "live");
    await says(one, "progress-words", "step 3,990 of 5,200");
    await one.locator("#curve-chart").focus();
    await one.keyboard.press("End");
    assert.match(await one.locator("#curve-says").textContent(), /^step 3,990 /);

    tell("points", { experiment: null, from: 400, step: [4000], loss: [0.5], accuracy: [0.9],
      time: [1] });
    tell("model", { progress: { step: 4000, steps_total: 5200 } });
    await says(one, "progress-words", "step 4,000 of 5,200");
    await one.keyboard.press("End");
    assert.match(await one.locator("#curve-says").textContent(), /^step 4,000 · loss 0\.5/);

    tell("points", { experiment: null, from: 100, step: [], loss: [], accuracy: [], time: [] });
    tell("model", { says: "it went back" });
    await says(one, "says", "it went back");
    await one.keyboard.press("End");
    assert.match(await one.locator("#curve-says").textContent(), /^step 990 /);
    assert.deepEqual(one.troubles, []);
    assert.deepEqual(one.asked.map((each) => new URL(each).pathname),
      ["/somewhere/", "/somewhere/events"]);
    await one.context().close();
  });

test("says that the connection is lost, tries again, and then shows what it missed", async () => {
  beginning = first(samples.job());
  const one = await open({ url });
  await says(one, "live", "● live");
  answering = false;
  for (const each of listeners) each.destroy();
  await says(one, "live", "connection lost at \\d\\d:\\d\\d:\\d\\d, trying again");
  await shot(one, "lost");
  beginning = first({ ...samples.job(), state: "waiting", says: "for capacity" });
  answering = true;
  await says(one, "live", "● live");
  await says(one, "state", "Waiting");
  await one.context().close();
});

test("no history yet: says so, until there is one", async () => {
  beginning = first(samples.nothing());
  const one = await open({ url });
  assert.ok(await one.locator("#empty").isVisible());
  await shot(one, "empty");
  for (const each of first(samples.job())) tell(...each);
  await says(one, "job", "mnist");
  assert.ok(!await one.locator("#empty").isVisible());
  await one.context().close();
});

test("of several jobs one is chosen", async () => {
  beginning = first({ ...samples.job(), jobs: [{ key: "b/a/", name: "a" },
    { key: "b/c d/", name: "c" }] });
  const one = await open({ url });
  await says(one, "live", "live");
  asked.length = 0;
  await one.locator("#jobs").selectOption("c");
  await one.waitForURL(/job=/);
  await says(one, "live", "live");
  assert.ok(asked.includes("/somewhere/events?job=b%2Fc%20d%2F"), asked.join(" "));
  await one.context().close();
});

test("a server of another version is not guessed at", async () => {
  beginning = [["model", { version: 2, job: "newer" }]];
  const one = await browser.newPage();
  await one.goto(url);
  await says(one, "live", "older than its server");
  assert.notEqual(await one.locator("#job").textContent(), "newer");
  await one.close();
});

test("stays in its width on a phone while things come", async () => {
  beginning = first(samples.long());
  const one = await open({ url, width: 375 });
  await says(one, "live", "live");
  await one.waitForFunction(() => !document.getElementById("curve").hidden);
  assert.equal(await overflow(one), 0);
  await one.context().close();
});
