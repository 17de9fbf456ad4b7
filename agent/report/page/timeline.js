// The time line: a band for each zone, a bar for each instance, its phases by colour and height;
// below the bars the zone's volumes, and between the zones the moves by snapshot. One tab stop:
// the arrow keys go from instance to instance, and a line of text says what is chosen.
const phaseLooks = {
  training: ["training", 1], preparing: ["preparing", 0.66], mounting: ["preparing", 0.66],
  moving: ["preparing", 0.66], looking: ["waiting", 0.36], waiting: ["waiting", 0.36],
  stopping: ["stopping", 0.66], releasing: ["stopping", 0.66], finishing: ["stopping", 0.66],
  finished: ["stopping", 0.36], released: ["stopping", 0.36],
  blocked: ["blocked", 1], "gave-up": ["blocked", 1],
};
const legendOf = [["training", "training", 1], ["preparing", "moving, mounting, preparing", 0.66],
  ["stopping", "stopping, releasing storage", 0.66], ["waiting", "looking, waiting", 0.36],
  ["blocked", "blocked", 1], ["volume", "volume", 0.25]];
const endings = { running: "", interrupted: "interrupted", finished: "finished", failed: "failed",
  lost: "lost without a notice", left: "left" };

// The job's instances, then those of the emulator's world that the job has not reported.
function instancesOf(model) {
  const shown = list(model.instances);
  const ids = new Set(shown.map((one) => one.id));
  const others = list(model.world?.instances).filter((one) => !ids.has(one.id) && known(one.began));
  return [...shown, ...others.map((one) => ({ ...one, phases: one.training
    ? [{ phase: "training", from: one.began, to: one.ended }] : [] }))]
    .filter((one) => known(one.began)).sort((a, b) => a.began - b.began);
}

// From the changes of volumes: how long each existed, and what moved between zones.
function storageOf(model) {
  const spans = new Map();
  const moves = new Map();
  const life = (id, zone, at) => {
    if (!spans.has(id)) spans.set(id, { id, zone, from: at, to: null });
    const it = spans.get(id);
    it.zone = it.zone || zone;
    return it;
  };
  for (const one of list(model.volumes)) {
    if (!known(one.time)) continue;
    const it = one.volume ? life(one.volume, one.zone, one.time) : null;
    if (one.change === "deleted" && it && !one.snapshot) it.to = one.time;
    if (one.change === "snapshot" && one.snapshot)
      moves.set(one.snapshot, { from: one.time, zone: it?.zone || one.zone, to: null });
    if (one.change !== "copy") continue;
    const made = moves.get(one.snapshot) ||
      [...moves.values()].reverse().find((each) => each.to === null);
    if (made) Object.assign(made, { to: one.time, into: one.zone || it?.zone });
  }
  for (const one of list(model.world?.volumes))
    if (known(one.began)) life(one.id, one.zone, one.began).from = Math.min(
      spans.get(one.id).from, one.began);
  const open = list(model.world?.snapshots).filter((one) => one.state === "pending" &&
    known(one.began)).map((one) => ({ ...one, zone: spans.get(one.volume)?.zone }));
  return { spans: [...spans.values()], moves: [...moves.values()].filter((one) => one.to), open };
}

class TimeLine {
  constructor(chart, says) {
    Object.assign(this, { chart, says, model: {}, chosen: -1, span: null, end: null });
    chart.addEventListener("keydown", (event) => this.key(event));
    chart.addEventListener("pointermove", (event) => this.point(event));
    chart.addEventListener("pointerdown", (event) => this.point(event));
    this.paint = oncePerFrame(() => this.draw());
    new ResizeObserver(() => this.paint()).observe(chart);
  }

  show(model) {
    this.model = model;
    this.instances = instancesOf(model);
    this.storage = storageOf(model);
    this.paint();
  }

