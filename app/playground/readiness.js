/** How far the engine is, asked again and again: often while it loads, seldom afterwards. */
import { byId } from "./dom.js";

/** Begin to look; never ends. */
export async function watch() {
  let ready = false;
  try {
    const answer = await fetch("health/ready");
    ready = answer.ok;
    show(ready, await answer.json());
  } catch {
    show(false, { phase: "unreachable", reason: "the server does not answer" });
  }
  setTimeout(watch, ready ? 10_000 : 1_000);
}

/**
 * @param {boolean} ready
 * @param {{phase: string, reason: string, seconds?: number, shards?: string, log?: string[]}} status
 */
function show(ready, status) {
  byId("readiness").hidden = ready;
  const since = status.seconds === undefined ? "" : ` (${Math.round(status.seconds)} s)`;
  byId("phase").textContent = `Engine ${status.phase}: ${status.reason}${since}`;
  const [done, all] = (status.shards ?? "").split("/").map(Number);
  byId("shards").hidden = !all;
  if (all) Object.assign(byId("shards"), { value: done, max: all });
  byId("log").hidden = !status.log;
  byId("log").textContent = (status.log ?? []).join("\n");
}
