// Where the page begins. Without the libraries, which are put in when the package is built, it is a
// plain one.

// The link left the key to this server in the address: it is kept where only pages of this origin
// can read it, since the cookie goes to every port of the machine.
const given = location.hash.match(/^#key=([\w-]+)$/)?.[1];
if (given) {
  localStorage.setItem("key", given);
  history.replaceState(null, "", "./");
}
if (!localStorage.getItem("key")) location.replace("login");

const { start } = await import("./vendor/libraries.js").then(
  () => import("./app.js"),
  () => import("./plain.js"),
);
start();

export {};
