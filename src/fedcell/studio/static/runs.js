// The runs view: what the folders hold, a run while it goes on, seeds, sweeps with verdicts, and federations. It only reads.

import { Lines, columns } from "./charts.js";
import { colour, digits, duration, make, percent, quantity, table } from "./format.js";
import { Refused, ask } from "./studio.js";

const POLICIES = { even: "#E69F00", distributed: "#56B4E9", "equal-finish": "#009E73", "optimal-staged": "#CC79A7" };
const SPARE = ["#0072B2", "#D55E00", "#999999", "#8A6D3B"];
const NAMES = { train_loss: "training loss", test_loss: "test loss", rounds_to_target: "rounds to the target", rounds_to_hold: "rounds until the target holds" };
const SHADES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A6D3B"]; // of lines without a policy
const EVERY = { list: 4000, run: 1000 }; // [ms] between two looks
const WHOLE = ["choice", "fault", "events"]; // parts as wide as the page
const byId = (id) => document.getElementById(id);

export function startRuns() {
  return new RunsView();
}

class RunsView {
  constructor() {
    this.name = null;
    this.shown = null;
    this.charts = new Map();
  }

  watch(here) {
    this.here = here;
    clearTimeout(this.listing);
    clearTimeout(this.looking);
    if (here) this.list();
  }

  async asked(what, body) {
    try {
      return await ask(what, body);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return { fault: error.message };
    }
  }

  async list() {
    const { runs = [], folders = [], fault } = await this.asked("runs", {});
    const words = (run) => run.fault ? "cannot be read" : run.kind === "run" ? `${run.status} · ${run.rounds}${run.status === "complete" ? "" : ` of ${run.most_rounds}`} rounds${run.train_loss !== null ? ` · loss ${digits(run.train_loss, 3)}` : ""}` : run.kind === "seeds" ? `${run.seeds.length} seeds · ${run.status}` : `sweep · ${run.runs} runs`;
    byId("run-list").replaceChildren(make("h2", {}, "Runs"), ...runs.map((run) => make("button", { type: "button", "aria-current": String(run.name === this.name), onclick: () => this.open(run.name) }, run.name, make("small", {}, words(run)))),
      runs.length ? "" : make("p", {}, fault ?? `There are no runs in ${folders.join(", ")} yet: fedcell run makes one.`));
    if (!this.name && runs.length) this.open(runs[0].name);
    else if (this.name) this.look();
    if (this.here) this.listing = setTimeout(() => this.list(), EVERY.list);
  }

  open(name) {
    this.name = name;
    this.options = {};
    this.charts.clear();
    this.signature = null;
    byId("run-view").replaceChildren(make("p", {}, "Reading…"));
    for (const button of byId("run-list").querySelectorAll("button")) button.setAttribute("aria-current", String(button.firstChild.textContent === name));
    this.look();
  }

  async look() {
    clearTimeout(this.looking);
    const name = this.name, shown = await this.asked("run", { name, ...this.options });
    if (name !== this.name) return;
    this.shown = shown;
    this.draw();
    if (this.here && shown.status === "running") this.looking = setTimeout(() => this.look(), EVERY.run);
  }

  draw() {
    if (!this.shown || byId("runs").hidden) return;
    const parts = { run: runParts, seeds: seedParts, sweep: sweepParts }, shown = this.shown;
    const every = shown.fault ? [["fault", () => make("p", { role: "alert", id: "refused" }, shown.fault)]] : parts[shown.kind](this, shown);
    const signature = JSON.stringify([this.name, every.map(([name]) => name)]);
    if (signature !== this.signature) {
      this.signature = signature;
      this.charts.clear();
      byId("run-view").replaceChildren(make("h2", {}, this.name), make("div", { class: "grid" }, ...every.map(([name]) => make("figure", { "data-part": name, class: WHOLE.includes(name) ? "wide" : "" }, make("figcaption"), make("div", { class: "draw" })))));
    }
    for (const [name, fill, title, more] of every) {
      const box = [...byId("run-view").querySelectorAll("figure")].find((each) => each.dataset.part === name);
      box.querySelector("figcaption").replaceChildren(title ?? "", make("small", {}, more ?? ""));
      const place = box.querySelector(".draw"), made = fill(place, name);
      if (made) place.replaceChildren(made);
    }
  }

  lines(place, name, drawn) {
    if (!this.charts.has(name)) { place.replaceChildren(); this.charts.set(name, new Lines(place)); }
    this.charts.get(name).show({ even: true, ...drawn });
  }
}

function shadeOf(policy, i) {
  return policy === "optimal" ? colour("ink") : POLICIES[policy] ?? SPARE[i % SPARE.length];
}

