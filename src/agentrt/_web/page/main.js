// Where the page begins. Without the libraries, which are put in when the package is built, it is a
// plain one.

export {}; // a module, which may wait

try {
  await import("./vendor/libraries.js");
} catch {
  const { start } = await import("./plain.js");
  start();
  throw new Error("the page's libraries are missing: see docs/serve.md");
}
const { start } = await import("./app.js");
start();
