/** JSON as it is written: values are passed on unchanged. */
import { parse } from './api.js';

/** A value as people read it: a text as it is, else as JSON. @param {unknown} value @returns {string} */
export const readable = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** Returns the same of a value that is JSON. @param {string} json @returns {string} */
export const textOf = (json) => (json.startsWith('"') ? JSON.parse(json) : json);

/**
 * The members of an object, each with its value as it is written.
 * @param {string} text JSON @returns {[name: string, json: string][]}
 */
export function members(text) {
  /** @type {[string, string][]} */
  const all = [];
  let [depth, from, name] = [0, 0, ''];
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]/g)) {
    if (token === '}' || token === ']') depth--;
    if (from && ((token === ',' && depth === 1) || depth === 0)) {
      all.push([name, text.slice(from, index).trim()]);
      from = 0;
    }
    if (token === '{' || token === '[') depth++;
    else if (token === ':' && depth === 1) from = index + 1;
    else if (token.startsWith('"') && depth === 1 && !from) name = JSON.parse(token);
  }
  return all;
}

/** @param {Iterable<[name: string, json: string]>} all @returns {string} the object */
export const object = (all) => `{${[...all].map(([name, json]) => `${JSON.stringify(name)}:${json}`).join(',')}}`;

/** The value of one member, as it is written. @param {string} text of an object @param {string} name @param {string} otherwise */
export const member = (text, name, otherwise) => new Map(members(text)).get(name) ?? otherwise;

/** Returns the parsed object with its source text. @param {string} text of an object */
export const whole = (text) => ({ ...parse(text), written: text });
