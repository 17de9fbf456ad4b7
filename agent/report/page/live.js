// The page's beginning: its switches, then the model, which is in the page or comes live.
function showJobs() {
  const jobs = list(model.jobs);
  $("jobs-label").hidden = jobs.length < 2;
  const wanted = new URLSearchParams(location.search).get("job");
  $("jobs").replaceChildren(...jobs.map((one) => make("option", { value: one.key,
    selected: one.key === wanted }, one.name)));
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", `Change to ${name === "dark" ? "light" : "dark"} colours`);
  for (const chart of [timeline, curve, sweep.curves, sweep]) chart.paint();
  if (sweep.sweep) sweep.lines();
}
function beginTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("spotter-theme");
  } catch { /* a file's page may not store */ }
  const follow = () => setTheme(chosen || (system.matches ? "dark" : "light"));
  follow();
  system.addEventListener("change", follow);
  $("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("spotter-theme", chosen);
    } catch { /* it holds until the page is left */ }
    follow();
  });
  // Prints on white.
  addEventListener("beforeprint", () => setTheme("light"));
  addEventListener("afterprint", follow);
}

function beginSwitches() {
  $("zoom-in").addEventListener("click", () => timeline.zoom(0.5));
  $("zoom-out").addEventListener("click", () => timeline.zoom(2));
  $("zoom-all").addEventListener("click", () => timeline.all());
  const toggle = (id, change, show) => $(id).addEventListener("click", () => {
    change();
    show();
  });
  toggle("by-time", () => { view.byTime = !view.byTime; }, showCurve);
  toggle("log", () => { view.log = $("log").getAttribute("aria-pressed") !== "true"; }, showCurve);
  toggle("troubles", () => { view.troubles = !view.troubles; }, showJournal);
  $("points").closest("details").addEventListener("toggle", showPoints);
  $("jobs").addEventListener("change", () => {
    location.search = new URLSearchParams({ job: $("jobs").value });
  });
  legend($("timeline-legend"));
}

// Replaces a curve from index `from` on.
function takePoints({ experiment, from, ...columns }) {
  const target = experiment === null || experiment === undefined ? model
    : model.sweep?.experiments?.[experiment];
  if (!target) return;
  target.curve = target.curve || {};
  for (const [name, values] of Object.entries(columns)) {
    if (!Object.hasOwn(target.curve, name)) target.curve[name] = [];
    const column = target.curve[name];
    column.length = Math.min(column.length, from);
    for (const value of values) column.push(value);
  }
  changed([target === model ? "curve" : "sweep"]);
}
// Gets the keys that changed; the first message of a connection has all. Curves come as points.
function takeModel(said) {
  if (said.version !== undefined) {
    if (said.version !== 1) return live("This page is older than its server: load it again.", true);
    for (const key of Object.keys(model)) delete model[key];
    model.curve = { step: [], loss: [], accuracy: [], time: [] };
  }
  const before = list(model.sweep?.experiments).map((one) => one.curve);
  Object.assign(model, said);
  if (said.sweep) list(model.sweep.experiments).forEach((one, i) => { one.curve = before[i]; });
  if (known(said.now)) clock.offset = said.now - Date.now() / 1000;
  changed(said.version !== undefined ? Object.values(parts).flatMap(([, keys]) => keys)
    : Object.keys(said));
}

function live(words, bad = false) {
  if ($("live").textContent !== words) $("live").textContent = words;
  $("live").className = bad ? "bad" : "";
}
function follow() {
  const job = new URLSearchParams(location.search).get("job");
  let lost = null;
  let source = null;
  const connect = () => {
    source?.close();
    source = new EventSource(job ? `events?job=${encodeURIComponent(job)}` : "events");
    const onAnswer = () => {
      lost = null;
      live("● live");
    };
    source.addEventListener("open", onAnswer);
    for (const [name, take] of [["model", takeModel], ["points", takePoints]])
      source.addEventListener(name, (event) => {
        onAnswer();
        take(JSON.parse(event.data));
      });
    source.addEventListener("error", () => {
      lost = lost || Date.now();
      // After an answer that is no stream the browser does not try again by itself.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
    });
  };
  live("connecting …");
  connect();
  setInterval(() => {
    // Unchanged text, which a screen reader reads once.
    if (lost) live(`✕ connection lost at ${clockTime(lost / 1000)}, trying again`, true);
    tick();
    if (model.to || !model.version) return;
    showFigures();
    timeline.paint();
  }, 1000);
}

function embedded(text) {
  try {
    const said = JSON.parse(text);
    clock.fixed = said.to ?? said.now ?? Date.now() / 1000;
    if (said.version !== 1) throw new Error(`the model's version is ${said.version}, not 1`);
    Object.assign(model, said);
    changed(Object.values(parts).flatMap(([, keys]) => keys));
    $("foot").textContent = `Written ${fullTime(said.now)} by spotter report.`;
  } catch (error) {
    $("empty").textContent = `This report cannot be read: ${error.message}.`;
    $("empty").hidden = false;
  }
}

beginTheme();
beginSwitches();
const within = $("model").textContent.trim();
if (within) embedded(within);
else follow();
