/** Elements, made so that text stays text: nothing here, or that uses this, parses HTML. */

/**
 * @param {string} name of the element
 * @param {Record<string, string>} attributes
 * @param {...(Node | string)} children strings become text nodes
 * @returns {HTMLElement}
 */
export function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

/**
 * @param {string} id of an element that the page has
 * @returns {any} it
 */
export const byId = (id) => document.getElementById(id);
