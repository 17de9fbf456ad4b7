// A sweep: its experiments as a sortable table, their curves over one another, and parallel
// coordinates. What is chosen (pointer on a row, arrow keys on the coordinates) shows in all three.
class Sweep {
  constructor() {
    Object.assign(this, { sweep: null, clicked: false, chosen: -1 });
    this.curves = new Chart($("sweep-canvas").parentElement, $("sweep-canvas"),
      { panelHeight: 230 });
    this.paint = oncePerFrame(() => this.coordinates());
    new ResizeObserver(() => this.paint()).observe($("parallel"));
    $("parallel").addEventListener("keydown", (event) => this.arrow(event));
    $("sweep-table").addEventListener("pointerover", (event) => {
      const row = event.target.closest("tr[data-row]");
      if (row) this.choose(Number(row.dataset.row));
    });
  }

  show(sweep) {
    this.sweep = sweep;
    this.rows = list(sweep.experiments);
    // The best: of the objective, or of what the model says in its place.
    const { metric: by = "loss", mode = "min", note = "" } = sweep.objective || {};
    this.by = by;
    const order = this.rows.map((_, i) => i).filter((i) => known(this.result(this.rows[i], by)));
    // As best_first() in agent/sweep/summary.cpp: first those that are done.
    const group = (row) => (this.rows[row].stopped_early ? 1
      : { done: 0, failed: 3, waiting: 4 }[this.rows[row].state] ?? 2);
    order.sort((a, b) => group(a) - group(b) || (this.result(this.rows[a], by) -
      this.result(this.rows[b], by)) * (mode === "max" ? -1 : 1));
    this.ranking = by === "index" ? [] : order;
    if (!this.clicked) Object.assign(this, { key: by, down: mode === "max" });
    this.metrics = [...new Set(this.rows.flatMap((one) => Object.keys(one.metrics || {})))].sort();
    $("objective").textContent = by === "index" ? "" : `★ is the best by ${by}: the ` +
      `${mode === "max" ? "largest" : "smallest"}.${note ? ` Note: ${note}.` : ""}`;
    this.rank = new Map(order.map((row, place) => [row, place]));
    this.table();
    this.paint();
    this.lines();
  }

  columns() {
    const value = (name) => (one) => typeof one.parameters?.[name] === "number"
      ? small(one.parameters[name]) : String(one.parameters?.[name] ?? "");
    return [["index", "number", (one) => String(one.index ?? "")],
      ["state", "", (one) => `${one === this.rows[this.ranking[0]] ? "★ " : ""}${
        one.stopped_early ? "stopped early" : one.state ?? ""}`],
      ...list(this.sweep.parameters).map((name) => [name, "number", value(name), true]),
      ["loss", "number", (one) => small(one.loss)],
      ["accuracy", "number", (one) => percent(one.accuracy, 2)],
      ...this.metrics.map((name) => [name, "number",
        (one) => metric(name, this.result(one, name))]),
      ["attempts", "number", (one) => whole(one.attempts)],
      ["seconds", "number", (one) => duration(one.seconds)]];
  }
  result(one, name) {
    return [one, one.metrics || {}].find((each) => Object.hasOwn(each, name))?.[name];
  }
  of(one, key) {
    return list(this.sweep.parameters).includes(key) ? one.parameters?.[key]
      : this.result(one, key);
  }
  // Unknown values come last, in either order.
  sorted() {
    const nothing = (value) => value === null || value === undefined || value === "";
    const rows = this.rows.map((one, row) => ({ one, row, value: this.of(one, this.key) }));
    return rows.sort((a, b) => {
      if (nothing(a.value) || nothing(b.value)) return nothing(a.value) - nothing(b.value);
      const order = typeof a.value === "number" && typeof b.value === "number" ? a.value - b.value
        : String(a.value).localeCompare(String(b.value), "en", { numeric: true });
      return this.down ? -order : order;
    });
  }
  table() {
    const columns = this.columns();
    const focused = document.activeElement?.closest?.("#sweep-table th")?.dataset.key;
    const heads = columns.map(([name, kind]) => {
      const button = make("button", { type: "button" }, name);
      button.addEventListener("click", () => {
        this.down = this.key === name ? !this.down : isBestLarge(name);
        Object.assign(this, { key: name, clicked: true });
        this.table();
      });
      return make("th", { scope: "col", class: kind, "data-key": name, "aria-sort":
        this.key === name ? (this.down ? "descending" : "ascending") : null }, button);
    });
    const rows = this.sorted().map(({ one, row }) => make("tr", { "data-row": row, class:
      row === this.chosen ? "chosen-row" : null }, columns.map(([, kind, value]) =>
      make("td", { class: kind }, value(one)))));
    $("sweep-table").replaceChildren(make("thead", {}, make("tr", {}, heads)),
      make("tbody", {}, rows));
    if (focused) heads.find((head) => head.dataset.key === focused)?.firstChild.focus();
  }

  arrow(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const count = this.ranking.length;
    const place = this.rank.get(this.chosen);
    if (step && count) this.choose(this.ranking[place === undefined ? 0
      : clamp(place + step, 0, count - 1)]);
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
  }
  choose(row) {
    if (row === this.chosen) return;
    this.chosen = row;
    const one = this.rows[row];
    $("sweep-says").textContent = one ? this.columns().map(([name, , value]) =>
      value(one) && `${name} ${value(one)}`).filter(Boolean).join(" · ") : "";
    for (const each of $("sweep-table").querySelectorAll("tr[data-row]"))
      each.classList.toggle("chosen-row", Number(each.dataset.row) === row);
    this.lines();
    this.paint();
  }

