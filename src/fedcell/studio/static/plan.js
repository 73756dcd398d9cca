// The planning view: what is asked, the answer, its pictures, and what can be taken along.

import { Lines, bars, lanes, lazily } from "./charts.js";
import { Control, handSpecs, lawSpecs, limitSpecs, scenarioSpecs } from "./controls.js";
import { change, colour, digits, duration, make, percent, quantity, table } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { startKeys, startPilot } from "./panels.js";
import { Refused, ask, save } from "./studio.js";

const byId = (id) => document.getElementById(id);
const TOTALS = [["rounds", "Rounds", ""], ["duration", "Time", "s"], ["energy", "Energy, all devices", "J"], ["cost", "Cost (12)", "s"]];
const PAGE = String(Math.random()).slice(2);
const MOST_PINS = 3;

export function startPlan(world) {
  const keys = new Map(world.tables.flatMap((each) => each.keys.map((key) => [key.path, key])));
  const view = new PlanView(world, keys);
  view.begin();
  return view;
}

class PlanView {
  constructor(world, keys) {
    this.world = world;
    this.keys = keys;
    this.changes = {}; // keys that no slider has, by path
    this.answer = null;
    this.pins = [];
    this.number = 0;
    this.flight = null;
    this.wanted = null;
    this.controls = new Map();
  }

  begin() {
    const add = (place, specs, changed) => specs.forEach((spec) => {
      const control = new Control(spec, changed);
      byId(place).append(control.box);
      this.controls.set(spec.id, control);
    });
    const count = this.keys.get("clients.count")?.value ?? 100, moved = () => this.moved();
    add("world-controls", scenarioSpecs(this.keys), moved);
    add("limit-controls", limitSpecs(), moved);
    add("hand-controls", handSpecs(count), moved);
    add("law-box", lawSpecs(), moved);
    byId("policy").append(make("option", { value: "" }, "best"), ...this.world.policies.map((name) => make("option", { value: name }, name)));
    for (const id of ["policy", "minimise"]) byId(id).addEventListener("change", moved);
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
    for (const radio of document.querySelectorAll("[name=source]")) radio.addEventListener("change", () => { this.sources(); this.moved(); });
    byId("reset").addEventListener("click", () => { this.load({}); this.moved(); });
    byId("pin").addEventListener("click", () => this.pin());
    byId("take").addEventListener("click", () => this.take());
    for (const [id, from] of [["copy-command", "command"], ["copy-python", "python"]]) byId(id).addEventListener("click", () => copy(byId(from).textContent, byId(id)));
    byId("copy-link").addEventListener("click", () => copy(location.href, byId("copy-link")));
    byId("close-taken").addEventListener("click", () => byId("taken").close());
    this.map = new HeatMap(drawn("surface"), (words) => { byId("fig-surface").querySelector(".readout").textContent = words; }, (k, e) => this.byHand(k, e));
    this.front = new Lines(drawn("front"));
    this.law = new Lines(drawn("law"));
    addEventListener("hashchange", () => { if (this.written !== location.hash) { this.load(this.fromLink() ?? {}); this.moved(); } });
    this.panel = startKeys(this.world, this.changes, () => this.keysChanged(), (path) => this.controls.get(path));
    this.pilot = startPilot(this.world, () => this.asked(), () => this.moved(false));
    if (!this.world.trains) { document.querySelector("[value=law]").checked = true; document.querySelector("[value=pilot]").disabled = true; }
    this.load(this.fromLink() ?? this.world.start);
    addEventListener("resize", () => { clearTimeout(this.resizing); this.resizing = setTimeout(() => this.draw(), 120); });
    this.moved(false);
  }

