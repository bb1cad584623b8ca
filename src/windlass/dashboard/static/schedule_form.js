// Shows the next occurrences of a schedule while its rule is typed. The server computes them.
const FIELDS = ["rule", "cron", "timezone", "every", "repeat", "starts", "ends"];
const PAUSE_MS = 300;

const form = document.querySelector("form[data-schedule-preview]");
let timer = 0;
let latest = 0; // an answer that arrives after that of a later request is dropped

async function refresh() {
  const number = ++latest;
  const values = new FormData(form);
  const query = new URLSearchParams(FIELDS.map((name) => [name, values.get(name) ?? ""]));
  const answer = await fetch(`${form.dataset.schedulePreview}?${query}`, { cache: "no-store" }).catch(() => null);
  if (!answer?.ok || number !== latest) return;
  const shown = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (number === latest) document.getElementById("preview").replaceChildren(...shown.body.childNodes);
}

form?.addEventListener("input", (event) => {
  if (!FIELDS.includes(event.target.name)) return;
  clearTimeout(timer);
  timer = setTimeout(refresh, PAUSE_MS);
});
