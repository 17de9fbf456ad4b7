// Models as agent/report/model.hpp says them, made up: small, of a sweep, of three days, hostile.
const begin = Date.UTC(2026, 10, 19, 6, 0, 0) / 1000;
const zones = ["us-west-2a", "us-west-2b", "us-west-2c"];
// The same numbers every time.
function chance(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

function empty(extra) {
  return { version: 1, job: "mnist", experiment: null, now: begin + 60, from: null, to: null,
    state: "unknown", says: "", progress: {}, instances: [], interruptions: [], checkpoints: [],
    volumes: [], curve: { step: [], loss: [], accuracy: [], time: [] }, cost: {}, goodput: {},
    journal: [], sweep: null, world: null, ...extra };
}

// A job of `count` interruptions and `points` points of its curve in `seconds`.
export function job({ count = 2, points = 400, seconds = 5400, finished = false, seed = 7 } = {}) {
  const random = chance(seed);
  const model = empty({ now: begin + seconds, from: begin, to: finished ? begin + seconds : null });
  const share = seconds / (count + 1);
  let zone = 0;
  let [at, step] = [begin, 0];
  const total = points * 10;
  const perSecond = total / seconds;
  let volume = `vol-0${(seed * 7919).toString(16).padStart(16, "0")}`;
  const trained = [];
  for (let i = 0; i <= count; ++i) {
    const last = i === count;
    const id = `i-0${(Math.floor(random() * 2 ** 40)).toString(16).padStart(16, "0")}`;
    const ended = last ? begin + seconds : begin + share * (i + 1) - share * 0.2 * random();
    const from = i === 0 ? 0 : zone;
    zone = i === 0 ? 0 : Math.floor(random() * 3);
    const moved = zone !== from;
    const phases = [{ phase: "looking", from: at, to: at + share * 0.01 }];
    let clock = at + share * 0.01;
    const spend = (phase, part) => {
      phases.push({ phase, from: clock, to: clock + share * part });
      clock += share * part;
    };
    if (moved) {
      const before = volume;
      volume = `vol-0${(Math.floor(random() * 2 ** 40)).toString(16).padStart(16, "0")}`;
      const snapshot = `snap-0${(Math.floor(random() * 2 ** 40)).toString(16).padStart(16, "0")}`;
      model.volumes.push(
        { time: clock, change: "snapshot", volume: before, snapshot, zone: zones[from] },
        { time: clock + share * 0.06, change: "copy", volume, snapshot, zone: zones[zone] },
        { time: clock + share * 0.08, change: "verified", volume, snapshot: null,
          zone: zones[zone] },
        { time: clock + share * 0.09, change: "deleted", volume: before, snapshot: null,
          zone: zones[from] });
      spend("moving", 0.1);
    } else if (i === 0) {
      model.volumes.push({ time: clock, change: "attached", volume, snapshot: null,
        zone: zones[0] });
    }
    spend("mounting", 0.01);
    spend("preparing", 0.02);
    const stop = last ? ended : ended - share * 0.02;
    phases.push({ phase: "training", from: clock, to: stop });
    trained.push([clock, stop]);
    if (!last) phases.push({ phase: "stopping", from: stop, to: ended });
    const lost = !last && random() < 0.25;
    model.instances.push({ id, type: i % 3 ? "g5.xlarge" : "g6.2xlarge", zone: zones[zone],
      began: at, booted: at, ended: last && !finished ? null : ended, price: 0.3 + random() * 0.2,
      end: last ? (finished ? "finished" : "running") : lost ? "lost" : "interrupted", phases });
    step += Math.round((stop - clock) * perSecond);
    if (last) break;
    const next = ended + share * (0.03 + 0.05 * random());
    const resumed = lost ? step - Math.round(random() * 60) : step;
    model.interruptions.push({ instance: id, zone: zones[zone], kind: lost ? "lost" : "terminate",
      notice: lost ? ended : ended - 120, deadline: lost ? null : ended,
      durable: lost ? null : ended - 117, seconds_to_durable: lost ? null : 2 + 2 * random(),
      window_seconds: lost ? null : 118, window_trained: lost ? null : 100 + random() * 10, step,
      checkpoint_step: resumed, resumed_step: resumed, repeated_steps: step - resumed,
      resumed: next + share * 0.1, down_seconds: next + share * 0.1 - stop,
      why: lost ? "The instance died without a notice; what was trained since the checkpoint was " +
        "trained again." : "A notice came; the checkpoint was durable before the deadline." });
    model.journal.push(
      { time: ended - 120, instance: id, level: lost ? "warning" : "info",
        event: lost ? "instance-lost" : "notice", words: lost ? "the instance is gone"
          : "interruption notice: terminate in 120 s" },
      { time: next + share * 0.1, instance: id, level: "info", event: "resumed",
        words: `the trainer went on at step ${resumed}` });
    model.checkpoints.push({ time: ended - 117, step: resumed, seconds: 0.4, bytes: 93e6 });
    step = resumed;
    at = next;
  }
  const whole = trained.reduce((sum, [a, b]) => sum + b - a, 0);
  const { curve } = model;
  // The last as an object's own: a trainer may give any name.
  Object.assign(curve, { val_loss: [], val_accuracy: [], constructor: [] });
  let [piece, offset] = [0, 0];
  for (let i = 0; i < points; ++i) {
    let into = (i / points) * whole - offset;
    while (into > trained[piece][1] - trained[piece][0] && piece + 1 < trained.length) {
      offset += trained[piece][1] - trained[piece][0];
      into = (i / points) * whole - offset;
      ++piece;
    }
    curve.step.push(i * 10);
    curve.loss.push(Number((2.3 * Math.exp(-5 * i / points) + 0.08 + 0.1 * random()).toFixed(5)));
    const accuracy = 0.97 - 0.85 * Math.exp(-6 * i / points);
    curve.accuracy.push(i % 20 ? null : Number(accuracy.toFixed(4)));
    curve.time.push(Math.round((trained[piece][0] + into) * 100) / 100);
    const evaluated = i % 100 === 99;
    curve.val_loss.push(evaluated ? Number((curve.loss.at(-1) + 0.1).toFixed(5)) : null);
    curve.val_accuracy.push(evaluated ? Number((accuracy - 0.02).toFixed(4)) : null);
    curve.constructor.push(evaluated ? 1e-3 : null);
  }
  model.repeats = [{ time: trained[0][0] + 60, instance: model.instances[0].id, step: 40,
    repeated_steps: 12, why: "the trainer failed: 12 steps since the last checkpoint" }];
  const hours = model.instances.reduce((sum, one) => sum + (one.ended ?? model.now) - one.began, 0);
  model.cost = { instance_seconds: hours, spot_dollars: hours / 3600 * 0.4,
    on_demand_dollars: hours / 3600 * 1.21, savings_percent: 66.9,
    formula: "savings = (1 - spot price x seconds / on-demand price x seconds) x 100, as " +
      "SageMaker's managed spot training computes it of billable seconds." };
  model.goodput = { part: whole / seconds, trained_seconds: whole, elapsed_seconds: seconds,
    repeated_steps: model.interruptions.reduce((sum, one) => sum + one.repeated_steps, 0),
    repeated_seconds: 40, stall_seconds: 12 };
  model.progress = { step: total - 10, steps_total: finished ? total - 10 : total * 1.3, epoch: 4,
    epochs_total: 6, loss: curve.loss.at(-1), accuracy: 0.9655,
    metrics: { val_loss: 0.31,
      val_accuracy: 0.9432, constructor: 1e-3 }, steps_per_second: perSecond };
  model.state = finished ? "finished" : "training";
  model.says = finished ? "the result is durable and the fleet is cancelled"
    : "the trainer runs; the newest checkpoint is durable";
  model.journal.push({ time: model.now - 30, instance: model.instances.at(-1).id, level: "error",
    event: "not-permitted", words: "EC2 refuses DescribeSpotPriceHistory: add this to the role's " +
      'policy: {"Effect":"Allow","Action":"ec2:DescribeSpotPriceHistory","Resource":"*"}' });
  return model;
}

export const long = () => job({ count: 100, points: 50000, seconds: 3 * 86400, seed: 11 });

// The notice is there, nothing resumed yet.
export function notice(seconds = 95) {
  const model = job();
  const at = Date.now() / 1000;
  const shift = at - model.now;
  const later = (value) => typeof value === "number" && value > 1e9 ? value + shift : value;
  const moved = JSON.parse(JSON.stringify(model), (_, value) => later(value));
  const one = moved.instances.at(-1);
  moved.notices = [{ instance: one.id, zone: one.zone, kind: "terminate", notice: at - 25,
    deadline: at + seconds, durable: at - 21, seconds_to_durable: 3.6, window_seconds: 118,
    window_trained: null, step: 3990, checkpoint_step: 3990, resumed_step: null,
    repeated_steps: null, resumed: null, down_seconds: null, why: "" }];
  return moved;
}

export function sweep(count = 24) {
  const random = chance(3);
  const model = job({ finished: true });
  const optimizers = ["sgd", "adam", "adamw"];
  const experiments = [];
  for (let index = 0; index < count; ++index) {
    const lr = 10 ** (-4 + 3.2 * random());
    const batch = [32, 64, 128, 256][Math.floor(random() * 4)];
    const optimizer = optimizers[Math.floor(random() * 3)];
    const floor = 0.05 + Math.abs(Math.log10(lr) + 2.6) * 0.12 + random() * 0.05;
    const running = index > count - 4;
    const points = running ? 40 : 200;
    const curve = { step: [], loss: [], accuracy: [], time: [] };
    for (let i = 0; i < points; ++i) {
      curve.step.push(i * 20);
      curve.loss.push(floor + (2.3 - floor) * Math.exp(-i * lr ** 0.3 / 8) + 0.02 * random());
      curve.accuracy.push(null);
      curve.time.push(begin + index * 60 + i);
    }
    experiments.push({ index, state: index === 5 ? "failed" : running ? "training" : "finished",
      parameters: { lr: Number(lr.toPrecision(3)), batch, optimizer },
      loss: index === 5 ? null : curve.loss.at(-1),
      accuracy: index === 5 || running ? null : 1 - floor * 0.5, attempts: 1 + (index % 3),
      metrics: index === 5 || running ? {} : { val_accuracy: 0.5 + floor * 0.5 },
      seconds: points * 7, curve });
  }
  // The order by validation is the other way round.
  return { ...model, job: "digits", sweep: { parameters: ["lr", "batch", "optimizer"],
    objective: { metric: "val_accuracy", mode: "max", note: "" }, experiments } };
}

// Everything that a name, a tag or a log line may try.
export function hostile() {
  const evil = `<img src=x onerror="window.hacked=1"></script><script>window.hacked=2</script>` +
    "<!--\u2028\"'&lt;";
  const model = job();
  const spoil = (value) => Array.isArray(value) ? value.map(spoil)
    : typeof value === "string" ? evil + value
      : value && typeof value === "object" ? Object.fromEntries(Object.entries(value).map(
        ([key, each]) => [key, key === "state" || key === "level" ? each : spoil(each)])) : value;
  const made = spoil({ ...sweep(4), ...model, sweep: sweep(4).sweep });
  return { ...made, evil };
}

export const nothing = () => empty({ job: null });
// All that may be null is.
export function bare() {
  const model = job();
  const kept = ["id", "began", "phases", "curve", "step"];
  const strip = (value) => Array.isArray(value) ? value.map(strip)
    : value && typeof value === "object" ? Object.fromEntries(Object.keys(value).map((key) =>
      [key, kept.includes(key) ? value[key] : null])) : value;
  return { ...model, experiment: 3, from: null, progress: strip(model.progress),
    cost: strip(model.cost), goodput: strip(model.goodput), says: null,
    instances: strip(model.instances),
    interruptions: strip(model.interruptions), checkpoints: strip(model.checkpoints),
    volumes: strip(model.volumes), journal: strip(model.journal) };
}
