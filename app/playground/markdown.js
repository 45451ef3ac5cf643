/**
 * The Markdown that models write, as elements: headings, lists, code, bold, italic.
 *
 * Links and images stay the text that they are: whoever can talk a model into writing one would
 * otherwise choose where a click leads.
 */
import { make } from "./dom.js";

const INLINE = /(`[^`\n]+`)|(\*\*[^*\n]+\*\*)|(\*[^*\s][^*\n]*\*)/g;

/**
 * @param {string} text
 * @returns {HTMLElement[]} its blocks
 */
export function draw(text) {
  /** @type {HTMLElement[]} */
  const blocks = [];
  const lines = text.split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i];
    const fence = /^\s*(```+|~~~+)/.exec(line);
    if (fence) {
      const code = [];
      for (i++; i < lines.length && !lines[i].trim().startsWith(fence[1]); i++) code.push(lines[i]);
      i++; // the closing fence; while an answer is still being written there may be none
      blocks.push(make("pre", { tabindex: "0" }, make("code", {}, code.join("\n"))));
      continue;
    }
    const heading = /^(#{1,6})\s+(.*)$/.exec(line);
    if (heading) {
      blocks.push(make("p", {}, make("strong", {}, ...inline(heading[2]))));
      i++;
      continue;
    }
    const item = /^\s*([-*+]|\d+[.)])\s+/.exec(line);
    if (item) {
      const ordered = /\d/.test(item[1]);
      const list = make(ordered ? "ol" : "ul", ordered ? { start: String(parseInt(item[1])) } : {});
      const same = ordered ? /^\s*\d+[.)]\s+(.*)$/ : /^\s*[-*+]\s+(.*)$/;
      for (let found; i < lines.length && (found = same.exec(lines[i])); i++) {
        list.append(make("li", {}, ...inline(found[1])));
      }
      blocks.push(list);
      continue;
    }
    const paragraph = [line];
    for (i++; i < lines.length && lines[i].trim() && !begins(lines[i]); i++) paragraph.push(lines[i]);
    if (paragraph.join("").trim()) blocks.push(make("p", {}, ...inline(paragraph.join("\n"))));
  }
  return blocks;
}

/** @param {string} line */
const begins = (line) => /^\s*(```|~~~|[-*+]\s|\d+[.)]\s)|^#{1,6}\s/.test(line);

/**
 * @param {string} text
 * @returns {(Node | string)[]}
 */
function inline(text) {
  const parts = [];
  let end = 0;
  for (const found of text.matchAll(INLINE)) {
    parts.push(text.slice(end, found.index));
    const [whole, code, bold] = found;
    if (code) parts.push(make("code", {}, whole.slice(1, -1)));
    else if (bold) parts.push(make("strong", {}, whole.slice(2, -2)));
    else parts.push(make("em", {}, whole.slice(1, -1)));
    end = found.index + whole.length;
  }
  parts.push(text.slice(end));
  return parts;
}
