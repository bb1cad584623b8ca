// Makes one piece of a page equal to another, and keeps what is there: the focus, open details, ticked boxes, typed text.
import { settle } from "./steady.js";

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "");

const isSame = (one, other) =>
  one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

// Set by people: they are not taken back.
const isTheirs = (element, attribute) =>
  (attribute === "open" && /^(DETAILS|DIALOG)$/.test(element.nodeName)) ||
  (attribute === "checked" && element.nodeName === "INPUT") ||
  (attribute === "value" && element.nodeName === "INPUT" && element.type !== "hidden") ||
  (attribute === "selected" && element.nodeName === "OPTION") ||
  (attribute === "hidden" && "keepsHidden" in element.dataset);

function morphAttributes(element, wanted) {
  for (const { name } of [...element.attributes]) {
    if (!wanted.hasAttribute(name) && !isTheirs(element, name)) element.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (element.getAttribute(name) !== value && !isTheirs(element, name)) element.setAttribute(name, value);
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
  if ("steady" in node.dataset && settle(node, wanted, morph)) return;
  morphChildren(node, wanted);
}
