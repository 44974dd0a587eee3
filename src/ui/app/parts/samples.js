/** The first values of an operation's form: only the required ones, with values that a sandbox accepts. */
import { whole } from './body-form.js';

/** @typedef {import('./operations.js').Operation} Operation */

/** @param {any} schema */
const typeOf = (schema) => [schema.type].flat().find((it) => it && it !== 'null');

/** The samples of texts without an example, by their format. @type {Record<string, string>} */
const TEXTS = { email: 'ada@example.com', uri: 'https://example.com/', 'date-time': '2030-01-31T09:30:00Z', date: '2030-01-31' };

/** Returns a value that fits a schema: its example, or an object's required fields. It uses the first alternative.
 * @param {any} schema @param {any} api @param {number} [depth] @returns {any} */
export function sample(schema, api, depth = 0) {
  if (!schema || depth > 6) return null;
  const it = whole(schema, api);
  const given = it.example ?? it.examples?.[0] ?? it.const ?? it.enum?.find((/** @type {unknown} */ v) => v !== null);
  if (given !== undefined) return given;
  const either = (it.oneOf ?? it.anyOf)?.find((/** @type {any} */ s) => s.type !== 'null');
  const first = either ? whole(either, api) : {};
  if (it.properties) {
    const needed = new Set([...(it.required ?? []), ...(first.required ?? [])]);
    return Object.fromEntries(
      [...needed].map((name) => [name, first.properties?.[name]?.enum?.[0] ?? sample(it.properties[name] ?? first.properties?.[name], api, depth + 1)]),
    );
  }
  if (either) return sample(either, api, depth + 1);
  const type = typeOf(it);
  if (type === 'object') return {};
  if (type === 'array') return it.minItems === 0 || !it.items ? [] : [sample(it.items, api, depth + 1)];
  if (type === 'integer' || type === 'number') return it.default ?? it.minimum ?? 1;
  return type === 'boolean' ? true : type === 'string' ? (TEXTS[it.format] ?? '') : null;
}

/** @param {Operation} op @param {any} api @returns {unknown} */
export const sampleOf = (op, api) => op.example ?? sample(op.body, api);

/**
 * Returns existing ids: the newest of the list that a path has before the id. Only lists are requested.
 * @param {Operation} op @param {unknown} body its sample @param {Operation[]} all
 * @param {(list: Operation, known: Record<string, string>) => Promise<any>} ask
 * @returns {Promise<Record<string, string>>} by the names of the path's parameters and the body's fields
 */
export async function newest(op, body, all, ask) {
  /** @type {Record<string, string>} */
  const known = {};
  /** @param {string} path of a list @param {string[]} names what of its first row is wanted */
  const read = async (path, names) => {
    const list = all.find((o) => o.method === 'GET' && o.path === path);
    const row = list && (await ask(list, known).catch(() => null))?.data?.[0];
    for (const name of names) {
      const value = row?.[name] ?? row?.id;
      if (value !== undefined && value !== null) known[name] = String(value);
    }
  };
  const pieces = op.path.split('/');
  for (let i = 1; i < pieces.length; i++) {
    const name = /^{(.*)}$/.exec(pieces[i] ?? '')?.[1];
    if (!name || name === 'workspace' || known[name]) continue;
    // A template's name and language follow each other.
    const next = /^{(.*)}$/.exec(pieces[i + 1] ?? '')?.[1];
    await read(pieces.slice(0, i).join('/'), next ? [name, next] : [name]);
  }
  for (const name of Object.keys(Object(body)).filter((it) => it.endsWith('_id') && !known[it])) {
    const one = all.find((o) => o.method === 'GET' && o.path.endsWith(`/{${name}}`));
    if (one) await read(one.path.slice(0, -name.length - 3), [name]);
  }
  return known;
}