  /** What the page asks, in the words of the server; what is left out has its default. */
  asked() {
    const asked = {}, changes = { ...this.changes };
    for (const control of this.controls.values()) {
      if (!control.id.includes(".")) continue;
      if (control.value !== control.base) changes[control.id] = control.ring === undefined ? control.value : [control.ring, control.value];
    }
    if (Object.keys(changes).length) asked.changes = changes;
    for (const id of ["deadline", "energy", "energy_per_client", "confidence", "target", "cohort", "local_steps"]) {
      if (this.controls.get(id).value !== null) asked[id] = this.controls.get(id).value;
    }
    if (asked.target && this.world.target && this.world.target.metric && this.world.target.metric !== "loss") asked.metric = this.world.target.metric;
    if (byId("policy").value) asked.policy = byId("policy").value;
    if (byId("minimise").value !== "cost") asked.minimise = byId("minimise").value;
    if (this.seed) asked.seed = this.seed;
    if (document.querySelector("[value=law]").checked) asked.law = Object.fromEntries(["mixing", "drift", "start", "floor"].map((id) => [id, this.controls.get(id).value]));
    return asked;
  }

  /** Put a question into the controls. */
  load(asked) {
    const changes = { ...(asked.changes ?? {}) };
    for (const control of this.controls.values()) {
      if (control.id.includes(".")) {
        const own = changes[control.id];
        control.set(own === undefined ? control.base : Array.isArray(own) ? own[1] : own);
        if (own !== undefined) delete changes[control.id];
      } else if (control.optional) control.set(asked[control.id] ?? null);
      else control.set(asked.law?.[control.id] ?? control.base);
    }
    for (const path of Object.keys(this.changes)) delete this.changes[path];
    Object.assign(this.changes, changes);
    byId("policy").value = asked.policy ?? "";
    byId("minimise").value = asked.minimise ?? "cost";
    this.seed = asked.seed ?? 0;
    document.querySelector(`[value=${asked.law || !this.world.trains ? "law" : "pilot"}]`).checked = true;
    this.sources();
    this.panel.show();
  }

  sources() {
    const law = document.querySelector("[value=law]").checked;
    byId("law-box").hidden = !law;
    byId("pilot-box").hidden = law;
  }

  fromLink() {
    if (location.hash.length < 2) return null;
    try {
      const asked = JSON.parse(decodeURIComponent(location.hash.slice(1)));
      return asked && typeof asked === "object" && !Array.isArray(asked) ? asked : null;
    } catch { return null; }
  }

  byHand(k, e) {
    this.controls.get("cohort").set(k);
    this.controls.get("local_steps").set(e);
    this.moved();
  }

  keysChanged() {
    this.moved(false);
  }

  /** Ask again: one question under way, the newest waits, those between are dropped. */
  moved(draft = true) {
    this.wanted = { draft };
    byId("answer").setAttribute("aria-busy", "true");
    const busy = this.flight;
    if (!busy || (!busy.draft && performance.now() - busy.begin > 150)) this.send();
  }

  async send() {
    const { draft } = this.wanted, number = ++this.number, asked = this.asked(), flight = { draft, begin: performance.now() };
    this.wanted = null;
    this.flight = flight;
    const slow = setTimeout(() => this.chip("busy", "computing…"), 120);
    try {
      const answer = await ask("view", { asked, draft, page: PAGE, number });
      if (number === this.number && !answer.superseded) this.take_in(answer, asked);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (number === this.number) this.refuse(error.message, asked);
    } finally {
      clearTimeout(slow);
      if (this.flight === flight) {
        this.flight = null;
        if (this.wanted) this.send();
        else this.idle();
      }
    }
  }

  take_in(answer, asked) {
    byId("refused").hidden = true;
    byId("answer").classList.remove("stale");
    byId("answer").classList.toggle("draft", answer.draft);
    this.shown = answer;
    if (answer.draft) {
      this.chip("draft", "draft");
      byId("chosen").textContent = "Draft: the plan follows from the full surface";
      caption("surface", this.objective(byId("minimise").value), "a draft from a few coarse prices; the plan follows from the full surface");
      this.map.show(answer.surface, byId("minimise").value, null);
      this.wanted ??= { draft: false };
      return;
    }
    this.answer = answer;
    this.own = asked;
    const state = encodeURIComponent(JSON.stringify(asked));
    this.written = state === "%7B%7D" ? "" : `#${state}`;
    if (location.hash !== this.written) history.replaceState(null, "", `${location.pathname}${location.search}${this.written}`);
    this.chip("exact", "exact");
    this.reach(answer.plan);
    this.draw();
  }

