// Keeps the marked regions of a page current. One stream says that something has happened; the page is then asked for
// again, and its regions are changed in place. Nothing is asked while nobody looks, or nothing happens. A region names
// its topics in data-live: jobs (what happens to them), changes (what somebody configured), minute (it shows time that
// passes), tick (every five seconds: what is told by no event, such as the beats of workers).
import { tick } from "./clocks.js";
import { morph } from "./morph.js";

const APART_MS = 900; // between two looks, at least
const APART_MOST_MS = 4000; // however slow the server is
const TICK_MS = 5000;
const SILENCE_MS = 15000; // of the stream, which says every five seconds that it is there
const SETTLED_MS = 600; // until no answer is shown that was remembered from before
const AGAIN_MS = 2000; // when the server or the engine is away
const PATIENCE_MS = 10000;
const ENGINE_AWAY = "The engine is away, trying again…";

const base = document.documentElement.dataset.base;
const banner = document.getElementById("lost");
const regions = () => [...document.querySelectorAll("[data-live]")];
const wants = (topic) => regions().some((region) => region.dataset.live.split(" ").includes(topic));
const queue = document.querySelector("[data-live-queue]")?.dataset.liveQueue ?? "";

let stream = null;
let timer = 0;
let dueAt = Infinity;
let lookedAt = 0;
let tookMs = 0;
let isLooking = false;
let isAway = false;
let isOver = false;
let heardAt = 0;

function say(isLost, text) {
  isAway = isLost;
  if (isLost) banner.querySelector("[data-lost-text]").textContent = text;
  banner.hidden = !isLost;
  document.body.classList.toggle("is-lost", isLost);
}

function plan(inMs) {
  const at = Math.max(Date.now() + inMs, lookedAt + Math.max(APART_MS, Math.min(4 * tookMs, APART_MOST_MS)));
  if (at >= dueAt) return;
  dueAt = at;
  clearTimeout(timer);
  timer = setTimeout(look, at - Date.now());
}

// Whoever has marked text keeps it until they are done.
function isMarked(region) {
  const selection = getSelection();
  return selection && !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(region);
}

function show(text) {
  const wanted = new DOMParser().parseFromString(text, "text/html");
  const focused = document.activeElement;
  for (const region of regions()) {
    const next = wanted.getElementById(region.id);
    if (next && !isMarked(region)) morph(region, next);
  }
  if (focused && focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  tick();
  document.dispatchEvent(new CustomEvent("windlass:live"));
}

async function look() {
  dueAt = Infinity;
  if (document.hidden || isLooking || isOver) return;
  isLooking = true;
  const begin = (lookedAt = Date.now());
  try {
    const answer = await fetch(location.href, {
      headers: { "X-Windlass-Live": "1" },
      cache: "no-store",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (answer.status === 401) return location.reload();
    if (answer.status === 204) return end();
    if (answer.status >= 500) throw new Error("engine");
    const text = await answer.text();
    tookMs = Date.now() - begin;
    if (answer.ok) show(text);
    if (isAway) say(false);
    listen();
  } catch (error) {
    say(true, error.message === "engine" ? ENGINE_AWAY : "Connection lost, trying again…");
    setTimeout(() => plan(0), AGAIN_MS);
  } finally {
    isLooking = false;
  }
}

// What the page is about is gone: it stays as it was seen last.
function end() {
  isOver = true;
  stopListening();
  say(true, "This has ended and is gone: here is how it was seen last.");
  banner.classList.add("lost-quiet");
}

function listen() {
  if (stream || document.hidden || !(wants("jobs") || wants("changes"))) return;
  const opened = (stream = new EventSource(`${base}/live${queue ? `?queue=${encodeURIComponent(queue)}` : ""}`));
  heardAt = Date.now();
  const on = (kind, then) =>
    opened.addEventListener(kind, () => {
      heardAt = Date.now();
      then();
    });
  on("hello", () => plan(SETTLED_MS)); // what happened since the page was made
  on("happened", () => wants("jobs") && plan(0));
  on("changed", () => plan(0));
  on("away", () => {
    say(true, ENGINE_AWAY);
    plan(0); // and again, until it is back
  });
  on("alive", () => {});
  opened.addEventListener("error", () => {
    if (stream !== opened) return;
    stopListening();
    setTimeout(() => plan(0), 300); // whether the server is there is told by the next look
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
    plan(0);
  }
});
addEventListener("pagehide", stopListening);

if (document.querySelector("[data-returns]")) {
  setInterval(async () => {
    if (document.hidden) return;
    const answer = await fetch(location.href, { headers: { "X-Windlass-Live": "1" }, cache: "no-store" }).catch(() => null);
    if (answer && answer.status < 500) location.reload();
  }, AGAIN_MS);
} else if (regions().length) {
  lookedAt = Date.now();
  listen();
  let minute = Math.floor(Date.now() / 60000);
  setInterval(() => {
    if (document.hidden) return;
    const isOther = minute !== (minute = Math.floor(Date.now() / 60000));
    const isSilent = stream && Date.now() - heardAt > SILENCE_MS;
    if (isSilent) stopListening();
    if (isSilent || wants("tick") || (isOther && wants("minute"))) plan(0);
  }, TICK_MS);
}
