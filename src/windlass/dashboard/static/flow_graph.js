// Scrolls a large graph so that its first failed or running step is visible.

const WANTED = [".box-failed.is-cause", ".box-running", ".box-cancelled.is-cause", ".box-queued"];

for (const area of document.querySelectorAll(".flow-scroll")) {
  const box = WANTED.map((kind) => area.querySelector(kind)).find(Boolean);
  if (!box) continue;
  const [outer, inner] = [area.getBoundingClientRect(), box.getBoundingClientRect()];
  if (inner.right > outer.right) area.scrollLeft += inner.left - outer.left - outer.width / 2 + inner.width / 2;
  if (inner.bottom > outer.bottom) area.scrollTop += inner.top - outer.top - outer.height / 2 + inner.height / 2;
}
