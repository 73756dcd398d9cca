// The cost over K and E_l: bands of the ratio to the least, the region within 5 %, what was tried, the plan, and the paper's closed form.

import { colour, digits, duration, quantity, ticks, unpacked } from "./format.js";

const LEVELS = [1, 1.05, 1.1, 1.25, 1.5, 2, 3, 5, 10];
const LIGHT = ["#ffffff", "#eef5fc", "#dceaf6", "#c6dcef", "#a6cde4", "#7fb8da", "#559fcd", "#3282be", "#1663aa", "#084082"];
const DARK = ["#f2f8ff", "#cfe3f5", "#a9cdea", "#84b5db", "#639dca", "#4884b5", "#346c9c", "#26557f", "#1a3f61", "#112a42"];
const FINE = 4096; // parts of the logarithm of the ratio, each with one shade
const LEFT = 52, RIGHT = 76, TOP = 8, BOTTOM = 40;

export class HeatMap {
  /** In `place`; `say` gets words on the cell under the pointer or cursor, `choose` a K and an E_l. */
  constructor(place, say, choose) {
    this.place = place;
    this.say = say;
    this.canvas = document.createElement("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "application");
    place.append(this.canvas);
    this.cursor = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.leave());
    this.canvas.addEventListener("dblclick", () => this.cursor && choose(...this.cell()));
    this.canvas.addEventListener("keydown", (event) => this.key(event, choose));
    this.canvas.addEventListener("blur", () => this.leave());
    new ResizeObserver(() => this.shown && this.paint()).observe(place);
  }

  /** Draw a surface; `plan` is null while it is a draft. */
  show(surface, measure, plan) {
    this.surface = { ...surface, rounds: unpacked(surface.rounds), cost: unpacked(surface.cost), duration: unpacked(surface.duration), energy: unpacked(surface.energy) };
    this.measure = measure;
    this.plan = plan;
    this.best = plan ? plan[measure].value : surface.least[measure];
    this.shown = true;
    this.canvas.setAttribute("aria-label", this.words());
    this.paint();
    if (this.cursor) this.tell();
  }

  words() {
    const { cohorts, steps } = this.surface;
    const range = `${cohorts[0]} to ${cohorts.at(-1)} clients a round and ${steps[0]} to ${steps.at(-1)} local steps`;
    const plan = this.plan ? ` The plan is ${this.plan.cohort} clients and ${this.plan.local_steps} steps; the paper's closed form is ${this.plan.paper.cohort} and ${this.plan.paper.local_steps}.` : " A draft.";
    return `Heat map of the ${this.measure} over ${range}.${plan} Arrow keys read values, Enter plans a cell by hand.`;
  }

  range(values, also) {
    let low = Math.min(values[0], also ?? values[0]), high = Math.max(values.at(-1), also ?? values[0]);
    if (low === high) { low *= 0.9; high *= 1.1; }
    return [low, high];
  }

