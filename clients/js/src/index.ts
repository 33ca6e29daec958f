export * from "./client.js";
export * from "./connection.js";
export * from "./model.js";
export * from "./reduce.js";
export * from "./session.js";
export * from "./wire.js";
