// Formulas in TeX as trees of MathML: loaded with the first formula.

import temml from "temml";
import { ELEMENTS } from "./elements.js";

/** Elements without any power. */
const TAGS = new Set(
  "math mrow mi mn mo ms mtext mspace msup msub msubsup mfrac msqrt mroot mover munder munderover mmultiscripts mprescripts mtable mtr mtd mpadded mphantom menclose mstyle none".split(
    " ",
  ),
);

/** Attributes that say how they look. */
const LOOKS = new Set(
  "accent accentunder columnalign columnlines columnspacing depth display displaystyle fence form height largeop linethickness lspace mathsize mathvariant maxsize minsize movablelimits notation rowlines rowspacing rspace scriptlevel separator stretchy symmetric voffset width".split(
    " ",
  ),
);

/** The MathML of a formula; null if it is no TeX that is known, or too much. */
export function formula(source: string, display: boolean): Formula | null {
  const options = { displayMode: display, throwOnError: true, trust: false, strict: false, maxExpand: 500 };
  let left = ELEMENTS;
  const tree = (node: any): Formula | string | null => {
    if (left-- <= 0) return null;
    if (typeof node?.text === "string") return node.text;
    const children: (Formula | string)[] = [];
    for (const each of node?.children ?? []) {
      const child = tree(each);
      if (child !== null) children.push(child);
    }
    const tag = TAGS.has(node?.type) ? node.type : "mrow";
    const looks: Record<string, string> = {};
    for (const [name, value] of Object.entries(node?.attributes ?? {})) {
      if (LOOKS.has(name)) looks[name] = String(value);
    }
    return { tag, looks, children };
  };
  let made: Formula | string | null;
  try {
    made = tree(temml.__renderToMathMLTree(source, options));
  } catch {
    return null; // it is no TeX, or has commands that are not known
  }
  return left > 0 && made && typeof made === "object" && made.tag === "math" ? made : null;
}
