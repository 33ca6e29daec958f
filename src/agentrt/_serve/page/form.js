// A form that the agent wants to be filled: one field for each property of its JSON schema.

import { html, instead } from "./html.js";
import { oneLine } from "./safe.js";

/** @typedef {{ value: unknown, label: string }} Choice */

/** @type {(schema: w.FormSchema) => Choice[]} */
function choicesOf(schema) {
  const named = schema.oneOf ?? schema.anyOf;
  if (named) return named.map((each) => ({ value: each.const, label: String(each.title ?? each.const) }));
  return (schema.enum ?? []).map((value, index) => ({ value, label: String(schema.enumNames?.[index] ?? value) }));
}

/** @type {Record<string, string>} */
const INPUTS = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

/** @type {(ask: w.PermissionOpened) => boolean} whether every field is of a kind that can be filled here */
export function isComplete(ask) {
  return Object.values(ask.form?.properties ?? {}).every((schema) =>
    schema.type === "array"
      ? choicesOf(schema.items ?? {}).length > 0
      : ["string", "number", "integer", "boolean", undefined].includes(schema.type),
  );
}

/** @param {{ form: w.FormSchema, give: (decision: Decision) => void }} props */
export function FormFields({ form, give }) {
  const required = new Set(form.required ?? []);
  const properties = Object.entries(form.properties ?? {});
  const submit = instead((event) => {
    const data = new FormData(event.target);
    /** @type {[string, unknown][]} */
    const values = properties.map(([name, schema]) => [name, read(schema, data.getAll(name))]);
    give({ content: Object.fromEntries(values.filter(([, value]) => value !== undefined)) });
  });
  return html`<form id="elicitation" class="form" onSubmit=${submit}>
    ${properties.map(([name, schema]) => Field(name, schema, required.has(name)))}
  </form>`;
}

/** @param {w.FormSchema} schema @param {FormDataEntryValue[]} given */
function read(schema, given) {
  const choices = choicesOf(schema.type === "array" ? (schema.items ?? {}) : schema);
  if (schema.type === "array") return given.map((each) => choices[Number(each)]?.value);
  if (schema.type === "boolean") return given.length > 0;
  const text = String(given[0] ?? "");
  if (text === "") return undefined;
  if (choices.length) return choices[Number(text)]?.value;
  if (schema.type === "number" || schema.type === "integer") return Number(text);
  return schema.format === "date-time" ? new Date(text).toISOString() : text;
}

/**
 * @param {string} name
 * @param {w.FormSchema} schema
 * @param {boolean} required
 */
function Field(name, schema, required) {
  const label = oneLine(schema.title ?? name, 120);
  const id = `field-${name}`;
  const about = schema.description ? html`<small id=${`${id}-about`}>${oneLine(schema.description, 400)}</small>` : null;
  const described = about ? `${id}-about` : null;
  const words = html`<span>${label}${required && html`<span class="needed" aria-hidden="true"> *</span>`}</span>`;
  if (schema.type === "boolean") {
    return html`<div class="field" key=${name}>
      ${Check(name, "on", schema.default === true, words, described)}${about}
    </div>`;
  }
  const choices = choicesOf(schema.type === "array" ? (schema.items ?? {}) : schema);
  if (schema.type === "array") {
    const chosen = new Set(Array.isArray(schema.default) ? schema.default : []);
    return html`<fieldset class="field" key=${name} aria-describedby=${described}><legend>${words}</legend>${about}
      ${choices.map(({ value, label }, index) => Check(name, String(index), chosen.has(value), oneLine(label)))}
    </fieldset>`;
  }
  if (choices.length) {
    return html`<div class="field" key=${name}><label for=${id}>${words}</label>${about}
      <select id=${id} name=${name} required=${required} aria-describedby=${described}>
        <option value="">${required ? "Choose…" : "–"}</option>
        ${choices.map(
          ({ value, label }, index) =>
            html`<option value=${index} selected=${value === schema.default}>${oneLine(label)}</option>`,
        )}
      </select>
    </div>`;
  }
  const number = schema.type === "number" || schema.type === "integer";
  return html`<div class="field" key=${name}><label for=${id}>${words}</label>${about}
    <input id=${id} name=${name} required=${required} aria-describedby=${described} autocomplete="off"
      type=${number ? "number" : (INPUTS[schema.format ?? ""] ?? "text")}
      step=${schema.type === "number" ? "any" : null} min=${schema.minimum} max=${schema.maximum}
      minlength=${schema.minLength} maxlength=${schema.maxLength}
      defaultValue=${schema.default == null ? "" : String(schema.default)} />
  </div>`;
}

/** @type {(name: string, value: string, on: boolean, words: Shown, described?: string | null) => Shown} */
const Check = (name, value, on, words, described) =>
  html`<label class="switch">
    <input type="checkbox" name=${name} value=${value} defaultChecked=${on} aria-describedby=${described} />
    <span>${words}</span>
  </label>`;