  refuse(words) {
    const box = byId("refused");
    box.textContent = words;
    box.hidden = false;
    byId("answer").classList.remove("draft");
    byId("answer").classList.add("stale");
    this.chip("busy", "no plan");
    byId("pin").disabled = true;
    if (!this.answer) byId("chosen").textContent = "There is no plan yet";
  }

  chip(kind, words) {
    byId("chip").className = `chip ${kind}`;
    byId("chip").textContent = words;
    if (kind === "exact") byId("pin").disabled = false;
  }

  /** Ends of the sliders of limits, around the first plan. */
  reach(plan) {
    if (this.reached) return;
    this.reached = true;
    this.controls.get("deadline").reach(plan.duration.value / 5, plan.duration.value * 5);
    this.controls.get("energy").reach(plan.energy.value / 5, plan.energy.value * 5);
    const one = plan.devices.reduce((most, device) => Math.max(most, device.energy), 0);
    if (one > 0) this.controls.get("energy_per_client").reach(one / 10, one * 10);
    if (plan.target) this.controls.get("target").reach(plan.target.level ? plan.target.level / 2 : (plan.target.loss ?? 0.2) / 2, (plan.target.level ?? plan.target.loss ?? 0.2) * 10);
  }

  draw() {
    if (!this.answer || byId("plan").hidden) return;
    const { plan } = this.answer;
    this.card(plan);
    this.surface(plan);
    this.comparison();
    this.rest(plan);
  }

  /** Draw the other pictures after the frame with the numbers and the surface; only the newest. */
  rest(plan) {
    const turn = (this.turn = {});
    requestAnimationFrame(() => setTimeout(() => {
      if (this.turn !== turn) return;
      this.turn = null;
      this.pictures(plan);
      this.idle();
    }));
  }

  /** Say that nothing is asked or drawn any more. */
  idle() {
    if (!this.flight && !this.wanted && !this.turn) byId("answer").setAttribute("aria-busy", "false");
  }

  card(plan) {
    const many = (count, word) => `${word}${count === 1 ? "" : "s"}`;
    byId("chosen").replaceChildren("Call ", make("b", {}, String(plan.cohort)), ` ${many(plan.cohort, "client")} a round, `, make("b", {}, String(plan.local_steps)), ` ${many(plan.local_steps, "step")} each`);
    byId("totals").replaceChildren(...TOTALS.map(([name, label, unit]) => {
      const { value, low, high } = plan[name];
      const span = low < high ? `${quantity(low, unit, 3)} to ${quantity(high, unit, 3)}` : "";
      return make("div", {}, make("dt", {}, label), make("dd", {}, quantity(value, unit), span ? make("small", { title: "90 % interval of one run" }, span) : ""));
    }));
    const chances = Object.entries(plan.chances).map(([name, chance]) => `keeps the ${name} with a chance of ${percent(chance, 2)}`);
    const goal = plan.target ? [`to ${Object.entries(plan.target).filter(([name]) => ["loss", "accuracy", "metric", "level"].includes(name)).map(([, value]) => value).join(" ")}`] : [];
    byId("sure").textContent = [`policy ${plan.policy}`, ...goal.length ? [`one run ${this.goal(plan.target)}`] : [], ...chances].join(" · ");
    byId("notes").replaceChildren(...plan.notes.map((note) => make("li", {}, note.replaceAll("`", ""))));
  }

  goal(target) {
    const [name, level] = target.metric ? [target.metric, target.level] : target.accuracy !== undefined && target.accuracy !== null ? ["accuracy", target.accuracy] : ["training loss", target.loss];
    return `to ${name === "loss" ? "training loss" : name} ${digits(level)}`;
  }

  objective(measure) {
    return `${{ cost: "Cost", duration: "Time", energy: "Energy" }[measure]} over clients and steps`;
  }

