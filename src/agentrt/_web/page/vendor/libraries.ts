// All that the page takes from others. `hatch_build.py` makes `libraries.js` of it, in which only
// what is named here is left; package.json says which versions.

export { Component, h, render } from "preact";
export type { ComponentChildren, ComponentType, VNode } from "preact";
export { default as htm } from "htm";
export { diffLines } from "diff";
