// What stands where nothing has been said yet.

import { setDraft } from "./composer.js";
import { field, model } from "./store.js";

const TRIES = [
  "Explain what this project does and how it is organised.",
  "Find a bug in this project, and explain it before you change anything.",
  "Add a test for a part of this project that has none.",
];

export const Empty = ({ commands }: { commands: boolean }): Shown => (
  <div class="empty">
    <p>What should the agent do?{commands && " Type / for its commands."}</p>
    {model().server?.role !== "viewer" && (
      <ul aria-label="Examples">
        {TRIES.map((text) => (
          <li key={text}>
            <button type="button" onClick={() => (setDraft(text), setTimeout(() => field()?.focus()))}>
              {text}
            </button>
          </li>
        ))}
      </ul>
    )}
  </div>
);
