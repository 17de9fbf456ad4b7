// Lines on a canvas: panels one above the other with one x axis. Of tens of thousands of points
// each pixel's column draws first, least, greatest and last, so what is drawn looks the same.
//   chart.show({panels: [{name, lines: [{x, y, colour, width}], log, low, high}],
//               marks: [{x, words}], words: x => text, times: bool})
// `low`, `high`: what the axis reaches at least. With `says`, a function of (x, index) of the
// first line's points, the chart has a cursor: pointer and arrow keys.
class Chart {
  constructor(box, canvas, { panelHeight = 200, says = null, reading = null } = {}) {
    Object.assign(this, { box, canvas, panelHeight, says, reading, cursor: -1, data: null });
    this.paint = oncePerFrame(() => this.draw());
    new ResizeObserver(() => this.paint()).observe(box);
    if (!says) return;
    box.addEventListener("keydown", (event) => this.key(event));
    for (const kind of ["pointermove", "pointerdown"])
      box.addEventListener(kind, (event) => this.point(event));
    box.addEventListener("pointerleave", () => this.choose(-1));
  }
  show(data) {
    this.data = data;
    this.paint();
  }

  key(event) {
    const count = this.main().x.length;
    const far = event.shiftKey ? Math.max(1, Math.round(count / 20)) : Math.max(1, Math.round(
      count / Math.max(1, this.plot.width)));
    const step = { ArrowLeft: -far, ArrowRight: far }[event.key];
    if (step) this.choose(this.cursor < 0 ? count - 1 : clamp(this.cursor + step, 0, count - 1));
    else if (event.key === "Home") this.choose(0);
    else if (event.key === "End") this.choose(count - 1);
    else if (event.key === "Escape") this.choose(-1);
    else return;
    event.preventDefault();
  }
  point(event) {
    if (!this.plot || !this.main().x.length) return;
    const at = event.clientX - this.canvas.getBoundingClientRect().left;
    const x = this.low + ((at - this.plot.left) / this.plot.width) * (this.high - this.low);
    this.choose(nearest(this.main().x, x));
  }
  choose(index) {
    if (index === this.cursor) return;
    this.cursor = index;
    if (this.reading) this.reading.textContent = index < 0 ? "" : this.says(index);
    this.paint();
  }
  main() {
    return this.data?.panels[0]?.lines[0] || { x: [], y: [] };
  }

  draw() {
    if (!this.data) return;
    const scale = devicePixelRatio || 1;
    const width = Math.max(200, this.box.clientWidth);
    const { panels, marks = [] } = this.data;
    const heights = panels.map((_, i) => (i ? this.panelHeight * 0.55 : this.panelHeight));
    const height = heights.reduce((sum, each) => sum + each + 22, 20);
    const canvas = this.canvas;
    if (canvas.width !== Math.round(width * scale)) canvas.width = Math.round(width * scale);
    if (canvas.height !== Math.round(height * scale)) canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const family = getComputedStyle(document.body).fontFamily;
    this.fonts = [`12px ${family}`, `600 12px ${family}`];
    pen.font = this.fonts[0];
    this.span();
    this.plot = { left: 46, width: width - 46 - 8 };
    let top = 20;
    panels.forEach((panel, i) => {
      this.panel(pen, panel, top, heights[i], marks, i === 0);
      top += heights[i] + 22;
    });
    this.below(pen, top - 22);
  }
  span() {
    let [low, high] = [Infinity, -Infinity];
    for (const { lines } of this.data.panels) for (const { x } of lines) {
      if (x.length) low = Math.min(low, x[0]);
      if (x.length) high = Math.max(high, x[x.length - 1]);
    }
    if (!(high > low)) high = (low = Number.isFinite(low) ? low : 0) + 1;
    Object.assign(this, { low, high });
  }
  x(value) {
    return this.plot.left + ((value - this.low) / (this.high - this.low)) * this.plot.width;
  }