  surface(plan) {
    const { surface } = this.answer, measure = plan.minimised;
    const more = plan.paper[measure] === null ? "never reaches the target" : change(plan.paper[measure], plan[measure].value);
    caption("surface", this.objective(measure), `● plan · ✕ paper's closed form K = ${plan.paper.cohort}, E_l = ${plan.paper.local_steps} (${more}) · green: within 5 %${surface.tried.length ? " · grey: tried by the pilot" : ""} · double-click or Enter: plan by hand`);
    this.map.show(surface, measure, plan);
  }

  pictures(plan) {
    const { front, round, parts, law } = this.answer;
    caption("front", "Time against energy", `${front.length} plans that no other beats in both, under ${plan.policy}`);
    const pins = this.pins.map((pin) => ({ label: pin.name, x: [pin.plan.duration.value], y: [pin.plan.energy.value], shade: pin.shade, dots: "only", size: 10 }));
    this.front.show({
      lines: [{ label: "Pareto front", x: front.map((each) => each.duration), y: front.map((each) => each.energy), shade: colour("accent"), dots: front.length < 60 ? "all" : "", size: 6 }, { label: "plan", x: [plan.duration.value], y: [plan.energy.value], shade: colour("ink"), dots: "only", size: 12 }, ...pins],
      x: { label: "time", unit: "s" }, y: { label: "energy", unit: "J" }, label: `Pareto front of ${front.length} plans, from ${front.length ? `${duration(front[0].duration)} and ${quantity(front[0].energy, "J")} to ${duration(front.at(-1).duration)} and ${quantity(front.at(-1).energy, "J")}` : "none"}`,
    });
    lazily(byId("fig-front").querySelector("details"), () => table(["K", "E_l", "rounds", "time", "energy", "cost"], front.map((each) => [each.cohort, each.local_steps, digits(each.rounds), duration(each.duration), quantity(each.energy, "J"), duration(each.cost)])));
    caption("round", "One round", round.why ? "" : `round ${round.round}: ${round.clients} clients, ${duration(round.duration)}, ${quantity(round.energy, "J")}; height is the share of the band`);
    lanes(drawn("round"), round, byId("fig-round").querySelector("details"));
    caption("parts", "Joules by device", `expected in one run, the highest of ${parts.clients} first`);
    bars(drawn("parts"), parts, byId("fig-parts").querySelector("details"));
    caption("law", "Rounds to the target", `with K = ${law.cohort}; band: 90 % interval of one run`);
    this.law.show({
      lines: [{ label: "rounds", x: law.steps, y: law.mean, low: law.low, high: law.high, shade: colour("accent"), dots: law.steps.length < 3 ? "all" : "" }, { label: "plan", x: [plan.local_steps], y: [plan.rounds.value], shade: colour("ink"), dots: "only", size: 11 }],
      x: { label: "local steps, E_l", unit: "" }, y: { label: "rounds", unit: "" }, label: `Rounds over local steps with ${law.cohort} clients: ${digits(plan.rounds.value)} at the plan, ${digits(plan.rounds.low)} to ${digits(plan.rounds.high)}`,
    });
    lazily(byId("fig-law").querySelector("details"), () => table(["E_l", "rounds", "low", "high"], law.steps.map((e, i) => [e, digits(law.mean[i]), digits(law.low[i]), digits(law.high[i])])));
    caption("policies", "The same plan under each policy", "who gets how much band, at which clock");
    drawn("policies").replaceChildren(table(["policy", "time", "energy", "cost"], plan.policies.map((row) => [row.policy, ...[["duration", "s"], ["energy", "J"], ["cost", "s"]].map(([name, unit]) => quantity(row[name].value, unit))]), (i) => plan.policies[i].policy === plan.policy));
  }

  pin() {
    if (!this.answer || this.pins.length >= MOST_PINS) return;
    const shades = ["#D55E00", "#009E73", "#CC79A7"], used = this.pins.map((pin) => pin.shade);
    this.pins.push({ name: `pin ${1 + shades.findIndex((shade) => !used.includes(shade))}`, shade: shades.find((shade) => !used.includes(shade)), plan: this.answer.plan, asked: structuredClone(this.own) });
    this.draw();
  }

