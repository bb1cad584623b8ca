// Rows of a list stay where they are while somebody looks at them: they change in place, those that have left the list
// fade, and new ones are counted until they are asked for. What would only stand behind the last row is added.

function tell(number) {
  const place = document.querySelector("[data-fresh]");
  if (!place) return;
  place.querySelector("[data-fresh-count]").textContent = number.toLocaleString();
  place.hidden = number === 0;
}

// False: there is nothing to keep in its place, and all of it may change.
export function settle(body, wanted, morph) {
  const rows = [...body.children];
  const next = new Map([...wanted.children].map((row) => [row.dataset.key, row]));
  if (!rows.some((row) => next.has(row.dataset.key))) {
    tell(0);
    return false;
  }
  for (const row of rows) {
    const now = next.get(row.dataset.key);
    if (now) morph(row, now);
    else row.classList.add("is-gone");
  }
  const known = new Set(rows.map((row) => row.dataset.key));
  const last = [...next.keys()].findLastIndex((key) => known.has(key));
  const behind = [...next.values()].slice(last + 1);
  let room = Number(body.dataset.steady) - body.children.length;
  let added = 0;
  for (const row of behind) {
    if (room-- <= 0) break;
    body.append(document.importNode(row, true));
    added++;
  }
  tell([...next.keys()].filter((key) => !known.has(key)).length - added);
  return true;
}
