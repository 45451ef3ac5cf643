/** From what was typed to a ChatAgent request. Ranges are the server's to judge. */
import { byId } from "./dom.js";
import { Refused } from "./api.js";

const NUMBERS = ["temperature", "top_p", "max_tokens", "seed"];
/** Ids of all fields, for keeping them. */
export const FIELDS = [...NUMBERS, "system", "stop-strings"];

/**
 * @param {import("./store.js").Message[]} messages
 * @returns {object} the body of a request
 */
export function build(messages) {
  const system = byId("system").value.trim();
  const turns = messages.map(({ role, content }) => ({ role, content }));
  const body = { messages: system ? [{ role: "system", content: system }, ...turns] : turns };
  const inputs = {};
  for (const name of NUMBERS) {
    const typed = byId(name).value.trim();
    if (!typed) continue;
    inputs[name] = Number(typed);
    if (Number.isNaN(inputs[name])) throw new Refused(400, { message: `'${name}' should be a number.` });
  }
  const stop = byId("stop-strings").value.split("\n").filter(Boolean);
  if (stop.length) inputs.stop = stop;
  return Object.keys(inputs).length ? { ...body, custom_inputs: inputs } : body;
}