  panel(pen, panel, top, height, marks, first) {
    let [low, high] = [panel.low ?? Infinity, panel.high ?? -Infinity];
    for (const { y } of panel.lines)
      for (const value of y)
        if (known(value) && (!panel.log || value > 0)) {
          if (value < low) low = value;
          if (value > high) high = value;
        }
    if (!Number.isFinite(low)) [low, high] = [0, 1];
    const around = (Math.abs(low) || 1) / 2;
    if (low === high) [low, high] = [low - around, high + around];
    const bend = panel.log ? Math.log10 : (value) => value;
    const [a, b] = [bend(low), bend(high)];
    const pad = (b - a) * 0.04;
    const y = (value) => top + height - ((bend(value) - a + pad) / (b - a + 2 * pad)) * height;
    const steps = panel.log ? decades(low, high, height / 22) : ticks(low, high, height / 38);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    pen.lineWidth = 1;
    for (const at of steps) {
      pen.strokeStyle = colour("grid");
      stroke(pen, [[this.plot.left, y(at)], [this.plot.left + this.plot.width, y(at)]]);
      pen.fillStyle = colour("soft");
      const words = panel.log && (at < 1e-3 || at >= 1e5) ? at.toExponential(0) : small(at);
      pen.fillText(words.replace("e+", "e"), this.plot.left - 6, y(at));
    }
    pen.textAlign = "left";
    pen.fillStyle = panel.colour ? colour(panel.colour) : colour("soft");
    pen.font = this.fonts[1];
    pen.fillText(panel.name, this.plot.left, top - 9);
    pen.font = this.fonts[0];
    this.marks(pen, marks, top, height, first);
    pen.save();
    pen.beginPath();
    pen.rect(this.plot.left, top - 2, this.plot.width + 4, height + 4);
    pen.clip();
    for (const line of panel.lines) this.line(pen, line, y, panel.log);
    this.cross(pen, panel, y, top, height);
    pen.restore();
  }
  marks(pen, marks, top, height, first) {
    let last = this.plot.left + 60;
    pen.strokeStyle = pen.fillStyle = colour("mark");
    pen.textAlign = "center";
    pen.setLineDash([3, 3]);
    pen.globalAlpha = marks.length > 40 ? 0.45 : 0.8;
    for (const mark of marks) {
      const at = Math.round(this.x(mark.x)) + 0.5;
      if (at < this.plot.left || at > this.plot.left + this.plot.width + 1) continue;
      stroke(pen, [[at, top], [at, top + height]]);
      if (!first || at - last < 22 || (marks.length > 40 && mark.words % 10)) continue;
      pen.fillText(mark.words, at, top - 9);
      last = at;
    }
    pen.setLineDash([]);
    pen.globalAlpha = 1;
  }
  line(pen, { x, y, colour: name, width = 1.5, faint = false }, place, log) {
    pen.strokeStyle = name.startsWith("#") ? name : colour(name);
    pen.lineWidth = width;
    pen.lineJoin = "round";
    pen.globalAlpha = faint ? 0.75 : 1;
    pen.beginPath();
    let column = null, least = 0, most = 0, last = 0, begun = false;
    const flush = () => {
      if (column === null) return;
      for (const value of [least, most, last]) pen.lineTo(column, place(value));
    };
    for (let i = 0; i < x.length; ++i) {
      const value = y[i];
      if (!known(value) || (log && value <= 0)) continue;
      const at = Math.round(this.x(x[i]) * 2) / 2;
      if (at !== column) {
        flush();
        column = at;
        least = most = value;
        if (begun) pen.lineTo(at, place(value));
        else pen.moveTo(at, place(value));
        begun = true;
      }
      if (value < least) least = value;
      if (value > most) most = value;
      last = value;
    }
    flush();
    pen.stroke();
    pen.globalAlpha = 1;
  }
  cross(pen, panel, y, top, height) {
    const line = panel.lines[0];
    if (this.cursor < 0 || !line || this.cursor >= line.x.length) return;
    const at = this.x(line.x[this.cursor]);
    pen.strokeStyle = colour("ink");
    pen.lineWidth = 1;
    stroke(pen, [[at, top], [at, top + height]]);
    const value = line.y[this.cursor];
    if (!known(value)) return;
    pen.fillStyle = colour(line.colour);
    pen.beginPath();
    pen.arc(at, y(value), 4, 0, 7);
    pen.fill();
  }
  below(pen, y) {
    pen.fillStyle = colour("soft");
    pen.textBaseline = "top";
    const most = this.plot.width / 84;
    const steps = this.data.times ? timeTicks(this.low, this.high, most)
      : ticks(this.low, this.high, most, 1).map((at) => ({ at, words: whole(at) }));
    for (const { at, words } of steps) {
      const x = this.x(at);
      const half = pen.measureText(words).width / 2;
      pen.textAlign = "center";
      pen.fillText(words, clamp(x, half, this.plot.left + this.plot.width + 8 - half), y + 6);
    }
  }
}

function stroke(pen, points) {
  pen.beginPath();
  points.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}
// Round steps for a logarithmic axis: at most `most` of them, where it has more than a decade.
function decades(low, high, most) {
  const found = [];
  const [first, last] = [low, high].map((each) => Math.floor(Math.log10(each)));
  const apart = Math.max(1, Math.ceil((last - first + 1) / most));
  const within = (last - first + 1) * 3 > most ? [1] : [1, 2, 5];
  for (let power = Math.ceil(first / apart) * apart; power <= last; power += apart)
    for (const each of first === last ? [1, 2, 5] : within) {
      const at = Number((each * 10 ** power).toPrecision(6));
      if (at >= low && at <= high) found.push(at);
    }
  return found;
}
function nearest(sorted, value) {
  let [low, high] = [0, sorted.length - 1];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle;
    else high = middle;
  }
  return Math.abs(sorted[low] - value) <= Math.abs(sorted[high] - value) ? low : high;
}