  whole() {
    const begins = this.instances.map((one) => one.began);
    const from = known(this.model.from) ? Math.min(this.model.from, ...begins.slice(0, 1))
      : begins[0];
    return [from, Math.max(known(this.model.to) ? this.model.to : now(), from + 1)];
  }
  range() {
    const [from, to] = this.whole();
    if (!this.span || this.span >= to - from) return [from, to];
    const end = clamp(this.end ?? to, from + this.span, to);
    return [end - this.span, end];
  }
  // Around the chosen instance; without one the end stays where it is.
  zoom(factor) {
    const [from, to] = this.range();
    const [first, last] = this.whole();
    const span = Math.max((to - from) * factor, 20);
    const one = this.instances[this.chosen];
    this.span = span >= last - first ? null : span;
    if (one) this.end = clamp((one.began + (one.ended ?? last)) / 2 + span / 2, first + span, last);
    else if (!this.span) this.end = null;
    this.paint();
  }
  all() {
    this.span = this.end = null;
    this.paint();
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
    const count = this.instances.length;
    if (step) this.choose(clamp(this.chosen < 0 ? count - 1 : this.chosen + step, 0, count - 1));
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(count - 1);
    else if (event.key === "+") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.all();
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
  }
  point(event) {
    const id = event.target.closest?.("[data-index]")?.getAttribute("data-index");
    if (id !== null && id !== undefined && Number(id) !== this.chosen) this.choose(Number(id));
  }
  choose(index) {
    this.chosen = index;
    const one = this.instances[index];
    this.says.textContent = one ? this.sentence(one) : "";
    if (one && this.span) {  // scrolls to it
      const [from, to] = this.range();
      const middle = (one.began + (one.ended ?? now())) / 2;
      if (middle < from || middle > to) this.end = middle + this.span / 2;
    }
    this.paint();
  }
  sentence(one) {
    const range = this.whole()[1] - this.whole()[0];
    const trained = list(one.phases).filter((each) => each.phase === "training")
      .reduce((sum, each) => sum + (each.to ?? one.ended ?? now()) - each.from, 0);
    const last = one.ended ? null : list(one.phases).at(-1)?.phase;
    return [one.id, known(one.experiment) && `experiment ${one.experiment}`, one.type, one.zone,
      `${timeIn(one.began, range)} to ${one.ended ? timeIn(one.ended, range) : "now"}`,
      `${duration((one.ended ?? now()) - one.began)}`,
      trained > 0 && `trained ${duration(trained)}`,
      one.ended ? endings[one.end] ?? one.end : last,
      known(one.price) && `${dollars(one.price)} an hour`].filter(Boolean).join(" · ");
  }

  // Each zone's instances in as few rows as none overlaps in.
  zones() {
    const names = new Set([...list(this.model.world?.zones), ...this.instances.map((one) =>
      one.zone || ""), ...this.storage.spans.map((one) => one.zone).filter(Boolean)]);
    const zones = new Map([...names].sort().map((name) => [name, { name, rows: [], disks: [] }]));
    this.instances.forEach((one, index) => {
      const rows = zones.get(one.zone || "").rows;
      let row = rows.find((each) => each.end <= one.began);
      if (!row) rows.push(row = { end: 0, items: [] });
      row.end = one.ended ?? Infinity;
      row.items.push({ one, index });
    });
    for (const one of this.storage.spans) zones.get(one.zone || "")?.disks.push(one);
    return [...zones.values()];
  }

  draw() {
    if (!this.instances) return;
    const width = Math.max(240, this.chart.clientWidth);
    const left = width < 560 ? 0 : 104;
    const [from, to] = this.range();
    const x = (t) => left + ((clamp(t, from, to) - from) / (to - from)) * (width - left - 1);
    const parts = [];
    const labels = [];  // drawn last
    const middle = {};
    let y = 20;
    for (const zone of this.zones()) {
      const top = y;
      if (!left) y += 16;
      const name = zone.name || "zone unknown";
      labels.push(draw("text", { x: 0, y: left ? y + 16 : y - 4, class: "strong over" },
        left && name.length > 15 ? `${name.slice(0, 14)}…` : name));
      for (const row of zone.rows.length ? zone.rows : [{ items: [] }]) {
        for (const item of row.items) this.bar(parts, item, x, y, from, to);
        y += 27;
      }
      middle[zone.name] = y - 1;
      for (const disk of zone.disks) this.disk(parts, disk, x, y - 4, to);
      y += 10;
      parts.push(draw("line", { x1: 0, x2: width, y1: y, y2: y, class: "axis" }));
      if (y - top < 30) y = top + 30;
      y += 6;
    }
    for (const move of this.storage.moves) this.move(parts, move, x, middle, from, to);
    for (const one of this.storage.open) this.pending(parts, one, x, middle, to);
    this.marks(parts, x, from, to);
    const grid = timeTicks(from, to, (width - left) / 84).map(({ at, words }) => [
      draw("line", { x1: x(at), x2: x(at), y1: 14, y2: y, class: "grid" }),
      draw("text", { x: x(at), y: y + 12, "text-anchor": x(at) > width - 34 ? "end"
        : x(at) < left + 24 ? "start" : "middle" }, words)]).flat();
    const live = !known(this.model.to) && to >= this.whole()[1] - 1;
    if (live) parts.push(draw("line", { x1: x(to), x2: x(to), y1: 14, y2: y, class: "now" }));
    const svg = draw("svg", { width, height: y + 18, viewBox: `0 0 ${width} ${y + 18}`,
      role: "img", "aria-label": this.summary() }, grid, parts, labels);
    this.chart.replaceChildren(svg);
  }
  summary() {
    const zones = new Set(this.instances.map((one) => one.zone).filter(Boolean));
    return `${this.instances.length} instances in ${zones.size} zones, ` +
      `${list(this.model.interruptions).length} interruptions; a table is below.`;
  }

