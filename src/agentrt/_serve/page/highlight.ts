// The colours of code: loaded with the first code that has a language.

import { common, createLowlight } from "lowlight";
import cmake from "highlight.js/lib/languages/cmake";
import dart from "highlight.js/lib/languages/dart";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import elixir from "highlight.js/lib/languages/elixir";
import haskell from "highlight.js/lib/languages/haskell";
import nginx from "highlight.js/lib/languages/nginx";
import nix from "highlight.js/lib/languages/nix";
import powershell from "highlight.js/lib/languages/powershell";
import protobuf from "highlight.js/lib/languages/protobuf";
import scala from "highlight.js/lib/languages/scala";

const more = { cmake, dart, dockerfile, elixir, haskell, nginx, nix, powershell, protobuf, scala };

export const lowlight = createLowlight({ ...common, ...more });