  paint() {
    const wide = Math.max(240, this.place.clientWidth), high = Math.round(Math.min(430, Math.max(250, wide * 0.52)));
    const ratio = devicePixelRatio || 1, canvas = this.canvas;
    if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(high * ratio)) {
      canvas.width = Math.round(wide * ratio);
      canvas.height = Math.round(high * ratio);
      canvas.style.width = `${wide}px`;
      canvas.style.height = `${high}px`;
    }
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, wide, high);
    const { cohorts, steps } = this.surface, paper = this.plan?.paper;
    this.x = this.scale(this.range(steps, paper?.local_steps), LEFT, wide - RIGHT);
    this.y = this.scale(this.range(cohorts, paper?.cohort), high - BOTTOM, TOP);
    this.size = [wide, high];
    this.bands(pen, ratio);
    this.axes(pen);
    this.contour(pen, 1.05, "#009E73", 2.5);
    this.marks(pen);
    this.bar(pen);
    this.crosshair(pen);
  }

  scale([low, high], from, to) {
    const slope = (to - from) / Math.log(high / low);
    const at = (value) => from + slope * Math.log(value / low);
    at.back = (place) => low * Math.exp((place - from) / slope);
    Object.assign(at, { low, high, from, to });
    return at;
  }

  /** Places of every pixel between the nodes of an axis: node before, and the way to the next. */
  between(at, nodes, count, begin, ratio) {
    const before = new Int32Array(count), part = new Float32Array(count);
    for (let i = 0, j = 0; i < count; i++) {
      const value = at.back(begin + (i + 0.5) / ratio);
      if (at.to > at.from) while (j < nodes.length - 2 && nodes[j + 1] <= value) j++;
      else { j = nodes.length - 2; while (j > 0 && nodes[j] > value) j--; j = Math.max(0, j); }
      before[i] = nodes.length < 2 ? 0 : j;
      const low = nodes[before[i]], high = nodes[Math.min(nodes.length - 1, before[i] + 1)];
      part[i] = high > low ? Math.log(value / low) / Math.log(high / low) : 0;
      if (nodes.length > 1 && (value < nodes[0] * 0.98 || value > nodes.at(-1) * 1.02)) before[i] = -1;
      part[i] = Math.max(0, Math.min(1, part[i]));
    }
    return [before, part];
  }

  bands(pen, ratio) {
    const { cohorts, steps } = this.surface, values = this.surface[this.measure];
    const left = Math.round(LEFT * ratio), top = Math.round(TOP * ratio);
    const wide = Math.round((this.x.to - LEFT) * ratio), high = Math.round((this.y.from - TOP) * ratio);
    const image = pen.createImageData(wide, high), pixels = new Uint32Array(image.data.buffer);
    const shades = (document.documentElement.dataset.theme === "dark" ? DARK : LIGHT).map((text) => {
      const rgb = parseInt(text.slice(1), 16);
      return (0xff000000 | ((rgb & 0xff) << 16) | (rgb & 0xff00) | (rgb >> 16)) >>> 0;
    });
    const [ex, ep] = this.between(this.x, steps, wide, LEFT, ratio), [ky, kp] = this.between(this.y, cohorts, high, TOP, ratio);
    const logs = new Float32Array(values.length);
    for (let i = 0; i < values.length; i++) logs[i] = Math.min(50, Math.log(values[i] / this.best));
    const edges = LEVELS.map(Math.log), width = steps.length, lastK = cohorts.length - 1, lastE = steps.length - 1;
    // The shade of each of FINE parts of the logarithm from the first edge to beyond the last.
    const low = edges[0] - 0.05, slope = FINE / (edges.at(-1) + 0.05 - low), shadeOf = new Uint32Array(FINE);
    for (let i = 0; i < FINE; i++) shadeOf[i] = shades[edges.filter((edge) => low + (i + 0.5) / slope > edge).length];
    const between = new Float32Array(width + 1);
    for (let row = 0; row < high; row++) {
      if (ky[row] < 0) continue;
      const here = ky[row] * width, after = Math.min(lastK, ky[row] + 1) * width, p = kp[row];
      for (let j = 0; j <= lastE; j++) between[j] = logs[here + j] * (1 - p) + logs[after + j] * p;
      between[width] = between[lastE];
      for (let column = 0, place = row * wide; column < wide; column++, place++) {
        const j = ex[column];
        if (j < 0) continue;
        const value = (between[j] + (between[j + 1] - between[j]) * ep[column] - low) * slope;
        pixels[place] = shadeOf[value < 0 ? 0 : value < FINE ? value | 0 : FINE - 1];
      }
    }
    pen.putImageData(image, left, top);
  }

  axes(pen) {
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = colour("quiet");
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    pen.strokeRect(LEFT, TOP, this.x.to - LEFT, this.y.from - TOP);
    pen.textAlign = "center";
    pen.textBaseline = "top";
    let last = -Infinity;
    for (const value of ticks(this.x.low, this.x.high, true).filter(whole)) {
      const place = this.x(value);
      if (place - last < 30) continue;
      last = place;
      pen.fillText(digits(value), place, this.y.from + 5);
    }
    pen.fillText("local steps, E_l", (LEFT + this.x.to) / 2, this.y.from + 22);
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    last = Infinity;
    for (const value of ticks(this.y.low, this.y.high, true).filter(whole)) {
      const place = this.y(value);
      if (last - place < 16) continue;
      last = place;
      pen.fillText(digits(value), LEFT - 6, place);
    }
    pen.save();
    pen.translate(13, (TOP + this.y.from) / 2);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "center";
    pen.fillText("clients a round, K", 0, 0);
    pen.restore();
  }

  /** The line where the ratio to the best is `level`, by marching squares. */
  contour(pen, level, stroke, thick) {
    const { cohorts, steps } = this.surface, values = this.surface[this.measure], width = steps.length, aim = level * this.best;
    pen.beginPath();
    for (let i = 0; i + 1 < cohorts.length; i++) {
      for (let j = 0; j + 1 < width; j++) {
        const corners = [[i, j], [i, j + 1], [i + 1, j + 1], [i + 1, j]], found = [];
        for (let side = 0; side < 4; side++) {
          const [a, b] = [corners[side], corners[(side + 1) % 4]];
          const u = values[a[0] * width + a[1]] - aim, v = values[b[0] * width + b[1]] - aim;
          if (u < 0 === v < 0 || !Number.isFinite(u) || !Number.isFinite(v)) continue;
          const t = u / (u - v);
          const x1 = this.x(steps[a[1]]), x2 = this.x(steps[b[1]]), y1 = this.y(cohorts[a[0]]), y2 = this.y(cohorts[b[0]]);
          found.push([x1 + t * (x2 - x1), y1 + t * (y2 - y1)]);
        }
        for (let k = 0; k + 1 < found.length; k += 2) { pen.moveTo(...found[k]); pen.lineTo(...found[k + 1]); }
      }
    }
    pen.strokeStyle = stroke;
    pen.lineWidth = thick;
    pen.stroke();
  }

  marks(pen) {
    this.surface.tried.forEach(([k, e], i) => dot(pen, this.x(e), this.y(k), 3.2, this.surface.allowed[i] === false ? "#ffffff" : "#555555", "#555555"));
    if (!this.plan) return;
    const { cohort, local_steps, paper, cohort_interval: ki, local_steps_interval: ei } = this.plan, x = this.x(local_steps), y = this.y(cohort);
    pen.lineWidth = 1.6;
    for (const [shade, more] of [["#ffffff", 2], ["#000000", 0]]) {
      pen.strokeStyle = shade;
      pen.lineWidth = 1.6 + more;
      pen.beginPath();
      pen.moveTo(this.x(Math.max(ei.low, this.x.low)), y);
      pen.lineTo(this.x(Math.min(ei.high, this.x.high)), y);
      pen.moveTo(x, this.y(Math.max(ki.low, this.y.low)));
      pen.lineTo(x, this.y(Math.min(ki.high, this.y.high)));
      pen.stroke();
    }
    const px = this.x(paper.local_steps), py = this.y(paper.cohort);
    for (const [shade, more] of [["#ffffff", 2.6], ["#D55E00", 0]]) {
      pen.strokeStyle = shade;
      pen.lineWidth = 3 + more;
      pen.beginPath();
      pen.moveTo(px - 6, py - 6); pen.lineTo(px + 6, py + 6); pen.moveTo(px - 6, py + 6); pen.lineTo(px + 6, py - 6);
      pen.stroke();
    }
    dot(pen, x, y, 6.5, "#000000", "#ffffff", 2);
  }

  bar(pen) {
    const left = this.x.to + 14, step = (this.y.from - TOP) / (LEVELS.length + 1);
    const shades = document.documentElement.dataset.theme === "dark" ? DARK : LIGHT;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    for (let i = 0; i < shades.length; i++) {
      const y = this.y.from - (i + 1) * step;
      pen.fillStyle = shades[i];
      pen.fillRect(left, y, 12, step + 0.5);
      pen.fillStyle = colour("quiet");
      if (i < LEVELS.length) pen.fillText(`${LEVELS[i]}×`, left + 17, y);
    }
    pen.strokeStyle = colour("line");
    pen.lineWidth = 1;
    pen.strokeRect(left, TOP, 12, this.y.from - TOP);
  }

  crosshair(pen) {
    if (!this.cursor) return;
    const [k, e] = this.cell(), x = this.x(e), y = this.y(k);
    pen.strokeStyle = colour("accent");
    pen.lineWidth = 1.5;
    pen.strokeRect(x - 7, y - 7, 14, 14);
  }

  cell() {
    return [this.surface.cohorts[this.cursor[0]], this.surface.steps[this.cursor[1]]];
  }

  point(event) {
    if (!this.shown) return;
    const box = this.canvas.getBoundingClientRect();
    const near = (nodes, value) => nodes.reduce((best, node, i) => (Math.abs(Math.log(node / value)) < Math.abs(Math.log(nodes[best] / value)) ? i : best), 0);
    this.cursor = [near(this.surface.cohorts, this.y.back(event.clientY - box.top)), near(this.surface.steps, this.x.back(event.clientX - box.left))];
    this.paint();
    this.tell(event);
  }

  leave() {
    this.cursor = null;
    if (this.shown) this.paint();
    this.say("");
  }

  key(event, choose) {
    const moves = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    if (!this.shown) return;
    if (event.key === "Enter" && this.cursor) { choose(...this.cell()); event.preventDefault(); }
    if (!moves[event.key]) return;
    event.preventDefault();
    const { cohorts, steps } = this.surface;
    this.cursor ??= [cohorts.findIndex((k) => k >= (this.plan?.cohort ?? 1)), steps.findIndex((e) => e >= (this.plan?.local_steps ?? 1))];
    const [up, right] = moves[event.key];
    this.cursor = [Math.max(0, Math.min(cohorts.length - 1, this.cursor[0] + up)), Math.max(0, Math.min(steps.length - 1, this.cursor[1] + right))];
    this.paint();
    this.tell();
  }

  tell() {
    const [i, j] = this.cursor, place = i * this.surface.steps.length + j, [k, e] = this.cell(), at = (name) => this.surface[name][place];
    const more = at(this.measure) / this.best;
    this.say(`K = ${k}, E_l = ${e}: ${digits(at("rounds"))} rounds, ${duration(at("duration"))}, ${quantity(at("energy"), "J")}, cost ${duration(at("cost"))} (${digits(more, 3)} × the ${this.plan ? "plan" : "least"})`);
  }
}

function whole(value) {
  return Math.abs(value - Math.round(value)) < 1e-9;
}

function dot(pen, x, y, radius, fill, stroke, thick = 1) {
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fillStyle = fill;
  pen.fill();
  pen.strokeStyle = stroke;
  pen.lineWidth = thick;
  pen.stroke();
}
