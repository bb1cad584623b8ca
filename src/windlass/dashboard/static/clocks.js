// Shows instants in the viewer's time zone, and keeps ages and waits current without requests.

const NARROW = "\u202f";
const STEPS = [
  [86400000, "d", 3600000, "h"],
  [3600000, "h", 60000, "m"],
  [60000, "m", 1000, "s"],
];
let offsetMs = 0; // of the server's clock relative to ours

export function span(ms, isExact = false) {
  for (const [step, unit, less, smaller] of STEPS) {
    if (ms >= step) {
      const rest = Math.floor((ms % step) / less);
      return `${Math.floor(ms / step)}${NARROW}${unit}${rest ? ` ${rest}${NARROW}${smaller}` : ""}`;
    }
  }
  if (isExact) return ms >= 1000 ? `${(ms / 1000).toFixed(1)}${NARROW}s` : `${Math.round(ms)}${NARROW}ms`;
  return ms >= 1000 ? `${Math.floor(ms / 1000)}${NARROW}s` : `<${NARROW}1${NARROW}s`;
}

const two = (number) => String(number).padStart(2, "0");
export const clock = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
const dateTime = (at) =>
  `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${clock(at)}:${two(at.getSeconds())}`;

const KINDS = {
  at: (ms) => dateTime(new Date(ms)),
  clock: (ms) => clock(new Date(ms)),
  ago: (ms, now) => (now - ms < 1000 ? "now" : `${span(now - ms)} ago`),
  since: (ms, now) => span(Math.max(0, now - ms)),
  until: (ms, now) => (ms - now < 1000 ? "now" : `in ${span(ms - now)}`),
};

export function tick() {
  const now = Date.now() + offsetMs;
  for (const [kind, format] of Object.entries(KINDS)) {
    for (const element of document.querySelectorAll(`[data-${kind}]`)) {
      const text = format(Number(element.dataset[kind]), now);
      if (element.textContent !== text) element.textContent = text;
    }
  }
}

const serverNow = Number(document.documentElement.dataset.now);
if (serverNow) offsetMs = serverNow - Date.now();
tick();
setInterval(() => document.hidden || tick(), 1000);
