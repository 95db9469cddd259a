// What is asked of the server: a conversation's path and the settings as the fields of /v1/chat/completions.
import {values} from "./settings.js";

export function body_of(turns, name) {
  const {system, ...sampling} = values();
  const messages = turns.filter(t => t.text).map(t => ({role: t.role, content: t.text}));
  if (system) messages.unshift({role: "system", content: system});
  // The name makes a second start of the same request the same request; `resumable` keeps it for a page that is loaded again.
  return {...sampling, messages, request_id: name, resumable: true};
}
