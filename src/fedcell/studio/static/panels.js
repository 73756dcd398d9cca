// The side panel of all keys, and the box of the pilot.

import { digits, duration, make, quantity } from "./format.js";
import { Refused, ask } from "./studio.js";

const byId = (id) => document.getElementById(id);

/** Every key of the scenario with the words of the documentation; `changes` is changed in place. */
export function startKeys(world, changes, changed, control) {
  const entries = [];
  const list = byId("key-list");
  for (const each of world.tables) {
    const rows = each.keys.map((key) => {
      const entry = new KeyEntry(key, changes, changed, control(key.path));
      entries.push(entry);
      return entry.box;
    });
    list.append(make("section", {}, make("h2", {}, `[${each.name}]`), make("p", { class: "readout" }, each.title), ...rows));
  }
  const open = (shown) => { byId("keys").hidden = !shown; if (shown) { entries.forEach((entry) => entry.show()); byId("key-search").focus(); } else byId("all-keys").focus(); };
  byId("all-keys").addEventListener("click", () => open(byId("keys").hidden));
  byId("close-keys").addEventListener("click", () => open(false));
  byId("keys").addEventListener("keydown", (event) => { if (event.key === "Escape") open(false); });
  byId("key-search").addEventListener("input", () => {
    const words = byId("key-search").value.toLowerCase();
    for (const entry of entries) entry.box.hidden = !`${entry.key.path} ${entry.key.text} ${entry.key.symbol}`.toLowerCase().includes(words);
    for (const section of list.children) section.hidden = ![...section.querySelectorAll(".key")].some((row) => !row.hidden);
  });
  return { show: () => entries.forEach((entry) => entry.show()) };
}

class KeyEntry {
  constructor(key, changes, changed, control) {
    Object.assign(this, { key, changes, control });
    const id = `k-${key.path}`, unit = key.unit ? ` [${key.unit}]` : "", symbol = key.symbol ? `${key.symbol}, ` : "";
    this.input = this.made(id);
    this.box = make("div", { class: "key" }, make("div", {}, make("label", { for: id }, key.path), make("p", {}, `${symbol}${key.text}${unit}`), make("p", {}, key.editable ? `expected: ${key.expected}` : "set in the scenario's file")), make("div", {}, this.input));
    if (key.editable) this.input.addEventListener("change", () => { this.read(); changed(); });
    this.show();
  }

  made(id) {
    const { value, choices, editable } = this.key;
    if (!editable) return make("code", { id }, value === null ? "none" : typeof value === "string" ? value : JSON.stringify(value));
    if (choices.length) return make("select", { id }, ...(value === null ? [make("option", { value: "" }, "default")] : []), ...choices.map((each) => make("option", { value: each }, each)));
    if (typeof value === "boolean") return make("input", { id, type: "checkbox" });
    return make("input", { id, type: "text", placeholder: "none" });
  }

  read() {
    const { path, value, choices } = this.key;
    let now;
    if (this.input.type === "checkbox") now = this.input.checked;
    else if (choices.length) now = this.input.value || null;
    else {
      const text = this.input.value.trim();
      if (text === "") now = value === null ? null : value;
      else try { now = JSON.parse(text); } catch { now = text; }
    }
    const same = JSON.stringify(now) === JSON.stringify(value);
    if (this.control && this.control.ring === undefined && typeof now === "number") this.control.set(now);
    else if (same) delete this.changes[path];
    else this.changes[path] = now;
    this.show();
  }

  show() {
    const { path, value, editable } = this.key, own = this.control && this.control.value !== this.control.base ? (this.control.ring === undefined ? this.control.value : [this.control.ring, this.control.value]) : undefined;
    const now = this.changes[path] ?? own ?? value;
    this.box.classList.toggle("changed", path in this.changes || own !== undefined);
    if (!editable || document.activeElement === this.input) return;
    if (this.input.type === "checkbox") this.input.checked = Boolean(now);
    else if (this.input.tagName === "SELECT") this.input.value = now ?? "";
    else this.input.value = now === null ? "" : typeof now === "string" ? now : JSON.stringify(now);
  }
}

/** The pilot: what its file holds, one under way, and a button to run one. */
export function startPilot(world, asked, ready) {
  const box = byId("pilot-box"), budget = make("input", { type: "text", id: "budget", value: "60s", "aria-label": "Budget of the pilot by the clock", size: 6 });
  const words = make("p"), bar = make("progress", { max: 1, value: 0, "aria-label": "Progress of the pilot" }), fault = make("p", { role: "alert" });
  const start = make("button", { type: "button", id: "start-pilot" }, "Run a pilot"), cancel = make("button", { type: "button", id: "cancel-pilot" }, "Cancel");
  box.append(words, bar, fault, make("p", { class: "buttons" }, budget, start, cancel));
  let timer = null, state = null, stamp = null;
  const show = (status) => {
    const { holds, job } = status, running = job?.state === "running";
    bar.hidden = cancel.hidden = !running;
    start.hidden = budget.hidden = running;
    start.textContent = holds && !holds.fault ? "More trials" : "Run a pilot";
    const known = !holds ? `There is no pilot yet: ${status.file} would hold it. It measures by short trials how many rounds training takes.` : holds.fault ?? `${status.file}: ${holds.trials} trials of ${holds.settings} settings to ${holds.target}, ${holds.reached} reached it.`;
    words.textContent = running ? `Running a pilot: ${job.holds?.trials ?? 0} trials, ${digits(Math.min(job.elapsed, job.budget), 3)} of ${quantity(job.budget, "s")}. It goes on when this page is closed.` : known;
    if (running) bar.value = Math.min(1, job.elapsed / job.budget);
    fault.textContent = job?.fault ?? (job?.state === "cancelled" && !running ? "Cancelled; finished trials are kept." : "");
    const now = JSON.stringify(holds && [holds.trials, holds.target]);
    if ((state === "running" && !running) || (stamp !== null && stamp !== now && !running)) ready();
    state = job?.state ?? null;
    stamp = now;
    clearTimeout(timer);
    if (running) timer = setTimeout(() => tell("status"), 1000);
  };
  const tell = async (what) => {
    try {
      const { law, ...question } = asked();
      show(await ask("pilot", { do: what, asked: question, budget: budget.value }));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      fault.textContent = error.message;
      if (state === "running") timer = setTimeout(() => tell("status"), 3000);
    }
  };
  start.addEventListener("click", () => tell("start"));
  cancel.addEventListener("click", () => tell("cancel"));
  if (world.trains) tell("status"); else words.textContent = "This scenario trains nothing: give a law by hand.";
  return { look: () => tell("status") };
}
