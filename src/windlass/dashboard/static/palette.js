// Command palette (Ctrl+K, ⌘K, or its button): a dialog with a combobox. The server finds the entries (/palette?q=). An
// entry opens a page or sends a form of the dashboard; forms that need a confirmation are answered with its page.

const dialog = document.getElementById("palette");
const SVG = "http://www.w3.org/2000/svg";
const PAUSE_MS = 120; // after a key stroke, before the server is asked

if (dialog) {
  const input = dialog.querySelector("#palette-input");
  const list = dialog.querySelector("#palette-list");
  const status = dialog.querySelector("[data-palette-status]");
  const form = dialog.querySelector("[data-palette-form]");
  let entries = [];
  let at = 0;
  let timer = 0;
  let request = null; // under way
  let isEnterWaiting = false; // Enter was pressed before the entries came

  const base = document.documentElement.dataset.base;

  function icon(outline) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", "0 0 16 16");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    svg.append(document.createElementNS(SVG, "path"));
    svg.firstChild.setAttribute("d", outline);
    return svg;
  }

  function text(name, content) {
    const element = document.createElement("span");
    element.className = name;
    element.textContent = content;
    return element;
  }

  function option(entry, number) {
    const item = document.createElement("li");
    item.id = `palette-${number}`;
    item.setAttribute("role", "option");
    item.append(icon(entry.outline), text("palette-title", entry.title));
    if (entry.note) item.append(text("palette-note", entry.note));
    item.append(text("palette-kind", entry.kind));
    item.addEventListener("click", (event) => open(number, event.ctrlKey || event.metaKey));
    item.addEventListener("pointermove", () => mark(number));
    return item;
  }

  function mark(number) {
    at = number;
    [...list.children].forEach((item, index) => item.setAttribute("aria-selected", String(index === at)));
    const marked = list.children[at];
    if (marked) input.setAttribute("aria-activedescendant", marked.id);
    else input.removeAttribute("aria-activedescendant");
    marked?.scrollIntoView({ block: "nearest" });
  }

  function render(found) {
    entries = found;
    list.replaceChildren(...found.map(option));
    list.scrollTop = 0;
    mark(0);
    status.textContent = found.length === 1 ? "1 result" : `${found.length} results`;
  }

  function open(number, isNewTab = false) {
    const entry = entries[number];
    if (!entry) return;
    if (entry.href && isNewTab) return window.open(entry.href, "_blank", "noopener");
    if (entry.href) return location.assign(entry.href);
    form.action = entry.action;
    for (const field of form.querySelectorAll("[data-palette-sent]")) field.remove();
    for (const [name, value] of Object.entries(entry.fields)) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name, value });
      field.dataset.paletteSent = "";
      form.append(field);
    }
    form.requestSubmit();
  }

  async function ask() {
    request?.abort();
    const mine = (request = new AbortController());
    try {
      const answer = await fetch(`${base}/palette?${new URLSearchParams({ q: input.value })}`, { signal: mine.signal });
      if (answer.status === 401) return location.reload(); // the session has ended
      if (!answer.ok) throw new Error(String(answer.status));
      const found = (await answer.json()).entries;
      if (mine.signal.aborted) return;
      request = null;
      render(found);
      if (isEnterWaiting && found[0]?.href) open(0); // a form is not sent before it was seen
      isEnterWaiting = false;
    } catch (error) {
      if (mine.signal.aborted) return;
      request = null;
      render([]);
      status.textContent = "The search has failed. Type again.";
    }
  }

  function toggle() {
    if (dialog.open) return dialog.close();
    if (document.querySelector("dialog[open]")) return;
    input.value = "";
    isEnterWaiting = false;
    render([]);
    status.textContent = "";
    dialog.showModal(); // keeps the focus inside, and gives it back when it closes
    input.focus();
    ask();
  }

  const KEYS = {
    ArrowDown: () => entries.length && mark((at + 1) % entries.length),
    ArrowUp: () => entries.length && mark((at - 1 + entries.length) % entries.length),
    Enter: (event) => {
      if (timer || request) isEnterWaiting = true;
      else open(at, event.ctrlKey || event.metaKey);
    },
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    request?.abort();
    request = null;
    isEnterWaiting = false;
    timer = setTimeout(() => {
      timer = 0;
      ask();
    }, PAUSE_MS);
  });
  input.addEventListener("keydown", (event) => {
    if (!KEYS[event.key] || event.isComposing) return;
    event.preventDefault();
    KEYS[event.key](event);
  });
  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    timer = 0;
    request?.abort();
    request = null;
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog || event.target.closest("[data-palette-close]")) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    toggle();
  });
  for (const button of document.querySelectorAll("[data-palette]")) {
    button.hidden = false;
    if (/Mac|iPhone|iPad/.test(navigator.platform)) button.querySelector("kbd").textContent = "⌘ K";
    button.addEventListener("click", toggle);
  }
}