  // From the best (the accent) to the worst (faint); what has no result is faint, too.
  tone(row) {
    const place = this.rank.get(row);
    if (place === undefined || this.ranking.length < 2) return colour(place === 0 ? "accent"
      : "other");
    const part = place / (this.ranking.length - 1);
    return blend(colour("accent"), colour("other"), Math.min(1, part * 1.2));
  }
  lines() {
    const key = [this.by, "loss", "accuracy"].find((name) => this.rows.some((one) =>
      list(one.curve?.[name]).some(known))) || "loss";
    const panel = { name: key, lines: [] };
    const order = [...this.rows.keys()].sort((a, b) => (this.rank.get(b) ?? 1e9) -
      (this.rank.get(a) ?? 1e9));
    for (const row of [...order, this.chosen].filter((each) => each >= 0)) {
      const curve = this.rows[row]?.curve;
      if (!curve) continue;
      const chosen = row === this.chosen;
      panel.lines.push({ x: list(curve.step), y: list(curve[key]), colour: chosen ? "mark"
        : this.tone(row), width: chosen || this.rank.get(row) === 0 ? 2.2 : 1.2, faint: !chosen });
    }
    const values = panel.lines.flatMap((line) => [Math.max(...line.y.filter(known).slice(0, 1)),
      line.y.findLast(known)]).filter((value) => known(value) && value > 0);
    panel.log = /loss$/.test(key) && Math.max(...values) / Math.min(...values) > 30;
    $("sweep-canvas").closest("figure").hidden = !panel.lines.length;
    this.curves.show({ panels: [panel] });
  }

  coordinates() {
    if (!this.sweep) return;
    const axes = [...new Set([...list(this.sweep.parameters), "loss", "accuracy",
      ...(this.by === "index" ? [] : [this.by])])].map((name) => this.axis(name)).filter(Boolean);
    $("parallel").closest("figure").hidden = axes.length < 2;
    const width = Math.max(240, $("parallel").clientWidth);
    const [top, height] = [24, 200];
    const x = (i) => 10 + (i / Math.max(1, axes.length - 1)) * (width - 66);
    const y = (part) => top + (1 - part) * height;
    const lines = [...this.ranking].reverse().concat(this.chosen >= 0 ? [this.chosen] : [])
      .map((row) => {
        const points = axes.map((axis, i) => [x(i), axis.part(this.rows[row])])
          .filter(([, part]) => part !== null);
        return draw("polyline", { points: points.map(([a, part]) => `${a},${y(part)}`).join(" "),
          fill: "none", stroke: row === this.chosen ? colour("mark") : this.tone(row),
          "stroke-width": row === this.chosen || this.rank.get(row) === 0 ? 2.5 : 1.3 });
      });
    const frame = axes.map((axis, i) => [
      draw("line", { x1: x(i), x2: x(i), y1: top, y2: top + height, class: "axis" }),
      draw("text", { x: x(i), y: 12, class: "strong", "text-anchor": i ? "middle" : "start",
        dx: i ? 0 : -10 }, axis.name),
      axis.words.map(([part, words]) => draw("text", { x: x(i) + 5, y: y(part) + 4,
        class: "over" }, words))]);
    $("parallel").replaceChildren(draw("svg", { width, height: top + height + 12, role: "img",
      viewBox: `0 0 ${width} ${top + height + 12}`, "aria-label": "The same as the table: one " +
      "line an experiment, across its parameters to its result" }, lines, frame.flat(2)));
  }
  // Numbers by size (by their logarithm over wide ranges), anything else by its place in the list.
  axis(name) {
    const values = this.rows.map((one) => this.of(one, name)).filter((value) =>
      value !== null && value !== undefined);
    if (!values.length) return null;
    if (!values.every(known)) {
      const words = [...new Set(values.map(String))].sort((a, b) => a.localeCompare(b, "en",
        { numeric: true }));
      const part = (word) => words.length < 2 ? 0.5 : words.indexOf(word) / (words.length - 1);
      return { name, words: words.slice(0, 12).map((word) => [part(word), word.slice(0, 14)]),
        part: (one) => this.of(one, name) === undefined ? null : part(String(this.of(one, name))) };
    }
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const log = low > 0 && high / low >= 20;
    const bend = log ? Math.log10 : (value) => value;
    const part = (value) => high === low ? 0.5
      : (bend(value) - bend(low)) / (bend(high) - bend(low));
    const marks = log ? decades(low, high, 5) : ticks(low, high, 5);
    const ends = [low, high].filter((end) => !marks.some((at) => Math.abs(part(at) - part(end)) <
      0.07));
    return { name, words: [...marks, ...new Set(ends)].map((at) => [part(at), small(at)]),
      part: (one) => known(this.of(one, name)) ? part(this.of(one, name)) : null };
  }
}

function blend(from, to, part) {
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const [a, b] = [channels(from), channels(to)];
  return "#" + a.map((value, i) => Math.round(value + (b[i] - value) * part).toString(16)
    .padStart(2, "0")).join("");
}
