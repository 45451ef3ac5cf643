/** What outlives a reload: the conversation in localStorage, the key only as long as the tab. */

const CONVERSATION = "chat-server.conversation";
const FIELDS = "chat-server.fields";
const KEY = "chat-server.key";

/**
 * @typedef {{role: string, content: string, reasoning?: string, figures?: string}} Message
 */

/** @returns {Message[]} */
export const loadConversation = () => read(CONVERSATION, []);

/** @param {Message[]} messages */
export const saveConversation = (messages) => write(CONVERSATION, messages);

/** @returns {Record<string, string>} */
export const loadFields = () => read(FIELDS, {});

/** @param {Record<string, string>} fields */
export const saveFields = (fields) => write(FIELDS, fields);

/** @returns {string} the API key, "" when there is none */
export const key = () => sessionStorage.getItem(KEY) ?? "";

/** @param {string} value */
export const keepKey = (value) => sessionStorage.setItem(KEY, value);

function read(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null") ?? otherwise;
  } catch {
    return otherwise; // written by something else
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // Full or forbidden: the conversation goes on, only not beyond a reload.
  }
}
