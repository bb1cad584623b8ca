// What pages do beyond showing. Everything works without it, only less comfortably.
import "./clocks.js";
import "./confirm.js";
import "./select.js";
import "./keys.js";
import "./typing.js";
import "./copying.js";
import "./live.js";
import "./plots.js";
