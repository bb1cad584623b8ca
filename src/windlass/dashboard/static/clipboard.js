// Copies ids by a button, if the browser allows it.

const FEEDBACK_MS = 1500;

function showButtons() {
  if (!navigator.clipboard) return;
  for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.classList.add("is-done");
  setTimeout(() => button.classList.remove("is-done"), FEEDBACK_MS);
});
showButtons();
