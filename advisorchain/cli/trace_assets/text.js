// How values become text. Everything in the data is untrusted: it reaches the page as text nodes only.

// Controls, invisible characters, what changes the direction of text, lone halves of surrogate pairs, tags.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2028\u2029\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Cs}/gu;

function visible(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  return `‹U+${code.toString(16).toUpperCase().padStart(4, "0")}›`;
}

// Any value as text. An object's `toString` may be data of the trace, which nobody can call.
function textOf(value) {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

// The text with everything unseen made visible; lines and tabs stay.
function shown(text) {
  return textOf(text).replace(/\r\n/g, "\n").replace(UNSEEN, visible);
}

function shownLine(text, most = 300) {
  const whole = textOf(text);
  const cut = whole.length > most ? whole.slice(0, most) + "…" : whole;
  return shown(cut).replace(/\n/g, " ⏎ ").replace(/\t/g, " ");
}

function make(tag, className = "", text = null) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== null) element.append(text);
  return element;
}

// Text of any language or direction inside ours.
function foreign(tag, className, text) {
  const element = make(tag, className, text);
  element.dir = "auto";
  return element;
}

function duration(nanoseconds) {
  const value = Math.max(nanoseconds, 0);
  if (value < 1e3) return `${Math.round(value)} ns`;
  if (value < 999.5e3) return `${Math.round(value / 1e3)} µs`;
  if (value < 9.995e6) return `${(value / 1e6).toFixed(2)} ms`;
  if (value < 99.95e6) return `${(value / 1e6).toFixed(1)} ms`;
  if (value < 999.5e6) return `${Math.round(value / 1e6)} ms`;
  if (value < 59.995e9) return `${(value / 1e9).toFixed(2)} s`;
  const seconds = Math.round(value / 1e9);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

// The time at a tick, with no more digits than its step needs.
function tickText(nanoseconds, step) {
  if (nanoseconds === 0) return "0";
  const [unit, name] = step >= 60e9 ? [60e9, "min"] : step >= 0.1e9 ? [1e9, "s"] : step >= 0.1e6 ? [1e6, "ms"] : [1e3, "µs"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9));
  return `${(nanoseconds / unit).toFixed(Math.min(digits, 6))} ${name}`;
}

function count(number) {
  if (!Number.isFinite(number)) return "?";
  if (number < 10_000) return String(number);
  return number < 999_500 ? `${(number / 1e3).toFixed(1)}k` : `${(number / 1e6).toFixed(2)}M`;
}

function plural(number, word) {
  return `${number} ${word}${number === 1 ? "" : "s"}`;
}

function clock(milliseconds) {
  const moment = new Date(milliseconds);
  return Number.isNaN(moment.getTime()) ? "?" : moment.toLocaleTimeString([], { hour12: false });
}

function moment(milliseconds) {
  const found = new Date(milliseconds);
  return Number.isNaN(found.getTime()) ? "?" : found.toISOString().replace("T", " ");
}

// JSON text as the value it stands for; any other text is undefined.
function parsed(text) {
  if (typeof text !== "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pretty(value) {
  if (typeof value === "string") return value;
  return JSON.stringify(value, null, 2) ?? String(value);
}
