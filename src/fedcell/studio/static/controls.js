// Sliders with a number beside them. A control holds a value, or null where it is left out.

import { make, prefixOf, digits } from "./format.js";

const PLACES = 1000; // of a slider

export class Control {
  /** spec: {id, label, symbol, unit, low, high, log, whole, base, optional, why}. */
  constructor(spec, changed) {
    Object.assign(this, spec);
    this.value = this.optional ? null : this.base;
    this.changed = changed;
    const [factor, letters] = prefixOf(this.base ?? Math.sqrt(this.low * this.high), this.unit);
    this.factor = factor;
    this.range = make("input", { type: "range", id: `c-${this.id}`, min: 0, max: PLACES, step: 1, "aria-label": this.label });
    this.number = make("input", { type: "number", id: `n-${this.id}`, step: "any", "aria-label": `${this.label}${letters ? ` in ${letters}` : ""}`, placeholder: this.optional ? "none" : "" });
    this.back = make("button", { type: "button", "aria-label": `Reset ${this.label}`, title: "Reset" }, "↺");
    this.box = make("div", { class: "control", "data-id": this.id },
      make("label", { for: `c-${this.id}` }, this.label, this.symbol ? " " : "", this.symbol ? make("span", { class: "symbol" }, this.symbol) : ""),
      make("span", { class: "entry" }, this.number, (this.letters = make("span", {}, letters))), this.back, this.range, this.why ? make("p", { class: "why" }, this.why) : "");
    if (this.fixed) { this.range.disabled = true; this.number.disabled = true; }
    this.range.addEventListener("input", () => this.set(this.at(Number(this.range.value)), true));
    this.number.addEventListener("change", () => {
      const typed = this.number.value === "" ? (this.optional ? null : this.base) : Number(this.number.value) * this.factor;
      this.set(typed !== null && Number.isFinite(typed) ? (this.whole ? Math.round(typed) : typed) : this.optional ? null : this.base, true);
    });
    this.back.addEventListener("click", () => { this.set(this.optional ? null : this.base, true); this.range.focus(); });
    this.show();
  }

  at(place) {
    const part = place / PLACES;
    const raw = this.log ? this.low * (this.high / this.low) ** part : this.low + part * (this.high - this.low);
    if (this.whole) return Math.round(raw);
    return Number(raw.toPrecision(3));
  }

  place(value) {
    const part = this.log ? Math.log(value / this.low) / Math.log(this.high / this.low) : (value - this.low) / (this.high - this.low);
    return Math.round(PLACES * Math.max(0, Math.min(1, part)));
  }

  /** Move the ends of the slider, where what is usual is known later. */
  reach(low, high) {
    this.low = low;
    this.high = high;
    [this.factor, this.letters.textContent] = prefixOf(Math.sqrt(low * high), this.unit);
    this.show();
  }

  set(value, tell = false) {
    if (value === this.value) return;
    this.value = value;
    this.show();
    if (tell) this.changed(this);
  }

  show() {
    const off = this.value === null;
    this.range.value = this.place(off ? (this.log ? Math.sqrt(this.low * this.high) : this.idle ?? this.high) : this.value);
    if (document.activeElement !== this.number) this.number.value = off ? "" : plain(this.value / this.factor);
    this.range.setAttribute("aria-valuetext", off ? "none" : `${digits(this.value / this.factor)} ${this.letters.textContent}`);
    this.box.classList.toggle("off", off);
    this.box.classList.toggle("changed", !off && (this.optional || this.value !== this.base));
  }
}

function plain(value) {
  return String(Number(value.toPrecision(5)));
}

/** The controls of a scenario, from its keys. */
export function scenarioSpecs(keys) {
  const known = (path) => keys.get(path)?.value ?? null;
  const around = (path, label, symbol, unit, ratio, more = {}) => {
    const base = known(path);
    if (base === null || typeof base !== "number") return null;
    return { id: path, label, symbol, unit, base, low: base > 0 ? base / ratio : 0, high: base > 0 ? base * ratio : 1, log: base > 0, ...more };
  };
  const listed = known("clients.table") !== null, tableWords = "a table lists the clients", measured = known("cell.gains") !== null;
  const of = (spec, why) => (spec && listed ? { ...spec, fixed: true, why } : spec);
  const distance = known("cell.distance"), ring = Array.isArray(distance);
  return [
    around("cell.bandwidth", "Band", "B", "Hz", 30),
    of(known("radio.power_max") !== null ? around("radio.power_max", "Power, at most", "P", "W", 30) : around("clients.power", "Power density", "p₀", "W/Hz", 30), tableWords),
    of(around("clients.count", "Devices", "N", "", 10, { whole: true, low: 1 }), tableWords),
    measured ? null : of(ring ? { id: "cell.distance", label: "Farthest device", symbol: "d", unit: "m", base: distance[1], low: Math.max(distance[0], distance[1] / 10), high: distance[1] * 5, log: true, ring: distance[0] } : around("cell.distance", "Distance", "d", "m", 8), tableWords),
    measured || (known("cell.channel.model") ?? "paper") !== "paper" ? null : around("cell.path_loss_exponent", "Path loss exponent", "θ", "", 1.5),
    { id: "cell.loss_rate", label: "Lost uploads", symbol: "γ", unit: "", base: known("cell.loss_rate") ?? 0, low: 0, high: 0.9, log: false },
    around("task.energy_weight", "Worth of a joule", "l₀", "s/J", 30),
    known("task.model_bits") !== null ? around("task.model_bits", "Upload", "z_m", "bit", 30) : null,
  ].filter(Boolean);
}

export function limitSpecs() {
  return [
    { id: "deadline", label: "Deadline", unit: "s", optional: true, base: null, low: 1, high: 1000, log: true },
    { id: "energy", label: "Energy budget, all", unit: "J", optional: true, base: null, low: 1, high: 1000, log: true },
    { id: "energy_per_client", label: "Energy budget, each", unit: "J", optional: true, base: null, low: 0.1, high: 100, log: true },
    { id: "confidence", label: "Confidence", unit: "", optional: true, base: null, low: 0.5, high: 0.99, log: false },
  ];
}

export function handSpecs(most) {
  return [
    { id: "target", label: "Target", symbol: "ε", unit: "", optional: true, base: null, low: 0.02, high: 2, log: true },
    { id: "cohort", label: "Clients a round", symbol: "K", unit: "", optional: true, base: null, low: 1, high: Math.max(2, most), log: true, whole: true },
    { id: "local_steps", label: "Local steps", symbol: "E_l", unit: "", optional: true, base: null, low: 1, high: 200, log: true, whole: true },
  ];
}

export function lawSpecs() {
  const spec = (id, label, base, high) => ({ id, label, unit: "", base, low: base / 100, high, log: true });
  return [spec("mixing", "mixing / K", 50, 5000), spec("drift", "drift · E_l", 0.02, 20), spec("start", "start / E_l", 250, 25000), spec("floor", "floor", 12, 1200)];
}
