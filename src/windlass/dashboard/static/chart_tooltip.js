// Shows the numbers of a chart at the pointer or finger as a tooltip.
import { clock, span } from "./clocks.js";

const short = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
let tooltip = null;

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
  tooltip?.remove();
  tooltip = null;
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
  tooltip = document.createElement("div");
  tooltip.className = "tooltip";
  const head = document.createElement("div");
  head.className = "tooltip-time";
  head.textContent = clock(new Date(times[at]));
  tooltip.append(head, ...series.map(({ name, kind, values }) => line(name, kind, values[at], unit)));
  const rule = document.createElement("span");
  rule.className = "tooltip-rule";
  const plot = chart.parentElement;
  const x = box.width * (left + ((right - left) * at) / Math.max(1, times.length - 1));
  rule.style.left = `${x}px`;
  tooltip.append(rule);
  plot.append(tooltip);
  const fitsRight = box.width - x - 14 > tooltip.offsetWidth;
  tooltip.style.left = `${fitsRight ? x + 12 : x - 12 - tooltip.offsetWidth}px`;
  rule.style.left = `${x - tooltip.offsetLeft}px`;
}

document.addEventListener("pointermove", show);
document.addEventListener("pointerdown", show);
document.addEventListener("pointerleave", hide);
