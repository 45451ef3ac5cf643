/** The request that the page sends, as text for a terminal or a program. The key is never in it. */

/** @type {Record<string, (body: object, address: string) => string>} */
export const FORMS = {
  curl: (body, address) =>
    `curl -N ${quoted(`${address}/invocations`)} -H 'Content-Type: application/json' \\\n` +
    `     -H "Authorization: Bearer $API_KEY" \\\n` +
    `     -d ${quoted(JSON.stringify({ ...body, stream: true }))}\n`,
  Python: (body, address) =>
    `import os\n\nimport requests\n\n` +
    `headers = {"Authorization": "Bearer " + os.environ.get("API_KEY", "unused")}\n` +
    `body = ${python(body)}\n` +
    `answer = requests.post(${python(`${address}/invocations`)}, json=body, headers=headers)\n` +
    `print(answer.json()["messages"][-1]["content"])\n`,
  "mlflow.deployments": (body, address) =>
    `import os\n\nfrom mlflow.deployments import get_deploy_client\n\n` +
    `token = os.environ.get("API_KEY", "unused")\n` +
    `os.environ.update(DATABRICKS_HOST=${python(address)}, DATABRICKS_TOKEN=token)\n` +
    `client = get_deploy_client("databricks")\n` +
    `body = ${python(body)}\n` +
    `print(client.predict(endpoint="chat", inputs=body)["messages"][-1]["content"])\n`,
};

/**
 * @param {string} text
 * @returns {string} one word of a shell
 */
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * @param {unknown} value as in JSON
 * @returns {string} the same value in Python
 */
function python(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (typeof value !== "object") return JSON.stringify(value); // strings have the same escapes
  const pairs = Object.entries(value).map(([key, each]) => `${python(key)}: ${python(each)}`);
  return `{${pairs.join(", ")}}`;
}
