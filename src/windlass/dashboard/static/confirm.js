// Asks before something is destroyed. Without scripts the server asks, on a page of its own.

const dialog = document.getElementById("confirm");

function question(form, submitter) {
  const text = submitter?.dataset.confirm ?? form.dataset.confirm;
  const chosen = document.querySelectorAll("input[data-row-box]:checked").length;
  return text?.replace("{n}", chosen.toLocaleString());
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  const asked = question(form, event.submitter);
  if (!asked || form.dataset.confirmed) return;
  event.preventDefault();
  const submitter = event.submitter;
  document.getElementById("confirm-question").textContent = asked;
  const yes = dialog.querySelector("[data-confirm-yes]");
  yes.textContent = submitter?.textContent.trim() || submitter?.getAttribute("aria-label") || "Do it";
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
