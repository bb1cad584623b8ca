// Tells the numbers of a chart under the pointer or the finger.
import { clock, span } from "./clocks.js";

const short = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
let told = null;

function line(name, kind, value, unit) {
  const row = document.createElement("div");
  row.className = `legend-${kind}`;
  const mark = document.createElement("i");
  const label = document.createElement("span");
  label.textContent = name;
  const figure = document.createElement("b");
  figure.textContent = value === null ? "–" : unit === "ms" ? span(value, true) : short.format(value);
  row.append(mark, label, figure);
  return row;
}

function hide() {
  told?.remove();
  told = null;
}

function show(event) {
  const chart = event.target.closest?.("svg[data-chart]");
  if (!chart) return hide();
  const { times, unit, left, right, series } = JSON.parse(chart.dataset.chart);
  const box = chart.getBoundingClientRect();
  const share = ((event.clientX - box.left) / box.width - left) / (right - left);
  const at = Math.round(share * (times.length - 1));
  if (at < 0 || at >= times.length) return hide();
  hide();
  told = document.createElement("div");
  told.className = "told";
  const head = document.createElement("div");
  head.className = "told-time";
  head.textContent = clock(new Date(times[at]));
  told.append(head, ...series.map((one) => line(one.name, one.kind, one.values[at], unit)));
  const rule = document.createElement("span");
  rule.className = "told-rule";
  const plot = chart.parentElement;
  const x = box.width * (left + ((right - left) * at) / Math.max(1, times.length - 1));
  rule.style.left = `${x}px`;
  told.append(rule);
  plot.append(told);
  const room = box.width - x - 14 > told.offsetWidth;
  told.style.left = `${room ? x + 12 : x - 12 - told.offsetWidth}px`;
  rule.style.left = `${x - told.offsetLeft}px`;
}

document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("pointerleave", hide);
