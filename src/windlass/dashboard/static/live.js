// Keeps regions of a page current. A stream of events announces changes; the page is then requested again, and its
// regions are updated in place. A hidden page, or a page without changes, sends no requests. A region names its topics in
// data-live: jobs (jobs changed), changes (the configuration changed), minute (the region shows passing time), tick (every
// five seconds, for data without events such as heartbeats).
import { tick } from "./clocks.js";
import { morph } from "./morph.js";

const INTERVAL_MIN_MS = 900; // between two requests
const INTERVAL_MAX_MS = 4000; // the interval grows with the response time up to this
const TICK_MS = 5000;
const SILENCE_MS = 15000; // without an event the stream counts as lost; it sends one every five seconds
const SETTLED_MS = 600; // longer than the server caches its data
const RETRY_MS = 2000; // when the server or the engine is unavailable
const TIMEOUT_MS = 10000;
const ENGINE_UNAVAILABLE = "The engine is unavailable, retrying…";

const base = document.documentElement.dataset.base;
const banner = document.getElementById("lost");
const regions = () => [...document.querySelectorAll("[data-live]")];
const wants = (topic) => regions().some((region) => region.dataset.live.split(" ").includes(topic));
const queue = document.querySelector("[data-live-queue]")?.dataset.liveQueue ?? "";

let stream = null;
let timer = 0;
let dueAt = Infinity;
let requestedAt = 0;
let tookMs = 0;
let isRequesting = false;
let isUnavailable = false;
let isOver = "still" in document.documentElement.dataset; // a refused form, at the address of its action
let eventAt = 0;

function setBanner(isLost, text) {
  isUnavailable = isLost;
  if (isLost) banner.querySelector("[data-lost-text]").textContent = text;
  banner.hidden = !isLost;
  document.body.classList.toggle("is-lost", isLost);
}

function scheduleRefresh(inMs) {
  const intervalMs = Math.max(INTERVAL_MIN_MS, Math.min(4 * tookMs, INTERVAL_MAX_MS));
  const at = Math.max(Date.now() + inMs, requestedAt + intervalMs);
  if (at >= dueAt) return;
  dueAt = at;
  clearTimeout(timer);
  timer = setTimeout(refresh, at - Date.now());
}

// A region with selected text is not updated until the selection is gone.
function hasSelection(region) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(region);
}

function show(text) {
  const wanted = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement;
  for (const region of regions()) {
    const next = wanted.getElementById(region.id);
    if (next && !hasSelection(region)) morph(region, next);
  }
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  tick();
  document.dispatchEvent(new CustomEvent("windlass:live"));
}

async function refresh() {
  dueAt = Infinity;
  if (document.hidden || isRequesting || isOver) return;
  isRequesting = true;
  const startedAt = (requestedAt = Date.now());
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Windlass-Live": "1" },
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (answer.status === 401) return location.reload();
    if (answer.status === 204) return end();
    if (answer.status >= 500) throw new Error("engine");
    const text = await answer.text();
    tookMs = Date.now() - startedAt;
    if (answer.ok) show(text);
    if (isUnavailable) setBanner(false);
    listen();
  } catch (error) {
    setBanner(true, error.message === "engine" ? ENGINE_UNAVAILABLE : "Connection lost, retrying…");
    setTimeout(() => scheduleRefresh(0), RETRY_MS);
  } finally {
    isRequesting = false;
  }
}

// The job or flow of the page was removed: the page keeps its last content.
function end() {
  isOver = true;
  stopListening();
  setBanner(true, "This job or flow was removed. The page shows its last state.");
  banner.classList.add("lost-quiet");
}

function listen() {
  if (stream || document.hidden || !(wants("jobs") || wants("changes"))) return;
  const opened = (stream = new EventSource(`${base}/live${queue ? `?queue=${encodeURIComponent(queue)}` : ""}`));
  eventAt = Date.now();
  const on = (kind, then) =>
    opened.addEventListener(kind, () => {
      eventAt = Date.now();
      then();
    });
  on("hello", () => scheduleRefresh(SETTLED_MS)); // for changes since the page was rendered
  on("happened", () => wants("jobs") && scheduleRefresh(0));
  on("changed", () => scheduleRefresh(0));
  on("away", () => {
    setBanner(true, ENGINE_UNAVAILABLE);
    scheduleRefresh(0); // repeats until the engine is back
  });
  on("alive", () => {});
  opened.addEventListener("error", () => {
    if (stream !== opened) return;
    stopListening();
    setTimeout(() => scheduleRefresh(0), 300); // the next request shows whether the server is reachable
  });
}

function stopListening() {
  stream?.close();
  stream = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    stopListening();
  } else {
    scheduleRefresh(0);
  }
});
addEventListener("pagehide", stopListening);

if (document.querySelector("[data-returns]")) {
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { headers: { "X-Windlass-Live": "1" }, cache: "no-store" }).catch(() => null);
    if (answer && answer.status < 500) location.reload();
  }, RETRY_MS);
} else if (regions().length && !isOver) {
  requestedAt = Date.now();
  listen();
  let minute = Math.floor(Date.now() / 60000);
  setInterval(() => {
    if (document.hidden) return;
    const isNewMinute = minute !== (minute = Math.floor(Date.now() / 60000));
    const isSilent = stream && Date.now() - eventAt > SILENCE_MS;
    if (isSilent) stopListening();
    if (isSilent || wants("tick") || (isNewMinute && wants("minute"))) scheduleRefresh(0);
  }, TICK_MS);
}
