/** The server: questions to /invocations, streamed. Addresses are relative, for proxies with a prefix. */
import { key } from "./store.js";

/** What the server refused: its words, and the field that they are about, if any. */
export class Refused extends Error {
  /**
   * @param {number} status HTTP status, 0 in the middle of a stream
   * @param {{error_code?: string, message?: string}} body
   */
  constructor(status, body) {
    super(body.message ?? `The server answered with status ${status}.`);
    this.status = status;
    this.code = body.error_code ?? "";
    /** Such as "temperature" for 'custom_inputs.temperature'. */
    this.field = /'(?:custom_inputs\.)?(\w+)[^']*'/.exec(this.message)?.[1];
  }
}

/**
 * Ask, and hand over the answer's chunks as they come.
 * @param {object} body a ChatAgent request
 * @param {AbortSignal} signal ends the request, and the server then ends it in the engine
 */
export async function* ask(body, signal) {
  const headers = { "Content-Type": "application/json" };
  if (key()) headers["Authorization"] = `Bearer ${key()}`;
  const sent = JSON.stringify({ ...body, stream: true });
  const answer = await fetch("invocations", { method: "POST", headers, body: sent, signal });
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  for await (const data of events(answer.body)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(0, chunk.error);
    yield chunk;
  }
  throw new Error("The connection broke before the answer was complete.");
}

/**
 * The data of server-sent events, one line each as this server writes them.
 * @param {ReadableStream<Uint8Array>} body
 */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line.startsWith("data: ")) yield line.slice(6).trim();
  }
}
