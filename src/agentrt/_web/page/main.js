// Where the page begins. Without the libraries, which are put in when the package is built, it is a
// plain one.

const { start } = await import("./vendor/libraries.js").then(
  () => import("./app.js"),
  () => import("./plain.js"),
);
start();

export {};
