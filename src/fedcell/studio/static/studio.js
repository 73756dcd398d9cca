// The frame of the page: the token, questions to the server, the two views and the theme.

import { make } from "./format.js";
import { startPlan } from "./plan.js";
import { startRuns } from "./runs.js";

const TOKEN = new URLSearchParams(location.search).get("token") ?? "";
const byId = (id) => document.getElementById(id);

export class Refused extends Error {
  constructor(faults) {
    super(faults.join("\n"));
    this.faults = faults;
  }
}

/** Ask the server; plain values, or bytes of a file. */
export async function ask(what, body = {}, signal = undefined) {
  let answer;
  try {
    answer = await fetch(`/api/${what}`, { method: "POST", headers: { "Content-Type": "application/json", "X-Fedcell-Token": TOKEN }, body: JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(["The studio does not answer: has it ended? Start it again, and open the new address."]);
  }
  if (!answer.ok) throw new Refused((await answer.json()).faults);
  if (!answer.headers.get("Content-Type").startsWith("application/json") || answer.headers.get("Content-Disposition")) return answer.blob();
  const said = await answer.json();
  if (said.faults) throw new Refused(said.faults);
  return said;
}

/** Save bytes from the server as a file. */
export function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export function fault(words) {
  const box = byId("fault");
  box.hidden = !words;
  box.textContent = words;
}

function tabs(views) {
  const open = (name, focus = false) => {
    for (const each of Object.keys(views)) {
      const tab = byId(`tab-${each}`), here = each === name;
      tab.setAttribute("aria-selected", String(here));
      tab.tabIndex = here ? 0 : -1;
      byId(each).hidden = !here;
      if (here && focus) tab.focus();
      views[each](here);
    }
  };
  for (const name of Object.keys(views)) {
    byId(`tab-${name}`).addEventListener("click", () => open(name));
    byId(`tab-${name}`).addEventListener("keydown", (event) => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") open(Object.keys(views).find((each) => each !== name) ?? name, true);
    });
  }
  return open;
}

function themed(again) {
  const root = document.documentElement, system = matchMedia("(prefers-color-scheme: dark)");
  let own = null;
  const apply = () => { root.dataset.theme = own ?? (system.matches ? "dark" : "light"); root.style.colorScheme = root.dataset.theme; again(); };
  system.addEventListener("change", apply);
  byId("theme").addEventListener("click", () => { own = root.dataset.theme === "dark" ? "light" : "dark"; apply(); });
  apply();
}

async function start() {
  const views = [];
  themed(() => views.forEach((view) => view.draw()));
  try {
    const { version, planning } = await ask("start");
    byId("world").textContent = planning ? planning.name : "runs";
    document.title = planning ? `${planning.name} · fedcell studio` : "fedcell studio";
    byId("theme").title = `fedcell ${version}`;
    const runs = startRuns();
    views.push(runs);
    if (!planning) byId("tab-plan").hidden = true;
    const open = tabs(planning ? { plan: () => views.at(-1).draw(), runs: (here) => runs.watch(here) } : { runs: (here) => runs.watch(here) });
    if (planning) {
      byId("plan").hidden = false;
      views.push(startPlan(planning));
    }
    open(planning ? "plan" : "runs");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    fault(error.message);
  }
}

start();
