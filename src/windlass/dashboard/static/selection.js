// Selects rows by their boxes: single rows, all rows of a page, or a range with Shift; and shows how many are selected.

const boxes = () => [...document.querySelectorAll("input[data-row-box]")];
let last = null;

export function show() {
  const selected = boxes().filter((box) => box.checked).length;
  for (const element of document.querySelectorAll("[data-selected-count]")) element.textContent = selected.toLocaleString();
  for (const element of document.querySelectorAll("[data-selected-jobs]")) {
    element.textContent = `${selected.toLocaleString()} job${selected === 1 ? "" : "s"}`;
  }
  for (const bar of document.querySelectorAll("[data-when-selected]")) bar.hidden = selected === 0;
  const all = document.querySelector("input[data-all-boxes]");
  if (all) {
    all.checked = selected > 0 && selected === boxes().length;
    all.indeterminate = selected > 0 && !all.checked;
  }
}

document.addEventListener("click", (event) => {
  const box = event.target;
  if (!(box instanceof HTMLInputElement)) return;
  if ("allBoxes" in box.dataset) boxes().forEach((other) => (other.checked = box.checked));
  if ("rowBox" in box.dataset) {
    const all = boxes();
    if (event.shiftKey && last?.isConnected) {
      const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      all.slice(from, to + 1).forEach((other) => (other.checked = box.checked));
    }
    last = box;
  }
  show();
});
document.addEventListener("windlass:live", show);
addEventListener("pageshow", show);
show();
