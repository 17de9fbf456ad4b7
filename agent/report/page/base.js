// Shared by all parts: elements, numbers as text, time. Values of the model are inserted as text
// only (textContent, text nodes), as names and log lines are not trusted.
const $ = (id) => document.getElementById(id);

function put(element, properties, children) {
  for (const [name, value] of Object.entries(properties || {}))
    if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value === true ? "" : value);
  for (const child of children.flat())
    if (child !== null && child !== undefined) element.append(child);
  return element;
}
const make = (tag, properties, ...children) =>
  put(document.createElement(tag), properties, children);
const draw = (tag, properties, ...children) =>
  put(document.createElementNS("http://www.w3.org/2000/svg", tag), properties, children);

const known = (value) => typeof value === "number" && Number.isFinite(value);
const list = (value) => (Array.isArray(value) ? value : []);
const clamp = (value, low, high) => Math.min(high, Math.max(low, value));

// Times are seconds since 1970. A live page goes on with its own clock, set by the model's.
const clock = { offset: 0, fixed: null };
const now = () => (clock.fixed !== null ? clock.fixed : Date.now() / 1000 + clock.offset);

function duration(seconds) {
  if (!known(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 10) return `${Math.round(s * 10) / 10} s`;
  if (s < 99.5) return `${Math.round(s)} s`;
  const minutes = Math.round(s / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 24) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return hours % 24 ? `${Math.floor(hours / 24)} d ${hours % 24} h` : `${hours / 24} d`;
}
function countdown(seconds) {
  const s = Math.max(0, Math.ceil(seconds));
  return `${Math.floor(s / 60)}:${String(s % 60).padStart(2, "0")}`;
}
function bytes(count) {
  if (!known(count)) return "";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = clamp(Math.floor(Math.log2(Math.max(1, count)) / 10), 0, 4);
  const value = count / 1024 ** power;
  return `${value < 10 && power ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
const whole = (value) => (known(value) ? Math.round(value).toLocaleString("en-GB") : "");
function small(value) {
  if (!known(value)) return "";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e7)) return value.toExponential(2);
  return String(Number(value.toPrecision(4)));
}
const percent = (part, digits = 1) => (known(part) ? `${(part * 100).toFixed(digits)} %` : "");
// Of a metric by its name: a part, as an accuracy, or a number of any size.
const isPart = (name) => /acc(uracy)?$/.test(name);
// As largest_is_best() in agent/config/parameters.cpp.
const isBestLarge = (name) =>
  /(^|[_/.-])(accuracy|acc|auc|f1|precision|recall|iou|bleu)$/.test(name);
const metric = (name, value) => (isPart(name) ? percent(value, 2) : small(value));
// The curve's metrics beside those that have a colour of their own.
const others = (curve) => Object.keys(curve || {}).filter((name) => Array.isArray(curve[name]) &&
  !["step", "loss", "accuracy", "time"].includes(name));

function dollars(value) {
  if (!known(value)) return "";
  return `$${value.toFixed(value !== 0 && Math.abs(value) < 0.995 ? 4 : 2)}`;
}

const formats = {};
function time(seconds, options, name) {
  if (!known(seconds)) return "";
  formats[name] = formats[name] || new Intl.DateTimeFormat("en-GB", options);
  return formats[name].format(new Date(seconds * 1000));
}
const hms = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
const day = { day: "numeric", month: "short" };
const clockTime = (t) => time(t, hms, "hms");
const minuteTime = (t) => time(t, { hour: "2-digit", minute: "2-digit" }, "hm");
const dayTime = (t) => time(t, day, "day");
const fullTime = (t) => time(t, { ...day, ...hms }, "full");
// As short as the range allows.
const timeIn = (t, range) => (range > 20 * 3600 ? fullTime(t) : clockTime(t));

// A table of columns [title, kind, value(row)]; `value` gives text, a number's cells are to the
// right. `mark(row)`: the row's class.
function fill(table, columns, rows, mark) {
  const head = make("thead", {}, make("tr", {}, columns.map(([title, kind]) =>
    make("th", { scope: "col", class: kind }, title))));
  const body = make("tbody", {}, rows.map((row) =>
    make("tr", { class: mark ? mark(row) : null }, columns.map(([title, kind, value]) =>
      make("td", { class: kind, "data-of": title }, value(row) || "")))));
  table.replaceChildren(head, body);
}
// Without the columns that are empty in every row.
function fillKnown(table, columns, rows, mark) {
  fill(table, columns.filter(([, , value]) => rows.some((row) => value(row))), rows, mark);
}

function facts(element, pairs) {
  element.replaceChildren(...pairs.filter(([, value]) => value).map(([name, value, more]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value, more
      ? make("span", { class: "more" }, more) : null))));
}

const colour = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

// Round steps for an axis of numbers: at most `most` of them.
function ticks(low, high, most, least = 0) {
  const rough = Math.max(least, (high - low) / Math.max(1, most));
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}
const timeSteps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
  43200, 86400, 172800, 604800];
// [{at, words}], by the reader's own clock.
function timeTicks(from, to, most) {
  const rough = (to - from) / Math.max(1, most);
  const step = timeSteps.find((each) => each >= rough) || 604800;
  const shift = new Date(from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) {
    const midnight = (at - shift) % 86400 === 0;
    const words = step < 60 ? clockTime(at) : minuteTime(at);
    found.push({ at, words: step >= 86400 || (midnight && to - from > 43200) ? dayTime(at)
      : words });
  }
  return found;
}

// Draws at most once a frame.
function oncePerFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
