// A form that the agent wants to be filled: one field for each property of its JSON schema.

import { instead } from "./html.js";
import { oneLine } from "./safe.js";

type Choice = { value: unknown; label: string };

function choicesOf(schema: w.FormSchema): Choice[] {
  const named = schema.oneOf ?? schema.anyOf;
  if (named) return named.map((each) => ({ value: each.const, label: String(each.title ?? each.const) }));
  return (schema.enum ?? []).map((value, index) => ({ value, label: String(schema.enumNames?.[index] ?? value) }));
}

const INPUTS: Record<string, "email" | "url" | "date" | "datetime-local"> = { email: "email", uri: "url", date: "date", "date-time": "datetime-local" };

/** Whether every field is of a kind that can be filled here */
export function isComplete(ask: w.PermissionOpened): boolean {
  return Object.values(ask.form?.properties ?? {}).every((schema) =>
    schema.type === "array"
      ? choicesOf(schema.items ?? {}).length > 0
      : ["string", "number", "integer", "boolean", undefined].includes(schema.type),
  );
}

export function FormFields({ form, give }: { form: w.FormSchema; give: (decision: Decision) => void }) {
  const required = new Set(form.required ?? []);
  const properties = Object.entries(form.properties ?? {});
  const submit = instead((event) => {
    const data = new FormData(event.target);
    const values: [string, unknown][] = properties.map(([name, schema]) => [name, read(schema, data.getAll(name))]);
    give({ content: Object.fromEntries(values.filter(([, value]) => value !== undefined)) });
  });
  return (
    <form id="elicitation" class="form" onSubmit={submit}>
      {properties.map(([name, schema]) => Field(name, schema, required.has(name)))}
    </form>
  );
}

function read(schema: w.FormSchema, given: FormDataEntryValue[]) {
  const choices = choicesOf(schema.type === "array" ? (schema.items ?? {}) : schema);
  if (schema.type === "array") return given.map((each) => choices[Number(each)]?.value);
  if (schema.type === "boolean") return given.length > 0;
  const text = String(given[0] ?? "");
  if (text === "") return undefined;
  if (choices.length) return choices[Number(text)]?.value;
  if (schema.type === "number" || schema.type === "integer") return Number(text);
  return schema.format === "date-time" ? new Date(text).toISOString() : text;
}

function Field(name: string, schema: w.FormSchema, required: boolean) {
  const label = oneLine(schema.title ?? name, 120);
  const id = `field-${name}`;
  const about = schema.description ? <small id={`${id}-about`}>{oneLine(schema.description, 400)}</small> : null;
  const described = about ? `${id}-about` : undefined;
  const words = (
    <span>
      {label}
      {required && (
        <span class="needed" aria-hidden="true">
          {" "}
          *
        </span>
      )}
    </span>
  );
  if (schema.type === "boolean") {
    return (
      <div class="field" key={name}>
        {Check(name, "on", schema.default === true, words, described)}
        {about}
      </div>
    );
  }
  const choices = choicesOf(schema.type === "array" ? (schema.items ?? {}) : schema);
  if (schema.type === "array") {
    const chosen = new Set(Array.isArray(schema.default) ? schema.default : []);
    return (
      <fieldset class="field" key={name} aria-describedby={described}>
        <legend>{words}</legend>
        {about}
        {choices.map(({ value, label }, index) => Check(name, String(index), chosen.has(value), oneLine(label)))}
      </fieldset>
    );
  }
  if (choices.length) {
    return (
      <div class="field" key={name}>
        <label for={id}>{words}</label>
        {about}
        <select id={id} name={name} required={required} aria-describedby={described}>
          <option value="">{required ? "Choose…" : "–"}</option>
          {choices.map(({ value, label }, index) => (
            <option value={index} selected={value === schema.default}>
              {oneLine(label)}
            </option>
          ))}
        </select>
      </div>
    );
  }
  const number = schema.type === "number" || schema.type === "integer";
  return (
    <div class="field" key={name}>
      <label for={id}>{words}</label>
      {about}
      <input
        id={id}
        name={name}
        required={required}
        aria-describedby={described}
        autocomplete="off"
        type={(number ? "number" : (INPUTS[schema.format ?? ""] ?? "text")) as "text"}
        step={schema.type === "number" ? "any" : undefined}
        min={schema.minimum ?? undefined}
        max={schema.maximum ?? undefined}
        minLength={schema.minLength ?? undefined}
        maxLength={schema.maxLength ?? undefined}
        defaultValue={schema.default == null ? "" : String(schema.default)}
      />
    </div>
  );
}

const Check = (name: string, value: string, on: boolean, words: Shown, described?: string): Shown => (
  <label class="switch">
    <input type="checkbox" name={name} value={value} defaultChecked={on} aria-describedby={described} />
    <span>{words}</span>
  </label>
);
