// Keyboard shortcuts: / searches, j and k move between rows, Enter opens, x selects, g and a letter go to a page, ? shows
// the list of shortcuts.

const help = document.getElementById("help");
let prefixAt = 0; // when g was pressed

const rows = () => [...document.querySelectorAll("[data-rows] tbody tr")].filter((row) => row.querySelector("a"));
const isTyping = (target) => target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

function step(by) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + by))];
  next.querySelector("a").focus();
  next.scrollIntoView({ block: "nearest" });
}

function go(key) {
  const link = document.querySelector(`a[data-go="${CSS.escape(key)}"]`);
  if (link) location.href = link.href;
}

const KEYS = {
  "/": () => {
    const field = document.querySelector("main [data-search]") ?? document.querySelector("[data-search]");
    if (field) field.focus(), field.select?.();
    else go("j");
  },
  j: () => step(1),
  k: () => step(-1),
  x: () => document.activeElement.closest("tr")?.querySelector("input[data-row-box]")?.click(),
  g: () => (prefixAt = Date.now()),
  "?": () => help.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && isTyping(event.target) && !event.target.closest("dialog")) return event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (Date.now() - prefixAt < 1500 && event.key !== "g") {
    prefixAt = 0;
    event.preventDefault();
    return go(event.key);
  }
  if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

for (const button of document.querySelectorAll("[data-help]")) {
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}
