/** The engine's clock: in the sandbox it is moved, and a page's countdowns go by it. */
let difference = 0;
/** Seconds that the sandbox's clock is ahead of real time. */
export let ahead = 0;

/** @returns {number} the engine's time in milliseconds */
export const now = () => Date.now() + difference;

/** @param {string} at the engine's time @param {number} [offset] seconds ahead of real time */
export function setClock(at, offset) {
  const time = Date.parse(at);
  if (!Number.isNaN(time)) difference = time - Date.now();
  if (offset !== undefined) ahead = offset;
}
