// The page's entry point: it loads the rest of the page, and tries again if part of it does not come.

// The link contains the key to this server. It is kept where only pages of this origin can read it,
// because cookies are shared by all ports of a machine.
const given = location.hash.match(/^#key=([\w-]+)$/)?.[1];

/** In `localStorage`: the key, as in `entrance.js`. Several servers may share an origin, each below a path. */
const KEY = `key${new URL(".", location.href).pathname.replace(/^\/$/, "")}`;
if (given) {
  localStorage.setItem(KEY, given);
  history.replaceState(null, "", "./");
}
/** Milliseconds before each further attempt to load the page. */
const DELAYS_MS = [200, 500, 1_000, 2_000, 4_000, 8_000];

/** Milliseconds between two checks of a server that cannot be reached. */
const CHECK_MS = 2_000;

/** In `sessionStorage`: the number of attempts that have failed one after another. */
const FAILED = "failed-loads";

const APP = new URL("app.js", import.meta.url);

/** The page; a plain one if the package was built without it. */
async function load() {
  /** @type {NodeListOf<HTMLLinkElement>} */
  const styles = document.querySelectorAll('link[rel="stylesheet"][href^="page/"]');
  for (const { href, sheet } of styles) if (!sheet?.cssRules.length) throw new Error(`${href} did not load`);
  try {
    return await import("./app.js");
  } catch (error) {
    const { status } = await fetch(APP, { method: "HEAD" });
    if (status !== 404) throw error;
    return import("./plain.js");
  }
}

/**
 * Load the whole page anew: browsers may remember that a module did not come. This happens when the
 * network changes, also with requests to the same machine, or when the server is restarted.
 * @param {unknown} error
 * @returns {Promise<undefined>}
 */
async function retry(error) {
  console.info(error);
  const failed = Number(sessionStorage.getItem(FAILED));
  if (failed >= DELAYS_MS.length) {
    sessionStorage.removeItem(FAILED);
    tell(`This page could not be loaded: ${error instanceof Error ? error.message : error}`);
    return;
  }
  tell("This page did not load completely. Trying again…");
  await pause(DELAYS_MS[failed]);
  while (!(await reachable())) {
    tell("The server cannot be reached. Trying again…");
    await pause(CHECK_MS);
  }
  sessionStorage.setItem(FAILED, String(failed + 1));
  location.reload();
}

/** Whether the server answers. */
const reachable = () => fetch(import.meta.url, { method: "HEAD", cache: "no-store" }).then(
  () => true,
  () => false,
);

/** @param {number} delay_ms */
const pause = (delay_ms) => new Promise((resolve) => setTimeout(resolve, delay_ms));

/** @param {string} text */
function tell(text) {
  const words = Object.assign(document.createElement("p"), { textContent: text });
  words.setAttribute("role", "status");
  const button = Object.assign(document.createElement("button"), { textContent: "Reload", onclick: () => location.reload() });
  document.getElementById("page")?.replaceChildren(words, button);
}

/** Whether this page is being left, which ends its requests. */
let leaving = false;
const leave = () => {
  leaving = true;
};

if (!localStorage.getItem(KEY)) location.replace("login");
else {
  addEventListener("beforeunload", leave);
  const page = await load().catch((error) => (leaving ? undefined : retry(error)));
  removeEventListener("beforeunload", leave);
  if (page) {
    sessionStorage.removeItem(FAILED);
    document.getElementById("page")?.replaceChildren();
    page.start();
  }
}

export {};
