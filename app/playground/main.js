/** The page: what happens when someone types, sends, stops or comes back. */
import { ask, Refused } from "./api.js";
import { FORMS } from "./copy.js";
import { byId, make } from "./dom.js";
import { draw } from "./markdown.js";
import { watch } from "./readiness.js";
import { build, FIELDS } from "./request.js";
import * as store from "./store.js";

/** @type {import("./store.js").Message[]} */
let messages = store.loadConversation();
/** @type {AbortController | null} */
let running = null;

/**
 * @param {import("./store.js").Message} message
 * @returns {{card: HTMLElement, update: () => void}}
 */
function show(message) {
  const body = make("div", {});
  const card = make("article", { class: `message ${message.role}` });
  const who = message.role === "user" ? "You" : "Model";
  card.append(make("div", { class: "who" }, who), body);
  byId("messages").append(card);
  const update = () => {
    const log = byId("messages");
    const atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    body.replaceChildren(...draw(message.content));
    if (message.reasoning) {
      const reasoning = make("details", {}, make("summary", {}, "Reasoning"), ...draw(message.reasoning));
      body.prepend(reasoning);
    }
    if (message.figures) body.append(make("div", { class: "figures" }, message.figures));
    if (atEnd) log.scrollTop = log.scrollHeight;
  };
  update();
  return { card, update };
}

async function send() {
  const text = byId("draft").value.trim();
  if (running || !text) return;
  tell(null);
  const asked = [...messages, { role: "user", content: text }];
  const before = messages;
  const answer = { role: "assistant", content: "" };
  let shown = null;
  let question = null;
  try {
    const body = build(asked);
    running = new AbortController();
    busy(true);
    question = show(asked[asked.length - 1]);
    shown = show(answer);
    byId("draft").value = "";
    await receive(body, answer, shown.update);
  } catch (error) {
    if (!running?.signal.aborted) tell(error);
    else answer.figures = `${answer.figures ?? ""} (stopped)`.trim();
  }
  if (messages !== before) {
    // A new conversation has begun meanwhile.
    question?.card.remove();
    shown?.card.remove();
  } else if (answer.content) {
    messages = [...asked, answer];
    store.saveConversation(messages);
    shown.update();
  } else {
    // Nothing was answered: the question goes back to where it can be sent again.
    question?.card.remove();
    shown?.card.remove();
    byId("draft").value = text;
  }
  running = null;
  busy(false);
}

/**
 * @param {object} body
 * @param {import("./store.js").Message} answer gets the text
 * @param {() => void} update draws it
 */
async function receive(body, answer, update) {
  const start = performance.now();
  let first = 0;
  let drawing = 0;
  const redraw = () => (drawing ||= requestAnimationFrame(() => ((drawing = 0), update())));
  for await (const chunk of ask(body, running.signal)) {
    first ||= performance.now();
    answer.content += chunk.delta?.content ?? "";
    answer.reasoning = chunk.custom_outputs?.reasoning_content ?? answer.reasoning;
    answer.figures = figures(start, first, chunk.usage?.completion_tokens);
    byId("figures").textContent = answer.figures;
    redraw();
  }
}

/**
 * @param {number} start ms
 * @param {number} first ms, when the first text came
 * @param {number} [tokens] of the whole answer; known at its end only
 */
function figures(start, first, tokens) {
  const shown = [`first text after ${((first - start) / 1000).toFixed(2)} s`];
  if (tokens) {
    shown.push(`${tokens} tokens`);
    const seconds = (performance.now() - first) / 1000;
    if (tokens > 1 && seconds > 0) shown.push(`${((tokens - 1) / seconds).toFixed(1)} tokens/s`);
  }
  return shown.join(" · ");
}

/** Show the request that would be sent now, or was sent last, and put it into the clipboard. */
async function copy() {
  const typed = byId("draft").value.trim();
  const last = messages.findLastIndex(({ role }) => role === "user");
  const asked = typed || last < 0 ? [...messages, { role: "user", content: typed || "Hello" }] : messages.slice(0, last + 1);
  const address = new URL(".", location.href).href.replace(/\/$/, "");
  try {
    byId("copied").textContent = FORMS[byId("form").value](build(asked), address);
    byId("copied").hidden = false;
    await navigator.clipboard?.writeText(byId("copied").textContent);
  } catch (error) {
    // Where the browser gives no clipboard away, the text is there to be selected.
    if (error instanceof Refused) tell(error);
  }
}

/** @param {boolean} yes */
function busy(yes) {
  byId("send").disabled = yes;
  byId("stop").hidden = !yes;
  byId("messages").setAttribute("aria-busy", String(yes));
}

/** @param {unknown} error to be shown, or null for none any more */
function tell(error) {
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  byId("error").hidden = !error;
  byId("error").textContent = error ? /** @type {Error} */ (error).message : "";
  if (!(error instanceof Refused)) return;
  if (error.status === 401) {
    byId("key-form").hidden = false;
    byId("key").focus();
    return;
  }
  const id = error.field === "stop" ? "stop-strings" : error.field;
  if (!id || !FIELDS.includes(id)) return;
  byId("parameters").open = true;
  byId(id).setAttribute("aria-invalid", "true");
  byId(id).focus();
}

byId("ask").addEventListener("submit", (event) => (event.preventDefault(), send()));
byId("stop").addEventListener("click", () => running?.abort());
byId("draft").addEventListener("keydown", (event) => {
  // While an input method is composing, Enter chooses characters.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.keyCode === 229) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => event.key === "Escape" && running?.abort());
byId("new").addEventListener("click", () => {
  running?.abort();
  messages = [];
  store.saveConversation(messages);
  byId("messages").replaceChildren();
  byId("draft").focus();
});
byId("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  store.keepKey(byId("key").value.trim());
  byId("key").value = "";
  byId("key-form").hidden = true;
  send();
});
byId("form").append(...Object.keys(FORMS).map((name) => make("option", {}, name)));
byId("copy").addEventListener("click", copy);
for (const [id, value] of Object.entries(store.loadFields())) if (FIELDS.includes(id)) byId(id).value = value;
byId("parameters").addEventListener("input", () =>
  store.saveFields(Object.fromEntries(FIELDS.map((id) => [id, byId(id).value]))),
);
messages.forEach(show);
watch();
