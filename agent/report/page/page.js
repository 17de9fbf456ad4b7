// The page of a job: its state first, then everything that happened. The model
// (agent/report/model.hpp) is in the page itself (`spotter report`), or comes by server-sent events
// from `events` beside the page's own address (agent/report/page/feed.hpp says how).
const states = {
  training: ["●", "good", "Training"], waiting: ["◌", "warn", "Waiting"],
  moving: ["⇄", "warn", "Moving"], blocked: ["■", "bad", "Blocked"],
  released: ["○", "calm", "Released"], finished: ["✓", "good", "Finished"],
  "gave-up": ["✕", "bad", "Gave up"], unknown: ["?", "calm", "Unknown"],
};
const model = {};
const reply = { curve: { step: [], loss: [], accuracy: [], time: [] } };
const view = { byTime: false, log: null, troubles: false };
const timeline = new TimeLine($("timeline-chart"), $("timeline-says"));
const curve = new Chart($("curve-chart"), $("curve-canvas"), { says: pointWords,
  reading: $("curve-says") });
const sweep = new Sweep();
const world = new World();
const dirty = new Set();

// The parts of the model that each part of the page shows.
const parts = {
  header: [showHeader, ["job", "experiment", "state", "says", "progress", "instances", "cost",
    "goodput", "interruptions", "journal", "now", "checkpoints", "world", "notices"]],
  empty: [showEmpty, ["instances", "curve", "journal", "world", "sweep"]],
  timeline: [showTimeline, ["instances", "interruptions", "volumes", "world", "from", "to"]],
  world: [showWorld, ["world", "controls"]],
  curve: [showCurve, ["curve", "interruptions"]],
  interruptions: [showInterruptions, ["interruptions"]],
  sweep: [showSweep, ["sweep"]],
  account: [showAccount, ["cost", "goodput", "checkpoints", "warnings", "foreign_lines",
    "repeats"]],
  journal: [showJournal, ["journal"]],
  jobs: [showJobs, ["jobs"]],
};
const redraw = oncePerFrame(() => {
  for (const [name, [show]] of Object.entries(parts)) if (dirty.delete(name)) show();
  document.documentElement.dataset.drawn = String(Number(document.documentElement.dataset.drawn ||
    0) + 1);
});
function changed(keys) {
  for (const [name, [, of]] of Object.entries(parts))
    if (of.some((key) => keys.includes(key))) dirty.add(name);
  redraw();
}

function lastInstance() {
  const shown = list(model.instances);
  return shown.findLast((one) => !one.ended) || shown.at(-1);
}
// As the job reports it; the emulator knows a little earlier.
function openNotice() {
  const one = list(model.notices).findLast((each) => known(each.deadline));
  if (one && one.deadline > now() - 1 && !model.to) return one;
  const early = list(model.world?.instances).find((each) => known(each.notice) &&
    each.notice > now() && each.state === "running");
  return early ? { instance: early.id, zone: early.zone, deadline: early.notice } : null;
}