  bar(parts, { one, index }, x, y, from, to) {
    const ended = one.ended ?? now();
    if (ended < from || one.began > to) return;
    const high = 20;
    const group = draw("g", { "data-index": index });
    const a = x(one.began);
    const width = Math.max(1.5, x(ended) - a);
    group.append(draw("rect", { x: a, y: y + 2, width, height: high, fill: "transparent" }));
    const phases = list(one.phases).length ? one.phases
      : [{ phase: "unknown", from: one.began, to: one.ended }];
    let training = null;
    phases.forEach((each, number) => {
      const [name, tall] = phaseLooks[each.phase] || ["unknown", 0.5];
      const end = each.to ?? (number + 1 < phases.length ? phases[number + 1].from : ended);
      if (!known(each.from) || end < from || each.from > to) return;
      const wide = Math.max(0.75, x(end) - x(each.from));
      group.append(draw("rect", { x: x(each.from), y: y + 2 + high * (1 - tall), width: wide,
        height: high * tall, class: name, rx: wide > 4 ? 2 : 0 }));
      if (name === "training" && wide > (training?.wide || 64))
        training = { wide, x: x(each.from) };
    });
    const words = one.type && training && training.wide > one.type.length * 7 + 12 ? one.type : "";
    if (words) group.append(draw("text", { x: training.x + 6, y: y + 16, class: "on" }, words));
    if (index === this.chosen)
      group.append(draw("rect", { x: a - 1.5, y, width: width + 3, height: high + 4, rx: 3,
        class: "chosen" }));
    parts.push(group);
  }
  disk(parts, disk, x, y, to) {
    const end = disk.to ?? Math.min(now(), to);
    if (end <= disk.from || disk.from > to) return;
    parts.push(draw("rect", { x: x(disk.from), y, width: Math.max(1.5, x(end) - x(disk.from)),
      height: 5, rx: 2, class: "volume" }, draw("title", {}, disk.id)));
  }
  move(parts, one, x, middle, from, to) {
    const [a, b] = [middle[one.zone || ""], middle[one.into || ""]];
    if (a === undefined || b === undefined || one.to < from || one.from > to) return;
    const [x1, x2] = [x(one.from), x(one.to)];
    parts.push(draw("path", { d: `M${x1} ${a}C${x1} ${(a + b) / 2} ${x2} ${(a + b) / 2} ${x2} ${b}`,
      class: "move" }), draw("circle", { cx: x2, cy: b, r: 3, class: "volume" }));
  }
  // A snapshot that is being made is drawn along its volume.
  pending(parts, one, x, middle, to) {
    const y = middle[one.zone];
    if (y === undefined || one.began > to) return;
    parts.push(draw("path", { d: `M${x(one.began)} ${y - 6}H${x(Math.min(now(), to))}`,
      class: "move open" }, draw("title", {}, `${one.id}: ${one.progress} %`)));
  }
  // Numbered as in the table; where they are too close, only each tenth.
  marks(parts, x, from, to) {
    const seen = list(this.model.interruptions).map((one, index) => ({ index,
      at: one.notice ?? one.deadline ?? one.resumed, sign: one.kind === "lost" ? "✕" : "▼" }))
      .filter(({ at }) => known(at) && at >= from && at <= to);
    const space = (x(to) - x(from)) / seen.length;
    const many = space < 30;
    for (const { index, at, sign } of seen) {
      const few = space < 7 ? "╵" : sign;
      const words = !many ? `${sign}${index + 1}` : (index + 1) % 10 ? few : String(index + 1);
      parts.push(draw("text", { x: x(at), y: 12, "text-anchor": "middle", class:
        many && (index + 1) % 10 ? "mark many" : "mark" }, words));
    }
  }
}

function legend(element) {
  const signs = legendOf.map(([name, words, tall]) => make("li", {},
    draw("svg", { width: 18, height: 14, "aria-hidden": "true" }, draw("rect", { width: 18, y: 14 -
      14 * tall, height: 14 * tall, class: name, rx: 2 })), words));
  element.replaceChildren(...signs, make("li", {}, "▼ notice, ✕ lost without one"));
}
