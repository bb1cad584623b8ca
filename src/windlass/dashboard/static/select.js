// Rows are chosen by their boxes: all of a page at once, from one to another with Shift, and it is said how many.

const boxes = () => [...document.querySelectorAll("input[data-row-box]")];
let last = null;

export function show() {
  const chosen = boxes().filter((box) => box.checked).length;
  for (const place of document.querySelectorAll("[data-chosen]")) place.textContent = chosen.toLocaleString();
  for (const bar of document.querySelectorAll("[data-when-chosen]")) bar.hidden = chosen === 0;
  const all = document.querySelector("input[data-all-boxes]");
  if (all) {
    all.checked = chosen > 0 && chosen === boxes().length;
    all.indeterminate = chosen > 0 && !all.checked;
  }
}

document.addEventListener("click", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement)) return;
  if ("allBoxes" in box.dataset) boxes().forEach((one) => (one.checked = box.checked));
  if ("rowBox" in box.dataset) {
    const all = boxes();
    if (event.shiftKey && last?.isConnected) {
      const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
      all.slice(from, to + 1).forEach((one) => (one.checked = box.checked));
    }
    last = box;
  }
  show();
});
document.addEventListener("windlass:live", show);
addEventListener("pageshow", show);
show();
