/** The fields of an operation's body, from its schema. A value without a field is in the raw body beside them. */
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { field, select } from './form.js';

/** @typedef {{path: string[], schema: any, required: boolean}} Leaf */

/** The maximum depth of objects that get fields. */
const DEEP = 3;
const PLAIN = ['string', 'integer', 'number', 'boolean'];

/** Returns the schema behind references. @param {any} schema @param {any} api @param {number} [depth] @returns {any} */
export function whole(schema, api, depth = 0) {
  if (!schema || depth > 6) return {};
  if (schema.$ref) return whole(api.components.schemas[schema.$ref.split('/').pop()], api, depth + 1);
  const parts = schema.allOf ?? (schema.oneOf ?? schema.anyOf)?.filter((/** @type {any} */ s) => s.type !== 'null');
  // A schema with several forms has no fields of its own.
  if (!parts || (!schema.allOf && parts.length > 1)) return schema;
  return parts.reduce((/** @type {any} */ all, /** @type {any} */ part) => {
    const one = whole(part, api, depth + 1);
    return {
      ...all,
      ...one,
      properties: all.properties || one.properties ? { ...all.properties, ...one.properties } : undefined,
      required: [...(all.required ?? []), ...(one.required ?? [])],
    };
  }, { ...schema, allOf: undefined, oneOf: undefined, anyOf: undefined });
}

/** @param {any} schema */
const typeOf = (schema) => [schema.type].flat().find((it) => it && it !== 'null');

/** Returns its fields. @param {any} schema @param {any} api @param {string[]} [path] @param {boolean} [required] @returns {Leaf[]} */
export function leaves(schema, api, path = [], required = true) {
  const it = whole(schema, api);
  if (it.properties && path.length < DEEP) {
    const needed = new Set(it.required ?? []);
    return Object.entries(it.properties).flatMap(([name, of]) =>
      leaves(of, api, [...path, name], required && needed.has(name)),
    );
  }
  const texts = typeOf(it) === 'array' && typeOf(whole(it.items, api)) === 'string';
  return path.length && (PLAIN.includes(typeOf(it)) || it.enum || texts) ? [{ path, schema: it, required }] : [];
}

/** @param {any} body @param {string[]} path */
const at = (body, path) => path.reduce((/** @type {any} */ it, name) => it?.[name], body);

/** Sets a value in the body, or removes the name. @param {any} body @param {string[]} path @param {unknown} value @returns {any} */
export function put(body, [name = '', ...rest], value) {
  const before = body && typeof body === 'object' && !Array.isArray(body) ? body : {};
  const { [name]: old, ...others } = before;
  const next = rest.length ? put(old, rest, value) : value;
  const gone = next === undefined || (rest.length && !Object.keys(next).length);
  if (gone) return others;
  return { ...before, [name]: next };
}

/** Returns the typed value in the type of the schema. @param {any} schema @param {string} text @returns {unknown} */
function read(schema, text) {
  const type = typeOf(schema);
  if (text === '') return undefined;
  if (type === 'array') return text.split('\n').filter(Boolean);
  if (type === 'boolean') return text === 'true';
  // The server refuses a value that is no number.
  return (type === 'integer' || type === 'number') && text.trim() && Number.isFinite(Number(text)) ? Number(text) : text;
}

/** The typed texts of fields, such as a line that is still empty. @type {Map<string, string>} */
const typed = new Map();

/** Returns the text of a field: the typed one, as long as the body has its value.
 * @param {string} name @param {any} schema @param {unknown} value */
function textOf(name, schema, value) {
  const text = typed.get(name);
  if (text !== undefined && JSON.stringify(read(schema, text)) === JSON.stringify(value)) return text;
  return Array.isArray(value) ? value.join('\n') : String(value ?? '');
}

/**
 * @param {Leaf[]} all @param {unknown} body as it is now @param {(body: unknown) => unknown} change
 * @param {Set<string>} taken names of other fields of the form
 */
export const bodyFields = (all, body, change, taken) =>
  all.map(({ path, schema, required }) => {
    const name = path.join('.');
    const label = taken.has(name) ? `${t('Body')}: ${name}` : name;
    const value = at(body, path);
    const input = (/** @type {string} */ text) => {
      typed.set(name, text);
      return change(put(body, path, read(schema, text)));
    };
    const hint = schema.description?.split('\n')[0];
    const choices = schema.enum?.filter((/** @type {unknown} */ it) => it !== null) ?? (typeOf(schema) === 'boolean' ? [true, false] : null);
    if (choices) {
      const options = choices.map((/** @type {unknown} */ it) => [String(it), String(it)]);
      return html`<div key=${name}>${select({ label, hint, value: String(value ?? ''), change: input,
        options: required ? options : [['', '–'], ...options] })}</div>`;
    }
    const lines = typeOf(schema) === 'array';
    return html`<div key=${name}>${field({ label, hint, input, dir: 'auto', ...(lines ? { rows: 2 } : {}),
      placeholder: schema.format === 'date-time' ? '2030-01-31T09:30:00Z' : '',
      value: textOf(name, schema, value) })}</div>`;
  });
