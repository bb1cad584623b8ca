// Keeps the end of a job's log in view while lines arrive, unless the reader has scrolled away from it. It never animates.
const NEAR_PX = 24; // from the end; about a line

const list = () => document.getElementById("log-lines");
const button = () => document.querySelector("[data-log-end]");
const isNearEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_PX;

let follows = false;

function update() {
  const log = list();
  if (!log) return;
  if (follows) log.scrollTop = log.scrollHeight;
  button().hidden = follows || isNearEnd(log);
}

function readPosition(log) {
  follows = isNearEnd(log);
  button().hidden = follows;
}

if (list()) {
  follows = "followsEnd" in list().dataset; // the job has not ended
  update();
  // The event does not bubble. Only the reader changes the position here: new lines do not, and `update` keeps the end.
  document.addEventListener("scroll", (event) => event.target === list() && readPosition(list()), true);
  document.addEventListener("windlass:live", update);
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[data-log-end]")) return;
    follows = true;
    list().focus({ preventScroll: true }); // before the button is hidden
    update();
  });
}
