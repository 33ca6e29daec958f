// The shapes of `agentrt.v1`, generated from the server's structs. Available in all modules as `w`.

export as namespace w;
export type * from "../../../../clients/js/src/wire.js";
