// Theme of this browser: light, dark, or that of the system. A classic script in the head, so that it runs before the first
// paint: the page is never shown in the other theme.
(() => {
  const KEY = "windlass-theme";
  const THEMES = ["light", "dark"];

  function stored() {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // the browser keeps nothing for this page
    }
  }

  function apply(theme) {
    if (THEMES.includes(theme)) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    const current = document.documentElement.dataset.theme ?? "system";
    for (const button of document.querySelectorAll("[data-theme-choice]"))
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === current));
  }

  function choose(theme) {
    try {
      if (THEMES.includes(theme)) localStorage.setItem(KEY, theme);
      else localStorage.removeItem(KEY);
    } catch {
      // this page changes, the next one does not
    }
    apply(theme);
  }

  apply(stored());
  addEventListener("storage", (event) => event.key === KEY && apply(event.newValue)); // other tabs
  document.addEventListener("DOMContentLoaded", () => {
    for (const control of document.querySelectorAll("[data-theme-switch]")) control.hidden = false;
    apply(stored());
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-theme-choice]");
    if (button) choose(button.dataset.themeChoice);
  });
})();
