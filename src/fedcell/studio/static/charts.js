// Lines with bands (uPlot), one round as lanes, and stacked bars.

import { colour, digits, draw, duration, make, percent, quantity, table, ticks, tip } from "./format.js";

export const STATES = ["download", "train", "upload", "wait"];
export const PARTS = [...STATES, "tail"];
const WIDE = 12; // ratio of the ends of an axis, from which it is logarithmic

/** A chart of lines that is drawn again in place: `show` takes what to draw. */
export class Lines {
  constructor(place, height = 260) {
    this.place = place;
    this.height = height;
    this.chart = null;
    new ResizeObserver(() => {
      if (this.chart && Math.abs(this.chart.width - place.clientWidth) > 1) this.chart.setSize({ width: place.clientWidth, height: this.height });
    }).observe(place);
  }

  /** lines: [{label, x, y, low, high, shade, dots, dash}]; x, y: {label, unit}; `even`: x has no logarithms. */
  show({ lines, x, y, label, even = false }) {
    const xs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const at = new Map(xs.map((value, i) => [value, i]));
    const column = (line, values) => {
      const full = new Array(xs.length).fill(null);
      line.x.forEach((value, i) => { full[at.get(value)] = values[i]; });
      return full;
    };
    const data = [xs], series = [{ label: x.label, value: (_, v) => quantity(v, x.unit) }], bands = [];
    for (const line of lines) {
      if (line.low) {
        const place = data.length;
        data.push(column(line, line.high), column(line, line.low));
        const edge = { stroke: "transparent", points: { show: false }, spanGaps: true, value: (_, v) => quantity(v, y.unit) };
        series.push({ ...edge, label: `${line.label}, high`, class: "edge" }, { ...edge, label: `${line.label}, low`, class: "edge" });
        bands.push({ series: [place, place + 1], fill: line.band ?? colour("band") });
      }
      data.push(column(line, line.y));
      const own = data.length - 1;
      const said = (u, v, _, i) => (line.low && v !== null && i !== null && i !== undefined ? `${quantity(v, y.unit)} (${quantity(u.data[own - 1][i], y.unit, 3)} to ${quantity(u.data[own - 2][i], y.unit, 3)})` : quantity(v, y.unit));
      series.push({
        label: line.label, stroke: line.shade, width: line.dots === "only" ? 0 : 2, dash: line.dash, spanGaps: true,
        paths: line.dots === "only" ? () => null : undefined, value: said,
        points: { show: Boolean(line.dots), size: line.size ?? 7, fill: line.shade, stroke: line.ring ?? line.shade, width: line.ring ? 2 : 1 },
      });
    }
    const [xLog, yLog] = [!even && spread(xs), spread(lines.flatMap((line) => [...line.y, ...(line.low ?? []), ...(line.high ?? [])]))];
    const key = JSON.stringify([lines.map((line) => [line.label, line.shade, Boolean(line.low), line.dots]), x, y, xLog, yLog, colour("ink")]);
    if (this.chart && this.key === key) {
      this.chart.setData(data);
    } else {
      this.chart?.destroy();
      this.key = key;
      const axis = (own, log) => ({
        stroke: colour("quiet"), grid: { stroke: colour("grid"), width: 1 }, ticks: { stroke: colour("grid"), width: 1 }, label: own.unit ? `${own.label} [${own.unit}]` : own.label,
        labelFont: "12px system-ui, sans-serif", font: "12px system-ui, sans-serif", labelSize: 18, labelGap: 2, splits: log ? (u, _, low, high) => ticks(low, high, true) : undefined, values: (_, all) => all.map((v) => (v === null ? "" : digits(v))), filter: log ? (_, all) => all : undefined,
      });
      const scale = (log) => (log ? { distr: 3, log: 10, range: (_, low, high) => padded(low, high) } : { distr: 1, range: (_, low, high) => [low - 0.04 * (high - low || 1), high + 0.06 * (high - low || 1)] });
      this.chart = new uPlot({
        width: Math.max(220, this.place.clientWidth), height: this.height, series, bands, scales: { x: { ...scale(xLog), time: false }, y: scale(yLog) }, cursor: { drag: { x: false, y: false }, points: { size: 8 } },
        axes: [axis(x, xLog), { ...axis(y, yLog), size: 62 }], legend: { live: true }, padding: [8, 14, 0, 0],
      }, data, this.place);
    }
    this.place.setAttribute("role", "img");
    this.place.setAttribute("aria-label", label);
  }
}

