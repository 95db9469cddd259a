// The addresses of this server. They are relative to the page's own, so that a reverse proxy may serve it under another host
// name or below a path.
const root = new URL("../", import.meta.url);

export const address_of = path => new URL(path, root).href;
export const socket_address_of = path => address_of(path).replace(/^http/, "ws");

const authorization = key => key ? {Authorization: "Bearer " + key} : {};

// GET with an API key, or without one if `key` is "".
export const get = (path, key, more = {}) => fetch(address_of(path), {headers: authorization(key), ...more});
// POST of a JSON body.
export const post = (path, key, body) =>
  fetch(address_of(path), {method: "POST", headers: {...authorization(key), "Content-Type": "application/json"}, body: JSON.stringify(body)});
