// The types of `client.js`, which is made from these sources.

export * from "../../../../clients/js/src/index.js";