function spread(values) {
  const known = values.filter((value) => Number.isFinite(value));
  return known.length > 1 && Math.min(...known) > 0 && Math.max(...known) / Math.min(...known) > WIDE;
}

function padded(low, high) {
  if (!(low > 0) || !(high > 0)) return [0.1, 1];
  const more = (high / low) ** 0.05 * 1.02;
  return [low / more, high * more];
}

/** One round: a lane for each client, as high as its share of the band. */
export function lanes(place, round, more) {
  place.replaceChildren();
  more.replaceChildren(more.querySelector("summary"));
  if (!round || round.why) { place.append(make("p", {}, round?.why ?? "")); return; }
  const wide = Math.max(260, place.clientWidth), left = 92, right = 10, bottom = 36, end = round.duration;
  const high = Math.max(150, Math.min(300, 26 * round.lanes.length)), total = round.lanes.reduce((sum, lane) => sum + lane.share, 0);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high + bottom}`, role: "img", "aria-label": `Round ${round.round}: ${round.clients} clients, ${duration(end)}, ${quantity(round.energy, "J")}` });
  const x = (seconds) => left + (seconds / end) * (wide - left - right);
  for (const value of ticks(0, end, false, Math.max(3, Math.round((wide - left) / 90)))) {
    svg.append(draw("line", { x1: x(value), x2: x(value), y1: 0, y2: high }), draw("text", { x: x(value), y: high + 15, "text-anchor": "middle", class: "axis" }, digits(value)));
  }
  svg.append(draw("text", { x: (left + wide) / 2, y: high + 31, "text-anchor": "middle", class: "axis" }, "seconds of the round"));
  let top = 0;
  for (const lane of round.lanes) {
    const tall = (lane.share / total) * high;
    for (const state of STATES) {
      const [begin, until] = lane.states[state];
      if (until <= begin) continue;
      const joules = lane.energy[state];
      const words = `${lane.name}: ${state} ${duration(until - begin)}${joules ? `, ${quantity(joules, "J")}` : ""}\n${percent(lane.share)} of the band, ${quantity(lane.freq, "cycle/s")}`;
      const bar = draw("rect", { x: x(begin), y: top + (tall > 4 ? 0.6 : 0), width: Math.max(0.5, x(until) - x(begin)), height: Math.max(0.8, tall - (tall > 4 ? 1.2 : 0)), class: `swatch-${state}` });
      bar.addEventListener("pointermove", (event) => tip(words, event.clientX, event.clientY));
      bar.addEventListener("pointerleave", () => tip(""));
      svg.append(bar);
    }
    if (tall >= 11) svg.append(draw("text", { x: left - 6, y: top + tall / 2 + 4, "text-anchor": "end" }, short(lane.name, 13)));
    top += tall;
  }
  place.append(svg, legend(STATES.filter((state) => round.lanes.some((lane) => lane.states[state][1] > lane.states[state][0]))));
  const rows = round.lanes.map((lane) => [lane.name, percent(lane.share), quantity(lane.freq, "cycle/s"), ...STATES.map((state) => duration(lane.states[state][1] - lane.states[state][0])), quantity(PARTS.reduce((sum, part) => sum + lane.energy[part], 0), "J")]);
  lazily(more, () => table(["client", "band", "clock", ...STATES, "energy"], rows));
}

/** Joules by device and part, the highest first. */
export function bars(place, parts, more) {
  place.replaceChildren();
  more.replaceChildren(more.querySelector("summary"));
  const sum = (device) => Object.values(device.parts).reduce((all, joules) => all + joules, 0);
  const shown = parts.devices.slice(0, 14), most = Math.max(...shown.map(sum), 1e-300), wide = Math.max(260, place.clientWidth);
  const left = 92, right = 62, row = 18, high = row * shown.length;
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high + 2}`, role: "img", "aria-label": `Expected joules of a run by device: ${shown.slice(0, 3).map((device) => `${device.name} ${quantity(sum(device), "J")}`).join(", ")}` });
  const used = PARTS.filter((part) => parts.devices.some((device) => (device.parts[part] ?? 0) > 0));
  shown.forEach((device, i) => {
    let x = left;
    const words = `${device.name}: ${quantity(sum(device), "J")}\n${used.map((part) => `${part} ${quantity(device.parts[part] ?? 0, "J")}`).join("\n")}${device.battery ? `\n${percent(sum(device) / device.battery)} of its battery` : ""}`;
    const group = draw("g");
    for (const part of used) {
      const width = ((device.parts[part] ?? 0) / most) * (wide - left - right);
      group.append(draw("rect", { x, y: i * row + 2, width: Math.max(0, width), height: row - 4, class: `swatch-${part}` }));
      x += width;
    }
    group.append(draw("text", { x: left - 6, y: i * row + 13, "text-anchor": "end" }, short(device.name, 13)), draw("text", { x: x + 5, y: i * row + 13, class: "axis" }, quantity(sum(device), "J", 3)));
    group.addEventListener("pointermove", (event) => tip(words, event.clientX, event.clientY));
    group.addEventListener("pointerleave", () => tip(""));
    svg.append(group);
  });
  place.append(svg, legend(used));
  const rows = parts.devices.map((device) => [device.name, ...used.map((part) => quantity(device.parts[part] ?? 0, "J")), quantity(sum(device), "J"), device.battery ? percent(sum(device) / device.battery) : "–"]);
  lazily(more, () => table(["device", ...used, "all", "of its battery"], rows));
}

