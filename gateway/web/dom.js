// Finds and creates elements. Text becomes text nodes: HTML is never parsed.
export const at = id => document.getElementById(id);

// make("button", {class: "plain", onclick: f, "aria-label": "Stop"}, "text", element, ...)
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.filter(c => c != null));
  return element;
}

// Writes only changes, so that screen readers, selections and the layout are not disturbed.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export const button = (words, onclick, more = {}) => make("button", {type: "button", onclick, ...more}, words);