function showHeader() {
  const [sign, mood, words] = states[model.state] || states.unknown;
  const name = model.job || (model.world ? "spotter-emulator" : "Spotter");
  const job = known(model.experiment) ? `${name}, experiment ${model.experiment}` : name;
  $("job").textContent = job;
  document.title = model.job ? `${words}: ${job} – Spotter` : job;
  $("state").textContent = model.job ? `${sign} ${words}` : "";
  $("state").className = `badge ${mood}`;
  $("says").textContent = model.says || "";
  showProgress();
  showFigures();
  tick();
}
function showProgress() {
  const { step, steps_total: total, epoch, epochs_total: epochs } = model.progress || {};
  $("progress").hidden = !known(step);
  if (!known(step)) return;
  const part = known(total) && total > 0 ? clamp(step / total, 0, 1) : null;
  $("progress-bar").hidden = part === null;
  $("progress-bar").value = part ?? 0;
  $("progress-words").textContent = [part !== null && percent(part),
    `step ${whole(step)}${known(total) ? ` of ${whole(total)}` : ""}`,
    known(epoch) && `epoch ${epoch}${known(epochs) ? ` of ${epochs}` : ""}`].filter(Boolean)
    .join(" · ");
}
function showFigures() {
  const progress = model.progress || {};
  const cost = model.cost || {};
  const goodput = model.goodput || {};
  const where = lastInstance();
  const losses = list(model.interruptions);
  const running = where && !where.ended && !known(model.to);
  const word = progress.checkpoint_counts === "writes" ? "write" : "step";  // of a number
  const pace = progress.steps_per_second;
  const left = (progress.steps_total - progress.step) / pace;
  const others = running ? new Set(list(model.instances).filter((one) => !one.ended)
    .map((one) => one.id)).size : 0;
  const done = ["finished", "gave-up", "released"].includes(model.state);
  const newest = list(model.checkpoints).at(-1);
  facts($("figures"), [
    [running ? "Where" : "Last seen", others > 1 ? `${others} instances`
      : where && (where.zone || where.id), where && where.type],
    ["Loss", small(progress.loss)],
    ["Accuracy", percent(progress.accuracy, 2)],
    // The rest is in the curve: a trainer may report sixteen.
    ...Object.entries(progress.metrics || {}).filter(([name]) => /^val/.test(name)).slice(0, 4)
      .map(([name, value]) => [name, metric(name, value)]),
    ["Pace", known(pace) && pace > 0 && !done && `${small(pace)} steps/s`],
    ["Time left", known(left) && left >= 0 && !done && duration(left),
      known(left) && `until ${timeIn(now() + left, left)}`],
    ["Checkpoint", newest && (running ? `${duration(now() - newest.time)} ago`
      : timeIn(newest.time, 1e6)), newest && known(newest.step) &&
      `${word} ${whole(newest.step)}`],
    ["Spot cost", dollars(cost.spot_dollars), known(cost.on_demand_dollars) &&
      `on demand ${dollars(cost.on_demand_dollars)}`],
    ["Saved", known(cost.savings_percent) && `${Math.round(cost.savings_percent)} %`,
      known(cost.on_demand_dollars) && known(cost.spot_dollars) &&
      dollars(cost.on_demand_dollars - cost.spot_dollars)],
    ["Goodput", percent(goodput.part), known(goodput.trained_seconds) &&
      `trained ${duration(goodput.trained_seconds)}`],
    ["Interruptions", model.job && String(losses.length), losses.length && known(
      goodput.repeated_steps) ? `${whole(goodput.repeated_steps)} ${word}s repeated` : ""],
    ["Problems", problems() && String(problems()), "in the journal below"],
  ]);
}
function problems() {
  return list(model.journal).filter((one) => /^(warn|err)/.test(one.level || "")).length;
}

// What changes with time alone: the countdown of a notice, ages.
function tick() {
  const notice = openNotice();
  $("notice").hidden = !notice;
  if (notice) {
    const durable = known(notice.durable) ? "The newest checkpoint is durable."
      : model.job ? "The newest step is not durable yet." : "";
    const kinds = { stop: "is stopped", hibernate: "hibernates", group: "is replaced" };
    const words = `Notice: ${notice.instance || "the instance"} in ${notice.zone || "its zone"} ` +
      `${kinds[notice.kind] || "is terminated"}. ${durable}`;
    if ($("notice").lastChild?.textContent !== words) {
      $("notice").replaceChildren(make("strong", { "aria-hidden": "true" }), make("span", {},
        words));
    }
    $("notice").firstChild.textContent = countdown(notice.deadline - now());
  }
}

function showEmpty() {
  $("empty").hidden = Boolean(list(model.instances).length || list(model.journal).length ||
    model.curve?.step?.length || model.world || model.sweep);
}

function showTimeline() {
  timeline.show(model);
  const { instances } = timeline;
  $("timeline").hidden = !instances.length;
  const range = instances.length ? timeline.whole()[1] - timeline.whole()[0] : 0;
  fillKnown($("instances"), [
    ["Instance", "name", (one) => one.id], ["Type", "", (one) => one.type],
    ["Experiment", "number", (one) => whole(one.experiment)],
    ["Zone", "", (one) => one.zone], ["Began", "time", (one) => timeIn(one.began, range)],
    ["Ended", "time", (one) => one.ended ? timeIn(one.ended, range) : "–"],
    ["Lasted", "number", (one) => duration((one.ended ?? now()) - one.began)],
    ["Price an hour", "number", (one) => dollars(one.price)],
    ["End", "", (one) => one.ended ? endings[one.end] ?? one.end : "runs"],
  ], instances);
  const volumes = list(model.volumes);
  $("storage-details").hidden = !volumes.length;
  fillKnown($("volumes"), [
    ["Time", "time", (one) => timeIn(one.time, range)], ["Change", "", (one) => one.change],
    ["Volume", "name", (one) => one.volume], ["Snapshot", "name", (one) => one.snapshot],
    ["Zone", "", (one) => one.zone]], volumes);
}

