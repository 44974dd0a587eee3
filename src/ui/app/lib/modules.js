/**
 * The modules that a joined file defines. The server joins the page's modules to few files, and puts
 * this one before them: each of them is a function, which runs when it is first used.
 */

/** @typedef {(use: (path: string) => any, load: (name: string) => Promise<any>, here: string) => object} Module */

const folder = new URL('.', import.meta.url).href;
/** @type {Record<string, Module>} */
const defined = {};
/** @type {Record<string, object>} */
const running = {};

/** @param {Record<string, Module>} modules by their paths */
export const define = (modules) => Object.assign(defined, modules);

/** Runs a module unless it runs already. @param {string} path @returns {any} its exports */
export function use(path) {
  const module = defined[path];
  if (!module) throw new Error(`there is no module ${path}`);
  const here = folder + path;
  return (running[path] ??= module(use, (name) => load(new URL(name, here).href), here));
}

let tries = 0;

/** @param {string} address of a module that another file may define */
async function load(address) {
  const path = address.slice(folder.length);
  if (!defined[path]) {
    const script = `${folder}pages.js`;
    // A browser may keep a failed import of an address, so the next try has another one.
    await import(tries ? `${script}?try=${tries}` : script).catch((error) => {
      tries += 1;
      throw error;
    });
  }
  return use(path);
}
