// Builds the body of /v1/chat/completions from a conversation's path and the settings.
import {values} from "./settings.js";

export function body_of(turns, name) {
  const {system, ...sampling} = values();
  const messages = turns.filter(t => t.text).map(t => ({role: t.role, content: t.text}));
  if (system) messages.unshift({role: "system", content: system});
  // request_id identifies the request when it is sent again; `resumable` keeps it for a reloaded page.
  return {...sampling, messages, request_id: name, resumable: true};
}