/** Bars of one value for each name. */
export function columns(place, names, series, unit) {
  const wide = Math.max(260, place.clientWidth), left = 92, right = 62, row = 8 + 11 * series.length, high = row * names.length;
  const most = Math.max(...series.flatMap((each) => each.values.map((v) => v ?? 0)), 1e-300);
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${high + 2}`, role: "img", "aria-label": `${series.map((each) => each.label).join(" and ")} of ${names.length}` });
  names.forEach((name, i) => {
    svg.append(draw("text", { x: left - 6, y: i * row + row / 2 + 3, "text-anchor": "end" }, short(name, 13)));
    series.forEach((each, s) => {
      const value = each.values[i] ?? 0, bar = draw("rect", { x: left, y: i * row + 4 + 11 * s, width: Math.max(0, (value / most) * (wide - left - right)), height: 9, fill: each.shade });
      bar.addEventListener("pointermove", (event) => tip(`${name}: ${each.label} ${quantity(value, unit)}`, event.clientX, event.clientY));
      bar.addEventListener("pointerleave", () => tip(""));
      svg.append(bar, draw("text", { x: left + (value / most) * (wide - left - right) + 5, y: i * row + 12 + 11 * s, class: "axis" }, quantity(value, unit, 3)));
    });
  });
  place.append(svg, make("ul", { class: "legend" }, ...series.map((each) => {
    const mark = make("i");
    mark.style.background = each.shade;
    return make("li", {}, mark, each.label);
  })));
}

function legend(parts) {
  return make("ul", { class: "legend" }, ...parts.map((part) => make("li", {}, make("i", { class: `swatch-${part}` }), part)));
}

/** Make the content of a disclosure when it is opened, or now where it is open. */
export function lazily(details, content) {
  const fill = () => { if (details.open) details.replaceChildren(details.querySelector("summary"), content()); };
  details.ontoggle = fill;
  fill();
}

function short(text, most) {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`;
}