function showWorld() {
  $("world").hidden = !model.world;
  if (model.world) world.show(model.world, Boolean(model.controls));
}

function pointWords(index) {
  const { step, loss, accuracy, time: times } = model.curve;
  return [`step ${whole(step[index])}`, known(loss[index]) && `loss ${small(loss[index])}`,
    known(accuracy[index]) && `accuracy ${percent(accuracy[index], 2)}`,
    ...others(model.curve).map((name) => known(model.curve[name][index]) &&
      `${name} ${metric(name, model.curve[name][index])}`),
    fullTime(times[index])].filter(Boolean).join(" · ");
}
function showCurve() {
  const { step, loss, accuracy, time: times } = model.curve || reply.curve;
  const has = list(step).length > 0;
  $("curve").hidden = !has;
  if (!has) return;
  const byTime = view.byTime && list(times).some(known);
  const x = byTime ? times : step;
  let [low, high] = [Infinity, 0];
  for (const each of loss) if (known(each) && each > 0) {
    low = Math.min(low, each);
    high = Math.max(high, each);
  }
  const log = view.log ?? high / low > 30;
  $("log").setAttribute("aria-pressed", String(log));
  $("by-time").setAttribute("aria-pressed", String(byTime));
  const panels = [];
  if (loss.some(known)) panels.push({ name: log ? "loss (logarithmic)" : "loss", log,
    colour: "loss", lines: [{ x, y: loss, colour: "loss" }] });
  if (list(accuracy).some(known)) panels.push({ name: "accuracy", colour: "accuracy",
    lines: [{ x, y: accuracy, colour: "accuracy" }] });
  addOthers(panels, x, log);
  const marks = list(model.interruptions).map((one, index) => ({ words: String(index + 1),
    x: byTime ? one.notice ?? one.deadline ?? one.resumed
      : one.resumed_step ?? one.checkpoint_step ?? one.step })).filter((mark) => known(mark.x));
  curve.show({ panels, marks, times: byTime });
  if ($("points").closest("details").open) showPoints();
}
// A validation's loss over training's, its accuracy likewise; any other metric below, by itself.
function addOthers(panels, x, log) {
  for (const name of others(model.curve)) {
    const y = model.curve[name];
    if (!y.some(known)) continue;
    const like = /loss$/.test(name) ? "loss" : /acc(uracy)?$/.test(name) ? "accuracy" : null;
    const panel = like && panels.find((one) => one.colour === like);
    const second = /^val/.test(name) && panel && panel.lines.length === 1;
    if (second) {
      panel.name += `, ${name} thick`;
      panel.lines.push({ x, y, colour: like, width: 3 });
    } else {
      panels.push({ name: log && like === "loss" ? `${name} (logarithmic)` : name,
        log: log && like === "loss", colour: like, lines: [{ x, y, colour: like || "accent" }] });
    }
  }
}
// Of fifty thousand rows a table shows some, evenly spread, with the last.
function showPoints() {
  const count = list(model.curve?.step).length;
  const rows = [];
  const most = Math.min(count, 24);
  for (let i = 0; i < most; ++i) rows.push(Math.round((i * (count - 1)) / Math.max(1, most - 1)));
  const { step, loss, accuracy, time: times } = model.curve;
  fillKnown($("points"), [["Step", "number", (i) => whole(step[i])],
    ["Loss", "number", (i) => small(loss[i])],
    ["Accuracy", "number", (i) => percent(accuracy[i], 2)],
    ...others(model.curve).map((name) => [name, "number",
      (i) => metric(name, model.curve[name][i])]),
    ["Time", "time", (i) => fullTime(times[i])]], rows);
}

