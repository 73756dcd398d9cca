// Numbers with the units of engineers, and small helpers that make elements. All text is text: nothing is parsed as markup.

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"], [1e-12, "p"]];
const PREFIXED = new Set(["Hz", "J", "W", "bit", "bit/s", "cycle/s", "W/Hz", "m", "cycle"]);

/** A number with few digits: 46.6, 1234, 0.0102. */
export function digits(value, count = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6 || size < 1e-3) return value.toExponential(Math.max(0, count - 2)).replace("e+", "e");
  return String(Number(value.toPrecision(count)));
}

/** The prefix that suits a number of a unit: its factor and its letters. */
export function prefixOf(value, unit) {
  const size = Math.abs(value);
  if (!PREFIXED.has(unit) || !Number.isFinite(size) || size === 0) return [1, unit];
  const [factor, letters] = PREFIXES.find(([f]) => size >= f * 0.9999) ?? PREFIXES.at(-1);
  return [factor, letters + unit];
}

/** A quantity: 20 MHz, 32.1 J, 2 min 5 s. */
export function quantity(value, unit, count = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (unit === "s") return duration(value, count);
  if (!unit) return digits(value, count);
  const [factor, letters] = prefixOf(value, unit);
  return `${digits(value / factor, count)} ${letters}`;
}

/** Seconds in a unit that suits them. */
export function duration(value, count = 4) {
  if (!Number.isFinite(value)) return "∞ s";
  for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
    if (value >= 2 * size) return `${digits(value / size, count)} ${unit}`;
  }
  return value !== 0 && Math.abs(value) < 0.1 ? `${digits(value * 1e3, count)} ms` : `${digits(value, count)} s`;
}

/** A share in percent. */
export function percent(value, count = 3) {
  return `${digits(100 * value, count)} %`;
}

/** A relative change: +12 %, −3.4 %. */
export function change(now, before) {
  if (!Number.isFinite(now) || !Number.isFinite(before) || before === 0) return "";
  const part = now / before - 1;
  if (Math.abs(part) < 5e-5) return "same";
  return `${part > 0 ? "+" : "−"}${digits(Math.abs(100 * part), 2)} %`;
}

/** 32-bit floats from their base64 text. */
export function unpacked(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}

/** An element with attributes and children; strings become text. */
export function make(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same for drawings. */
export function draw(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick" || name === "onchange" || name === "oninput" || name === "ontoggle") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A table of a head and rows of text or elements. */
export function table(head, rows, own = () => false) {
  const line = (cells, tag) => cells.map((cell) => make(tag, {}, cell instanceof Node ? cell : String(cell)));
  const body = rows.map((row, i) => make("tr", own(i) ? { class: "own" } : {}, ...line(row, "td")));
  return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...line(head, "th"))), make("tbody", {}, ...body)));
}

/** Show text beside the pointer; empty text hides it. */
export function tip(text, x = 0, y = 0) {
  const box = document.getElementById("tip");
  box.hidden = !text;
  if (!text) return;
  box.textContent = text;
  const wide = box.offsetWidth, high = box.offsetHeight;
  box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - wide - 6))}px`;
  box.style.top = `${y + 18 + high > innerHeight ? y - high - 10 : y + 18}px`;
}

/** A colour of the theme. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Whole and round numbers between two ends, for an axis of logarithms or not. */
export function ticks(low, high, logarithmic, most = 7) {
  if (!(high > low)) return [low];
  const found = [];
  if (logarithmic) {
    const few = Math.log10(high / low) > 3 ? [1] : Math.log10(high / low) > 1.6 ? [1, 3] : [1, 2, 3, 5, 7];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
      for (const each of few) {
        const value = each * 10 ** power;
        if (value >= low * 0.9999 && value <= high * 1.0001) found.push(value);
      }
    }
    if (found.length >= 2) return found;
  }
  const raw = (high - low) / most, size = 10 ** Math.floor(Math.log10(raw));
  const step = size * [1, 2, 5, 10].find((each) => each * size >= raw);
  const all = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step) all.push(Number(value.toPrecision(12)));
  return all;
}
