// What the page takes from others and always needs. `hatch_build.py` makes `libraries.js` of it, in
// which only what is named here is left; package.json says which versions.

export { Component, h, render } from "preact";
export type { ComponentChildren, ComponentType, VNode } from "preact";
export { default as htm } from "htm";
export { diffLines } from "diff";
export { default as MarkdownIt } from "markdown-it";
export type { Env, StateBlock, StateInline, Token } from "markdown-it";
// @ts-ignore: it comes without types.
export { default as footnotes } from "markdown-it-footnote";