function runParts(view, run) {
  const first = run.target?.accuracy || run.target?.metric === "accuracy" ? "accuracy" : "train_loss", scores = Object.entries(run.scores);
  const policies = Object.entries(run.policies), main = run.scores[first] ? first : scores[0]?.[0];
  const parts = [["state", () => runWords(run), "State", `${run.trained}`]];
  for (const [name, values] of scores) {
    parts.push([`score ${name}`, (place, key) => view.lines(place, key, { lines: [{ label: NAMES[name] ?? name, x: known(run.round, values), y: values.filter(Number.isFinite), shade: colour("accent"), dots: values.length < 3 ? "all" : "" }], x: { label: "rounds", unit: "" }, y: { label: NAMES[name] ?? name, unit: "" }, label: `${name} over rounds, last ${digits(values.filter(Number.isFinite).at(-1))}` }), NAMES[name] ?? name, run.changes.length ? `another plan from round ${run.changes.join(", ")}` : "after each evaluated round"]);
  }
  for (const [what, label, unit] of [["duration", "simulated time", "s"], ["energy", "energy of all devices", "J"]]) {
    if (!main) continue;
    const lines = policies.map(([policy, totals], i) => ({ label: policy, x: known(totals[what], run.scores[main]), y: run.scores[main].filter(Number.isFinite), shade: shadeOf(policy, i), dash: i ? [8, 2 + 3 * i] : undefined, dots: run.round.length < 3 ? "all" : "" }));
    parts.push([`over ${what}`, (place, key) => view.lines(place, key, { lines, x: { label, unit }, y: { label: NAMES[main] ?? main, unit: "" }, label: `${main} over ${label}` }), `${NAMES[main] ?? main} over ${label}`, "policies side by side, with common random numbers"]);
  }
  if (run.clients) {
    const own = Object.values(run.clients)[0], order = own.energy.map((_, j) => j).sort((a, b) => own.energy[b] - own.energy[a]).slice(0, 20), names = order.map((j) => `client ${j}`);
    parts.push(["participation", (place) => { place.replaceChildren(); columns(place, names, [{ label: "called", values: order.map((j) => own.called[j]), shade: colour("accent") }, { label: "arrived", values: order.map((j) => own.arrived[j]), shade: "#009E73" }], ""); }, "Participation", "rounds, of the 20 devices that spent most"]);
    parts.push(["joules", (place) => { place.replaceChildren(); columns(place, names, Object.entries(run.clients).slice(0, 3).map(([policy, each], i) => ({ label: policy, values: order.map((j) => each.energy[j]), shade: shadeOf(policy, i) })), "J"); }, "Joules by device", "in the whole run"]);
  } else parts.push(["participation", () => make("p", {}, "Participation and joules of each device are known when the run ends."), "Devices", ""]);
  if (run.exchanges) parts.push(...exchangeParts(run.exchanges));
  return parts;
}

function known(xs, ys) {
  return xs.filter((_, i) => Number.isFinite(ys[i]));
}

function runWords(run) {
  const rows = Object.entries(run.policies).map(([policy, totals]) => {
    const there = run.to_target[policy];
    return [policy, duration(totals.duration.at(-1) ?? 0), quantity(totals.energy.at(-1) ?? 0, "J"), there ? `${there.rounds} rounds, ${duration(there.duration)}, ${quantity(there.energy, "J")}` : "–"];
  });
  const bar = run.status === "complete" ? "" : make("progress", { max: run.most_rounds, value: run.rounds, "aria-label": "Rounds" });
  const words = run.status === "complete" ? `complete after ${run.rounds} rounds, of ${run.most_rounds} at most` : `${run.status}: ${run.rounds} of ${run.most_rounds} rounds`;
  return make("div", {}, make("p", {}, words), bar, table(["policy", "time", "energy", "to the target"], rows));
}

function exchangeParts(report) {
  const devices = report.devices.slice(0, 25), names = devices.map((device) => device.name);
  const pair = (model, clock) => [{ label: "by the model", values: devices.map((device) => device[model]), shade: colour("accent") }, { label: "by the clock", values: devices.map((device) => device[clock]), shade: "#E69F00" }];
  return [
    ["upload times", (place) => { place.replaceChildren(); columns(place, names, pair("modelled_upload", "measured_upload"), "s"); }, "Uploads by model and by clock", "medians of a round"],
    ["training times", (place) => { place.replaceChildren(); columns(place, names, pair("modelled_training", "measured_training"), "s"); }, "Training by model and by clock", "medians of a round"],
    ["outcomes", () => table(["outcome", "exchanges"], Object.entries(report.outcomes)), "Exchanges", `${report.rounds} rounds`],
    ["events", () => report.events.length ? table(["round", "device", "outcome", "why"], report.events.slice(-100).map((event) => [event.round, event.name, event.outcome, event.why])) : make("p", {}, "No faults."), "Events", "faults, refusals, returns"],
  ];
}

