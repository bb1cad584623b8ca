// Updates an element to match another, and keeps the state of the user: focus, open details, ticked boxes, typed text.
import { updateStableRows } from "./stable_rows.js";

// The id is read as an attribute: the property `id` of a form is its field of that name, if it has one.
const keyOf = (node) =>
  node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.getAttribute("id") || "" : "";

const isSame = (node, other) =>
  node.nodeType === other.nodeType && node.nodeName === other.nodeName && keyOf(node) === keyOf(other);

// Attributes that the user may have changed are kept.
const belongsToUser = (element, attribute) =>
  (attribute === "open" && /^(DETAILS|DIALOG)$/.test(element.nodeName)) ||
  (attribute === "checked" && element.nodeName === "INPUT") ||
  (attribute === "value" && element.nodeName === "INPUT" && element.type !== "hidden") ||
  (attribute === "selected" && element.nodeName === "OPTION") ||
  (attribute === "hidden" && "keepsHidden" in element.dataset);

function morphAttributes(element, wanted) {
  for (const { name } of [...element.attributes]) {
    if (!wanted.hasAttribute(name) && !belongsToUser(element, name)) element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (element.getAttribute(name) !== value && !belongsToUser(element, name)) element.setAttribute(name, value);
  }
}

function morphChildren(element, wanted) {
  const keyed = new Map();
  for (const child of element.childNodes) if (keyOf(child)) keyed.set(keyOf(child), child);
  let here = element.firstChild;
  for (const next of [...wanted.childNodes]) {
    const known = keyOf(next) ? keyed.get(keyOf(next)) : null;
    if (known && isSame(known, next)) {
      if (known === here) here = here.nextSibling;
      else element.insertBefore(known, here);
      morph(known, next);
    } else if (here && !keyOf(here) && isSame(here, next)) {
      const after = here.nextSibling;
      morph(here, next);
      here = after;
    } else {
      element.insertBefore(document.importNode(next, true), here);
    }
  }
  while (here) {
    const after = here.nextSibling;
    here.remove();
    here = after;
  }
}

export function morph(node, wanted) {
  if (node.isEqualNode(wanted)) return;
  if (node.nodeType !== Node.ELEMENT_NODE) {
    if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
    return;
  }
  if (node.nodeName === "TEXTAREA" || "keep" in node.dataset) return;
  morphAttributes(node, wanted);
  if ("stableRows" in node.dataset && updateStableRows(node, wanted, morph)) return;
  morphChildren(node, wanted);
}
