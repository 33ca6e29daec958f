// A formula: its source, until the worker has made MathML of it.

import { h } from "preact";
import { ask } from "./ask.js";
import { Still } from "./html.js";
import { running } from "./safe.js";

interface FormulaProps {
  source: string;
  display: boolean;
}

export class FormulaView extends Still<FormulaProps> {
  gone = false;
  known: { source: string; tree: Formula | null } = { source: "", tree: null };
  asked = "";

  componentWillUnmount() {
    this.gone = true;
  }

  draw({ source, display }: FormulaProps) {
    if (this.known.source !== source) this.learn(source, display);
    const { tree } = this.known;
    if (this.known.source !== source || !tree) return <code class="tex">{running(source)}</code>;
    return (
      <span class={display ? "formula display" : "formula"} role="math" tabIndex={display ? 0 : undefined} aria-label={running(source)}>
        {drawn(tree)}
      </span>
    );
  }

  async learn(source: string, display: boolean) {
    if (this.asked || typeof document === "undefined") return; // the next one is asked about when it is shown
    this.asked = source;
    this.known = { source, tree: (await ask("math", source, display)) ?? null };
    this.asked = "";
    if (!this.gone) this.forceUpdate();
  }
}

const drawn = (node: Formula | string): Shown =>
  typeof node === "string" ? running(node) : h(node.tag as "math", node.looks, node.children.map(drawn));