function seedParts(view, result) {
  const titles = { rounds: ["rounds", ""], duration: ["simulated time", "s"], energy: ["energy of all devices", "J"] };
  const parts = Object.entries(result.bands).map(([what, policies]) => [`band ${what}`, (place, key) => view.lines(place, key, {
    lines: Object.entries(policies).map(([policy, band], i) => ({ label: policy || "mean", x: band.x, y: band.mean, low: band.low, high: band.high, shade: policy ? shadeOf(policy, i) : colour("accent"), band: policy ? `${shadeOf(policy, i).slice(0, 7)}26` : undefined })),
    x: { label: titles[what][0], unit: titles[what][1] }, y: { label: NAMES[result.measure] ?? result.measure, unit: "" }, label: `mean of ${result.seeds.length} seeds over ${titles[what][0]}`,
  }), `${NAMES[result.measure] ?? result.measure} over ${titles[what][0]}`, `mean of ${result.seeds.length} seeds, 95 % band`]);
  const heads = Object.keys(result.rows[0] ?? {}).slice(0, 8);
  parts.push(["rows", () => table(heads, result.rows.map((row) => heads.map((head) => (typeof row[head] === "number" ? digits(row[head]) : row[head] ?? "–")))), "Numbers", ""]);
  return parts;
}

function sweepParts(view, sweep) {
  const parts = [];
  const choice = (name, values, now) => make("label", {}, `${name} `, make("select", { onchange: (event) => { view.options = { ...view.options, [name === "measure" ? "by" : "axis"]: event.target.value }; view.look(); } }, ...values.map((each) => make("option", { value: each, selected: each === now }, NAMES[each] ?? each))));
  if (sweep.lines.length) {
    parts.push(["choice", () => make("p", { class: "buttons" }, choice("measure", sweep.measures, sweep.by), choice("axis", sweep.axes, sweep.axis)), sweep.title, `${sweep.runs} runs, ${sweep.seeds} seeds`]);
    parts.push(["sweep", (place, key) => view.lines(place, key, {
      even: !(Math.max(...sweep.lines.flatMap((line) => line.x)) > 20 * Math.min(...sweep.lines.flatMap((line) => line.x))),
      lines: sweep.lines.map((line, i) => {
        const shade = line.policy ? shadeOf(line.policy, i) : SHADES[[...new Set(sweep.lines.map((each) => each.leading))].indexOf(line.leading) % SHADES.length];
        const other = [...new Set(sweep.lines.map((each) => each.others))].indexOf(line.others);
        return { label: line.label, x: line.x, y: line.mean, low: line.low, high: line.high, shade, band: `${shade.slice(0, 7)}1c`, dots: "all", dash: [undefined, [9, 5], [2, 4], [9, 4, 2, 4]][other % 4] };
      }),
      x: { label: sweep.axis_title, unit: "" }, y: { label: sweep.by_title, unit: "" }, label: `${sweep.by_title} over ${sweep.axis_title}`,
    }), `${sweep.by_title} over ${sweep.axis_title}`, `bands: 95 % over seeds${sweep.lines.some((line) => line.least.some(Boolean)) ? "; some runs missed the target, so that their means are lower bounds" : ""}`]);
  } else parts.push(["choice", () => make("p", {}, "This sweep has no axis of numbers."), sweep.title, `${sweep.runs} runs`]);
  if (sweep.verdicts) {
    parts.push(["verdicts", () => make("ul", { class: "verdicts" }, ...sweep.verdicts.map((each) => make("li", {}, make("span", { class: each.outcome.replace(" ", "-") }, each.words), ` ${each.claim}, ${each.where} `, make("small", {}, each.number)))), "Verdicts on the paper's claims", ""]);
    parts.push(["figure", (place) => { if (!place.querySelector("img")) picture(view, place); }, `Panel ${sweep.panel}`, ""]);
  }
  const failures = Object.entries(sweep.failures);
  if (failures.length) parts.push(["failures", () => table(["where", "why"], failures), "Failed", ""]);
  return parts;
}

async function picture(view, place) {
  const image = make("img", { alt: "Figure of the panel" });
  place.replaceChildren(image);
  const blob = await view.asked("figure", { name: view.name });
  if (blob instanceof Blob) image.src = URL.createObjectURL(blob);
}
