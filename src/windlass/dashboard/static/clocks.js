// Shows instants in the viewer's time zone or in UTC, as chosen at the foot of the page, and keeps ages and waits current
// without requests.

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

const ZONE_KEY = "windlass-time-zone"; // in the browser's storage; "utc", or missing for the viewer's zone
const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";
let isUtc = storedZone() === "utc";

function storedZone() {
  try {
    return localStorage.getItem(ZONE_KEY);
  } catch {
    return null; // the browser keeps nothing for this site
  }
}

function storeZone() {
  try {
    if (isUtc) localStorage.setItem(ZONE_KEY, "utc");
    else localStorage.removeItem(ZONE_KEY);
  } catch {
    // The choice then lasts as long as the page.
  }
}

// The date and time in the chosen zone, as YYYY-MM-DDTHH:MM:SS
const inZone = (at) => new Date(isUtc ? at : at - at.getTimezoneOffset() * 60000).toISOString();
export const clock = (at) => inZone(at).slice(11, 16);
const dateTime = (at) => inZone(at).slice(0, 19).replace("T", " ");

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

function showZone() {
  for (const name of document.querySelectorAll("[data-zone]")) name.textContent = isUtc ? "UTC" : LOCAL_ZONE;
  for (const button of document.querySelectorAll("[data-zone-switch]")) {
    button.hidden = LOCAL_ZONE === "UTC";
    button.textContent = isUtc ? `Show times in ${LOCAL_ZONE}` : "Show times in UTC";
  }
}

document.addEventListener("click", (event) => {
  if (!event.target.closest?.("[data-zone-switch]")) return;
  isUtc = !isUtc;
  storeZone();
  showZone();
  tick();
});
showZone();

const serverNow = Number(document.documentElement.dataset.now);
if (serverNow) offsetMs = serverNow - Date.now();
tick();
setInterval(() => document.hidden || tick(), 1000);
