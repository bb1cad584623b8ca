// Checks JSON while the user types, and before the form is sent. The text is sent as typed: JavaScript numbers would lose
// digits.

function syntaxError(field) {
  if (!field.value.trim()) return "";
  try {
    JSON.parse(field.value);
    return "";
  } catch (error) {
    return `Not valid JSON: ${error.message}`;
  }
}

function validate(field) {
  const error = syntaxError(field);
  field.setAttribute("aria-invalid", String(error !== ""));
  const note = field.parentElement.querySelector("[data-json-note]");
  note.dataset.usual ??= note.textContent;
  note.textContent = error || note.dataset.usual;
  note.classList.toggle("bad", error !== "");
  return error === "";
}

let timer = 0;
document.addEventListener("input", (event) => {
  if (!event.target.matches?.("textarea[data-json]")) return;
  clearTimeout(timer);
  timer = setTimeout(() => validate(event.target), 250);
});

document.addEventListener("submit", (event) => {
  const field = event.target.querySelector("textarea[data-json]");
  if (!field || validate(field)) return;
  event.preventDefault();
  field.focus();
});