  /** Pinned settings side by side with the present one; differences to the first. */
  comparison() {
    const box = byId("pins");
    box.hidden = this.pins.length === 0;
    byId("pin").disabled = this.pins.length >= MOST_PINS || !this.answer;
    if (box.hidden) return;
    const every = [...this.pins, { name: "now", plan: this.answer.plan, asked: this.own }];
    const flat = every.map(({ asked }) => flattened(asked)), names = [...new Set(flat.flatMap((one) => Object.keys(one)))].filter((name) => new Set(flat.map((one) => JSON.stringify(one[name]))).size > 1);
    const rows = names.map((name) => [name, ...flat.map((one) => this.shownValue(name, one[name]))]);
    rows.push(["clients a round", ...every.map(({ plan }) => plan.cohort)], ["steps", ...every.map(({ plan }) => plan.local_steps)], ["policy", ...every.map(({ plan }) => plan.policy)]);
    for (const [name, label, unit] of TOTALS) {
      const first = every[0].plan[name].value;
      rows.push([label.toLowerCase(), ...every.map(({ plan }, i) => {
        const now = plan[name].value, by = i ? change(now, first) : "";
        return make("span", {}, quantity(now, unit), " ", by ? make("small", { class: by.startsWith("+") ? "more" : "less" }, by) : "");
      })]);
    }
    const head = ["", ...every.map((one, i) => (i < this.pins.length ? make("span", {}, one.name, " ", make("button", { type: "button", class: "quiet", "aria-label": `Remove ${one.name}`, onclick: () => { this.pins.splice(i, 1); this.draw(); } }, "✕"), make("button", { type: "button", class: "quiet", "aria-label": `Go to ${one.name}`, onclick: () => { this.load(one.asked); this.moved(); } }, "↩")) : one.name))];
    box.replaceChildren(make("h2", {}, "Compare"), table(head, rows));
  }

  shownValue(name, value) {
    if (value === undefined) return this.keys.has(name) ? this.shownValue(name, this.keys.get(name).value ?? "–") : "–";
    const unit = this.keys.get(name)?.unit ?? { deadline: "s", energy: "J", energy_per_client: "J" }[name] ?? "";
    return typeof value === "number" ? quantity(value, unit) : typeof value === "string" ? value : JSON.stringify(value);
  }

  async take() {
    const asked = this.own ?? this.asked(), dialog = byId("taken");
    byId("downloads").replaceChildren(...[["toml", "Scenario (.toml)", ".toml"], ["plan", "Plan (.json)", "plan.json"], ["svg", "Figure (.svg)", "plan.svg"], ["png", "Figure (.png)", "plan.png"]].map(([what, label, name]) =>
      make("button", { type: "button", "data-what": what, onclick: async () => {
        try { save(await ask("take", { asked, what }), what === "toml" ? this.file ?? "scenario.toml" : name); } catch (error) { if (!(error instanceof Refused)) throw error; byId("needs").textContent = error.message; }
      } }, label)));
    dialog.showModal();
    try {
      const words = await ask("take", { asked, what: "words" });
      this.file = words.needs ?? "scenario.toml";
      byId("command").textContent = words.command;
      byId("python").textContent = words.python;
      byId("needs").textContent = words.needs ? `First save the scenario as ${words.needs}.` : "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      byId("needs").textContent = error.message;
    }
  }
}

function flattened(asked) {
  const { changes = {}, law = null, ...rest } = asked;
  return { ...rest, ...changes, ...(law ? { law: Object.values(law).map((v) => digits(v)).join(", ") } : {}) };
}

function drawn(name) {
  return byId(`fig-${name}`).querySelector(".draw");
}

function caption(name, title, more) {
  byId(`fig-${name}`).querySelector("figcaption").replaceChildren(title, make("small", {}, more));
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { button.textContent = "Select and copy it"; }
  setTimeout(() => { button.textContent = before; }, 1500);
}
