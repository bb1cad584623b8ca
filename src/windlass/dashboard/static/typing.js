// JSON is looked at while it is typed, and before it is sent. The text goes as it is: a browser's numbers would not be
// exact.

const SAID = "JSON. Numbers stay as they are typed.";

function trouble(field) {
  if (!field.value.trim()) return "";
  try {
    JSON.parse(field.value);
    return "";
  } catch (error) {
    return `Not JSON yet: ${error.message}`;
  }
}

function look(field) {
  const found = trouble(field);
  field.setAttribute("aria-invalid", String(found !== ""));
  const place = field.parentElement.querySelector("[data-json-said]");
  place.textContent = found || SAID;
  place.classList.toggle("bad", found !== "");
  return found === "";
}

let timer = 0;
document.addEventListener("input", (event) => {
  if (!event.target.matches?.("textarea[data-json]")) return;
  clearTimeout(timer);
  timer = setTimeout(() => look(event.target), 250);
});

document.addEventListener("submit", (event) => {
  const field = event.target.querySelector("textarea[data-json]");
  if (!field || look(field)) return;
  event.preventDefault();
  field.focus();
});
