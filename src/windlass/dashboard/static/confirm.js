// Asks for confirmation before a destructive action. Without scripts, the server shows a confirmation page instead.

const dialog = document.getElementById("confirm");

function question(form, submitter) {
  const text = submitter?.dataset.confirm ?? form.dataset.confirm;
  const selected = document.querySelectorAll("input[data-row-box]:checked").length;
  return text?.replace("{n}", selected.toLocaleString());
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const text = question(form, event.submitter);
  if (!text || form.dataset.confirmed) return;
  event.preventDefault();
  const submitter = event.submitter;
  document.getElementById("confirm-question").textContent = text;
  const yes = dialog.querySelector("[data-confirm-yes]");
  yes.textContent = submitter?.textContent.trim() || submitter?.getAttribute("aria-label") || "Confirm";
  dialog.returnValue = "no";
  dialog.showModal();
  dialog.addEventListener(
    "close",
    () => {
      if (dialog.returnValue !== "yes") return submitter?.focus();
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "confirmed", value: "1" });
      form.append(field);
      form.dataset.confirmed = "1";
      form.requestSubmit(submitter);
    },
    { once: true },
  );
});
