// Who this page is: a cookie that no script reads, and a key that no other port of this machine is sent.
//
// A cookie goes to every server of a host, whatever its port. So it is one half of the credential; the other half is
// kept in the storage of this origin, and shown in `connect` as auth: { page: pageKey() }.

const KEY = "toolcrib.page";

/** Return the page's half of its credential, "" where there is none: then connect with a token that was typed in. */
export function pageKey() {
  return localStorage.getItem(KEY) ?? "";
}

/** Return the code in an address, "" where there is none; a terminal may have broken the line that it stood in. */
export function readCode(hash) {
  return (new URLSearchParams(hash.slice(1)).get("code") ?? "").replace(/\s/g, "");
}

/** Exchange the code in the address, where there is one, and take it out of the address; tell whether we are let in. */
export async function signIn() {
  const code = readCode(location.hash);
  if (!code) return pageKey() !== "";
  history.replaceState(null, "", location.pathname);
  const told = await post("/page/login", { code });
  localStorage.setItem(KEY, told.key);
  return true;
}

/** End what this browser may do, also while no gateway answers; whoever opens the page next needs a code. */
export async function signOut() {
  await post("/page/logout", {}).finally(() => localStorage.removeItem(KEY));
}

async function post(path, body) {
  const headers = { "content-type": "application/json", "x-toolcrib-page": pageKey() };
  const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify(body) });
  const told = await answer.json();
  if (!told.ok) throw Object.assign(new Error(told.error.message), { code: told.error.code });
  return told;
}
