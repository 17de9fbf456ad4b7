// The emulator's world: each zone's instances and volumes as they are now, snapshots on their way,
// and the buttons that break things. An element is kept as long as what it shows exists, so
// that the keyboard's focus stays.
class World {
  constructor() {
    this.elements = new Map();
    this.broken = false;
    $("said").textContent = "";
  }

  show(world, controls) {
    if (controls && !this.controls) this.addControls();
    this.controls = controls;
    $("controls").hidden = !controls;
    this.used = new Set();
    const things = [...list(world.instances).filter((one) => one.state !== "terminated"),
      ...list(world.volumes)];
    const names = [...new Set([...list(world.zones), ...things.map((one) => one.zone)])].sort();
    const zones = names.map((name) => this.zone(name, world));
    keep($("zones"), zones);
    const snapshots = list(world.snapshots).map((one) => this.snapshot(one));
    keep($("snapshots"), snapshots.length ? [this.element("snapshots", () =>
      make("h3", {}, "Snapshots")), ...snapshots] : []);
    for (const key of this.elements.keys()) if (!this.used.has(key)) this.elements.delete(key);
  }

  element(key, build) {
    this.used.add(key);
    if (!this.elements.has(key)) this.elements.set(key, build());
    return this.elements.get(key);
  }
  zone(name, world) {
    const box = this.element(`zone ${name}`, () =>
      make("div", { class: "zone" }, make("h3", {}, name || "zone unknown")));
    const here = (one) => one.zone === name;
    const machines = list(world.instances).filter(here).filter((one) =>
      one.state !== "terminated").map((one) => this.instance(one));
    const disks = list(world.volumes).filter(here).map((one) => this.volume(one));
    keep(box, [box.firstChild, ...machines, ...disks]);
    return box;
  }
  instance(one) {
    const box = this.element(one.id, () => {
      const buttons = make("div", { class: "group", role: "group", "aria-label": one.id });
      for (const [what, words] of [["interrupt", "Interrupt"], ["rebalance", "Rebalance"],
        ["kill", "Kill"]]) {
        const button = make("button", { type: "button", "data-what": what }, words);
        button.addEventListener("click", () => this.act(what, one.id));
        buttons.append(button);
      }
      return make("div", { class: "thing machine", "data-instance": one.id },
        make("p", { class: "id" }, one.id), make("p", { class: "hint" }), buttons);
    });
    const words = [one.type, one.state, one.training && "training", known(one.notice) &&
      "notice given"].filter(Boolean).join(" · ");
    if (box.children[1].textContent !== words) box.children[1].textContent = words;
    box.lastChild.hidden = !this.controls || one.state !== "running";
    return box;
  }
  volume(one) {
    const box = this.element(one.id, () => make("div", { class: "thing disk" },
      make("p", { class: "id" }, one.id), make("p", { class: "hint" })));
    const words = ["volume", one.state, known(one.gibibytes) && `${one.gibibytes} GiB`,
      one.instance && `on ${one.instance}`, one.snapshot && `from ${one.snapshot}`];
    box.lastChild.textContent = words.filter(Boolean).join(" · ");
    return box;
  }
  snapshot(one) {
    const box = this.element(one.id, () => make("div", { class: "thing disk" },
      make("span", { class: "id" }, one.id), make("span", { class: "hint" }),
      make("progress", { max: 100, "aria-label": `Progress of ${one.id}` })));
    box.children[1].textContent = `${one.state} · of ${one.volume}`;
    box.lastChild.value = one.progress ?? 0;
    box.lastChild.hidden = one.state !== "pending";
    return box;
  }

  // Each reports what it did. There is no confirmation: it is an emulator.
  addControls() {
    const lead = make("select", { id: "lead" }, [["12", "12 s"], ["30", "30 s"],
      ["120", "2 min"]].map(([value, words]) => make("option", { value }, words)));
    const action = make("select", { id: "action" }, ["terminate", "stop", "hibernate"].map(
      (each) => make("option", {}, each)));
    const button = (words, work) => {
      const made = make("button", { type: "button" }, words);
      made.addEventListener("click", work);
      return made;
    };
    $("controls").replaceChildren(
      make("label", {}, "Interrupt in ", lead), make("label", {}, "to ", action),
      button("Throttle EC2 for 30 s", () => this.break([["throttle", { action: "*", for: "30s" }]],
        "EC2 and S3 answer RequestLimitExceeded and SlowDown for 30 s.")),
      button("Break the network", () => this.break([
        ["fail-next", { action: "*", count: "1000000", code: "timeout-lost" }],
        ["imds", { mode: "down", for: "1h" }]],
      "No answer of EC2, S3 or the metadata service arrives until you press Mend.")),
      button("Mend", () => this.break([["clear", {}]], "All that was broken works again.")));
  }
  async break(faults, done) {
    for (const [name, given] of faults)
      if (!await this.post("fault", { name, arguments: given })) return;
    this.say(done);
  }
  async act(what, instance) {
    const seconds = Number($("lead").value);
    const action = $("action").value;
    const body = what === "interrupt" ? { instance, action, in_ms: seconds * 1000 } : { instance };
    if (!await this.post(what, body)) return;
    const at = action === "hibernate" ? "hibernates at once"
      : `${action === "stop" ? "is stopped" : "is terminated"} in ${duration(seconds)}`;
    this.say({ interrupt: `${instance} has its notice: it ${at}.`,
      rebalance: `${instance} has a rebalance recommendation.`,
      kill: `${instance} is dead, without a notice.` }[what]);
  }
  async post(what, body) {
    try {
      const answer = await fetch(what, { method: "POST", body: JSON.stringify(body),
        headers: { "Content-Type": "application/json" } });
      const said = await answer.json();
      if (answer.ok) return true;
      this.say(`Refused: ${said.error}`);
    } catch {
      this.say("The emulator does not answer.");
    }
    return false;
  }
  say(words) {
    $("said").textContent = words;
  }
}

// Sets the children, in their order; those that exist are kept.
function keep(parent, wanted) {
  for (const child of [...parent.children]) if (!wanted.includes(child)) child.remove();
  wanted.forEach((child, place) => {
    const there = parent.children[place] || null;
    if (there !== child) parent.insertBefore(child, there);
  });
}
