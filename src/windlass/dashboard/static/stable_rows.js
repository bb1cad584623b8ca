// Keeps the rows of a list in place while the page is live: rows change in place, rows of jobs that left the list fade,
// and new rows are counted until the user requests them. Rows after the last one are appended.

function showNewCount(number) {
  const link = document.querySelector("[data-new-rows]");
  if (!link) return;
  link.querySelector("[data-new-count]").textContent = number.toLocaleString();
  link.hidden = number === 0;
}

// Returns false if no present row is in the new list: the caller may then replace the whole list.
export function updateStableRows(body, wanted, morph) {
  const rows = [...body.children];
  const next = new Map([...wanted.children].map((row) => [row.dataset.key, row]));
  if (!rows.some((row) => next.has(row.dataset.key))) {
    showNewCount(0);
    return false;
  }
  for (const row of rows) {
    const now = next.get(row.dataset.key);
    if (now) morph(row, now);
    else row.classList.add("is-gone");
  }
  const known = new Set(rows.map((row) => row.dataset.key));
  const last = [...next.keys()].findLastIndex((key) => known.has(key));
  const appended = [...next.values()].slice(last + 1);
  let room = Number(body.dataset.stableRows) - body.children.length;
  let added = 0;
  for (const row of appended) {
    if (room-- <= 0) break;
    body.append(document.importNode(row, true));
    added++;
  }
  showNewCount([...next.keys()].filter((key) => !known.has(key)).length - added);
  return true;
}
