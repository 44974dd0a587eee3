/** Handlers with a type, so that templates stay short. */

/** @param {(event: any) => unknown} handler */
export const on = (handler) => handler;

/** Handles the typed or chosen value. @param {(value: string, target: any) => unknown} handler */
export const typed = (handler) => on((event) => handler(event.target.value, event.target));

/** @param {(checked: boolean) => unknown} handler */
export const ticked = (handler) => on((event) => handler(event.target.checked));

/** Handles a form's submit without a page load. @param {(event: any) => unknown} handler */
export const submit = (handler) =>
  on((event) => {
    event.preventDefault();
    return handler(event);
  });

/** Calls once, after the last of several calls.
 * @param {(...args: any[]) => unknown} fn @param {number} wait milliseconds */
export function debounce(fn, wait) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return (/** @type {any[]} */ ...args) => {
    clearTimeout(timer);
    timer = setTimeout(() => fn(...args), wait);
  };
}

/** Calls soon after the first of a burst, and then once a second while the burst lasts. Events that
 * never pause do not delay a fetch for ever.
 * @param {() => unknown} fn @param {number} [first] milliseconds before the first of these calls */
export function paced(fn, first = 120) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  let last = 0;
  return () => {
    const wait = Date.now() - last < 1000 ? 1000 : first;
    timer ??= setTimeout(() => {
      timer = undefined;
      last = Date.now();
      fn();
    }, wait);
  };
}

/** Has the browser save a file.
 * @param {string} name @param {BlobPart[]} parts @param {string} type */
export function download(name, parts, type) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob(parts, { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** Returns a cell of a CSV file. A spreadsheet reads a text that starts with these characters as a formula, so it
 * gets a quote before it. @param {unknown} value */
export function csvCell(value) {
  const text = String(value ?? '');
  const safe = /^'*[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
