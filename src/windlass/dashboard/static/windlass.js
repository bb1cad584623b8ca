// Scripts of the pages. Everything works without them, with less comfort.
import "./clocks.js";
import "./confirm.js";
import "./selection.js";
import "./keyboard.js";
import "./palette.js";
import "./json_field.js";
import "./clipboard.js";
import "./flow_graph.js";
import "./schedule_form.js";
import "./live.js";
import "./log_follow.js";
import "./chart_tooltip.js";