function showInterruptions() {
  const rows = list(model.interruptions);
  $("interruptions").hidden = !rows.length;
  const kinds = { terminate: "▼ terminated", stop: "▼ stopped", hibernate: "▼ hibernated",
    group: "▼ replaced", lost: "✕ no notice" };
  const number = new Map(rows.map((one, index) => [one, index + 1]));
  const seconds = (value) => (known(value) ? `${(Math.round(value * 10) / 10).toFixed(1)} s` : "");
  fillKnown($("interruption-table"), [
    ["#", "number", (one) => String(number.get(one))],
    ["Time", "time", (one) => fullTime(one.notice ?? one.deadline ?? one.resumed)],
    ["Kind", "", (one) => kinds[one.kind] || one.kind], ["Zone", "", (one) => one.zone],
    ["Instance", "name", (one) => one.instance],
    ["To durable", "number", (one) => seconds(one.seconds_to_durable)],
    ["Window used", "number", (one) => known(one.window_trained) && (known(one.window_seconds) ?
      `${Math.round(one.window_trained)} of ${Math.round(one.window_seconds)} s`
      : seconds(one.window_trained))],
    ["At step", "number", (one) => whole(one.step)],
    ["Resumed at", "number", (one) => whole(one.resumed_step)],
    ["Repeated", "number", (one) => whole(one.repeated_steps)],
    ["Down", "number", (one) => known(one.down_seconds) ? duration(one.down_seconds)
      : one.resumed || !model.job ? "" : "not resumed"],
    ["Why", "words", (one) => one.why]], rows);
}

function showSweep() {
  const has = list(model.sweep?.experiments).length > 0;
  $("sweep").hidden = !has;
  if (has) sweep.show(model.sweep);
}

function showAccount() {
  const cost = model.cost || {};
  const goodput = model.goodput || {};
  facts($("cost"), [["Instances ran", duration(cost.instance_seconds)],
    ["Spot cost", dollars(cost.spot_dollars)], ["On demand", dollars(cost.on_demand_dollars)],
    ["Saved", known(cost.savings_percent) && `${cost.savings_percent.toFixed(1)} %`]]);
  facts($("goodput"), [["Goodput", percent(goodput.part)],
    ["Trained", duration(goodput.trained_seconds)], ["Elapsed", duration(goodput.elapsed_seconds)],
    ["Repeated", known(goodput.repeated_steps) && `${whole(goodput.repeated_steps)} steps` +
      (known(goodput.repeated_seconds) ? `, ${duration(goodput.repeated_seconds)}` : "")],
    ["Stalled by checkpoints", duration(goodput.stall_seconds)],
    ["Newest checkpoint", bytes(list(model.checkpoints).at(-1)?.bytes)]]);
  const lines = [cost.formula, ...list(cost.notes), ...list(model.warnings),
    model.foreign_lines > 0 && `${model.foreign_lines} lines of the history could not be read.`];
  $("notes").replaceChildren(...lines.filter(Boolean).map((each) => make("li", {}, each)));
  const repeats = list(model.repeats);
  $("repeats-details").hidden = !repeats.length;
  fillKnown($("repeats"), [["Time", "time", (one) => fullTime(one.time)],
    ["Instance", "name", (one) => one.instance], ["From step", "number", (one) => whole(one.step)],
    ["Repeated", "number", (one) => whole(one.repeated_steps)],
    ["Why", "words", (one) => one.why]], repeats);
  $("account").hidden = !$("cost").children.length && !$("goodput").children.length;
}

function showJournal() {
  const all = list(model.journal);
  $("journal").hidden = !all.length;
  $("troubles").setAttribute("aria-pressed", String(view.troubles));
  const rows = all.filter((one) => !view.troubles || /^(warn|err)/.test(one.level || ""));
  const box = $("lines");
  const atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
  const level = (one) => /^warn/.test(one.level || "") ? "warning" : /^err/.test(one.level || "")
    ? "error" : "";
  fillKnown($("journal-table"), [["Time", "time", (one) => fullTime(one.time)],
    ["Level", "level", (one) => ({ warning: "! warning", error: "✕ error" })[level(one)]],
    ["Instance", "name", (one) => one.instance], ["Event", "name", (one) => one.event],
    ["Words", "words", (one) => one.words]], rows, level);
  if (atEnd) box.scrollTop = box.scrollHeight;
}
