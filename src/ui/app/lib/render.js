/**
 * Tagged templates and keyed lists. A template is parsed once per call site, by the code below: it
 * makes nodes by `createElement`, `createElementNS` and `createTextNode` only, so a value is text and
 * never markup, and a policy of Trusted Types has nothing to refuse.
 *
 * Each child has an id: its place in its template, for an item of a list its `key=`. Children of the
 * old and the new tree are matched by id and moved, not rebuilt.
 *
 * @typedef {{tag: string, attrs: Attr[], kids: Part[]}} Element_
 * @typedef {string | number | Element_} Part a text, the number of a value, or an element
 * @typedef {{name: string, texts: string[], holes: number[]}} Attr
 * @typedef {{no: number, roots: Part[], key: number}} Compiled
 * @typedef {{id: string, text?: string, part?: Element_, values: unknown[], kids: Branch[], set: unknown[], node: any}} Branch
 */

const SVG = 'http://www.w3.org/2000/svg';
const VOID = /^(?:area|br|col|hr|img|input|link|meta|source|wbr)$/;
const TAG = /<(\/?)([a-zA-Z][\w-]*)((?:"[^"]*"|'[^']*'|[^'">])*?)(\/?)>/g;
const ATTR = /([^\s=/]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s]+)))?/g;
const HOLE = /\u0001(\d+)\u0001/;
const REFUSED = /^\.(?:innerHTML|outerHTML|srcdoc)$|^srcdoc$/;
const ADDRESS = /^(?:href|src|action|formaction)$/;

/** A template with its values; rendering turns it into nodes. */
export class View {
  /** @param {TemplateStringsArray} strings @param {unknown[]} values */
  constructor(strings, values) {
    this.strings = strings;
    this.values = values;
  }
}

/** @param {TemplateStringsArray} strings @param {unknown[]} values @returns {View} */
export const html = (strings, ...values) => new View(strings, values);

/** @type {WeakMap<TemplateStringsArray, Compiled>} */
const compiled = new WeakMap();
let count = 0;

/** @param {TemplateStringsArray} strings @returns {Compiled} */
function compile(strings) {
  const known = compiled.get(strings);
  if (known) return known;
  const source = strings.reduce((all, s, i) => all + `\u0001${i - 1}\u0001` + s);
  /** @type {Element_} */
  const root = { tag: '', attrs: [], kids: [] };
  const stack = [root];
  let from = 0;
  for (const match of source.matchAll(TAG)) {
    const [all, closing, name = '', attrs = '', empty] = match;
    const parent = stack[stack.length - 1] ?? root;
    addText(parent.kids, source.slice(from, match.index));
    from = (match.index ?? 0) + all.length;
    if (closing) {
      if (stack.length < 2 || parent.tag !== name) throw new SyntaxError(`unexpected </${name}>`);
      stack.pop();
      continue;
    }
    const made = { tag: name, attrs: readAttrs(attrs), kids: [] };
    parent.kids.push(made);
    if (!empty && !VOID.test(name)) stack.push(made);
  }
  if (stack.length > 1) throw new SyntaxError(`<${stack[stack.length - 1]?.tag}> is not closed`);
  addText(root.kids, source.slice(from));
  const only = root.kids.length === 1 ? root.kids[0] : null;
  const keyed = typeof only === 'object' ? only?.attrs.find((a) => a.name === 'key') : null;
  const result = { no: count++, roots: root.kids, key: keyed?.holes[0] ?? -1 };
  compiled.set(strings, result);
  return result;
}

/** White space with a line break at an end is layout of the source; elsewhere it is one space.
 * @param {Part[]} kids @param {string} raw */
function addText(kids, raw) {
  raw.split(HOLE).forEach((piece, i) => {
    if (i % 2) return kids.push(Number(piece));
    const text = piece.replace(/^\s*\n\s*|\s*\n\s*$/g, '').replace(/\s+/g, ' ');
    return text && kids.push(text);
  });
}

/** @param {string} raw @returns {Attr[]} */
function readAttrs(raw) {
  return [...raw.matchAll(ATTR)].map(([, name = '', a, b, c]) => {
    const pieces = (a ?? b ?? c ?? '').split(HOLE);
    if (REFUSED.test(name)) throw new SyntaxError(`${name} is not taken`);
    return {
      name,
      texts: pieces.filter((_, i) => i % 2 === 0),
      holes: pieces.filter((_, i) => i % 2).map(Number),
    };
  });
}

/** @param {Attr} attr @param {unknown[]} values @returns {unknown} */
function valueOf(attr, values) {
  const { texts, holes } = attr;
  if (holes.length === 0) return texts[0];
  if (holes.length === 1 && !texts[0] && !texts[1]) return values[holes[0] ?? 0];
  return texts.reduce((all, text, i) => `${all}${values[holes[i - 1] ?? 0] ?? ''}${text}`);
}

/** @param {Part[]} parts @param {unknown[]} values @param {string} prefix @param {Branch[]} out */
function expand(parts, values, prefix, out) {
  parts.forEach((part, i) => {
    const id = prefix + i;
    if (typeof part === 'number') place(values[part], id, out);
    else if (typeof part === 'string') out.push(leaf(id, part));
    else out.push({ id, part, values, kids: [], set: [], node: null });
  });
}

/** @param {string} id @param {string} text @returns {Branch} */
const leaf = (id, text) => ({ id, text, values: [], kids: [], set: [], node: null });

/** @param {unknown} value @param {string} id @param {Branch[]} out */
function place(value, id, out) {
  if (value === null || value === undefined || typeof value === 'boolean' || value === '') return;
  if (value instanceof View) {
    const { no, roots } = compile(value.strings);
    expand(roots, value.values, `${id}.${no}.`, out);
  } else if (Array.isArray(value)) {
    value.forEach((item, i) => {
      const key = item instanceof View ? item.values[compile(item.strings).key] : undefined;
      place(item, key === undefined ? `${id}i${i}` : `${id}k${key}`, out);
    });
  } else out.push(leaf(id, String(value)));
}

/** @param {Branch} branch @returns {Branch[]} */
function children(branch) {
  /** @type {Branch[]} */
  const out = [];
  expand(branch.part?.kids ?? [], branch.values, '', out);
  return out;
}

/** @param {Branch} branch @param {Element} parent @returns {Node} */
function create(branch, parent) {
  if (branch.text !== undefined) return (branch.node = document.createTextNode(branch.text));
  const part = /** @type {Element_} */ (branch.part);
  branch.node = part.tag === 'svg' || parent.namespaceURI === SVG ? document.createElementNS(SVG, part.tag) : document.createElement(part.tag);
  update(branch, null);
  return branch.node;
}

/** Updates a node to its branch. @param {Branch} branch @param {Branch | null} old */
function update(branch, old) {
  const node = branch.node;
  if (branch.text !== undefined) {
    if (branch.text !== old?.text) node.data = branch.text;
    return;
  }
  const attrs = branch.part?.attrs ?? [];
  branch.set = attrs.map((attr) => valueOf(attr, branch.values));
  const set = (/** @type {boolean} */ late) => attrs.forEach((attr, i) => {
    const isLate = attr.name.startsWith('.') || attr.name === 'ref';
    if (isLate === late) apply(node, attr.name, branch.set[i], old?.set[i], !old);
  });
  set(false);
  branch.kids = children(branch);
  arrange(node, old?.kids ?? [], branch.kids);
  // A <select> accepts a value only if its options exist.
  set(true);
}

/** @param {any} parent @param {Branch[]} before @param {Branch[]} after */
function arrange(parent, before, after) {
  const old = new Map(before.map((branch) => [branch.id, branch]));
  const seen = new Set();
  for (const branch of after) {
    while (seen.has(branch.id)) branch.id += '#';
    seen.add(branch.id);
    const match = old.get(branch.id);
    if (match) {
      old.delete(branch.id);
      branch.node = match.node;
      update(branch, match);
    } else create(branch, parent);
  }
  for (const left of old.values()) {
    release(left);
    left.node.remove();
  }
  let next = null;
  for (let i = after.length - 1; i >= 0; i--) {
    const node = after[i]?.node;
    if (node.parentNode !== parent) parent.insertBefore(node, next);
    else if (node.nextSibling !== next) move(parent, node, next);
    next = node;
  }
}

/** @param {any} parent @param {any} node @param {Node | null} next */
function move(parent, node, next) {
  if (parent.moveBefore && parent.isConnected) return parent.moveBefore(node, next);
  const scrolled = [node, ...(node.querySelectorAll?.('*') ?? [])].filter((e) => e.scrollTop || e.scrollLeft);
  const places = scrolled.map((e) => [e.scrollTop, e.scrollLeft]);
  parent.insertBefore(node, next);
  scrolled.forEach((e, i) => ([e.scrollTop, e.scrollLeft] = places[i] ?? [0, 0]));
}

/** Notifies `ref=` that the node is removed. @param {Branch} branch */
function release(branch) {
  branch.kids.forEach(release);
  branch.part?.attrs.forEach((attr, i) => {
    const ref = attr.name === 'ref' && branch.set[i];
    if (typeof ref === 'function') ref(null, branch.node);
  });
}

/** @type {WeakMap<Node, Record<string, Function>>} */
const handlers = new WeakMap();

/** @param {Event} event */
function dispatch(event) {
  const handler = handlers.get(/** @type {Node} */ (event.currentTarget))?.[event.type];
  const result = handler?.call(event.currentTarget, event);
  refresh();
  if (result instanceof Promise) result.finally(refresh);
}

/** @param {any} node @param {string} name @param {any} value @param {unknown} old @param {boolean} fresh */
function apply(node, name, value, old, fresh) {
  if (name === 'key') return;
  if (name === 'ref') {
    if (fresh) value?.(node);
  } else if (name.startsWith('on')) {
    if (value && typeof value !== 'function') throw new TypeError(`${name} takes a function`);
    const all = handlers.get(node) ?? {};
    const type = name.slice(2);
    if (value && !all[type]) node.addEventListener(type, dispatch);
    if (!value && all[type]) node.removeEventListener(type, dispatch);
    handlers.set(node, { ...all, [type]: value });
  } else if (name === '.value') {
    // Without a listener, the typed text stays.
    const known = handlers.get(node)?.input ?? handlers.get(node)?.change;
    const text = String(value ?? '');
    if ((known || value !== old || node.tagName === 'SELECT') && node.value !== text) node.value = text;
  } else if (name.startsWith('.')) {
    if (node[name.slice(1)] !== value) node[name.slice(1)] = value;
  } else if (name.startsWith('?')) node.toggleAttribute(name.slice(1), Boolean(value));
  else if (name === 'style') {
    for (const key of Object.keys(Object(old))) if (!(key in Object(value))) node.style.removeProperty(key);
    for (const [key, v] of Object.entries(Object(value))) node.style.setProperty(key, String(v));
  } else if (value !== old || fresh) attribute(node, name, value);
}

/** @param {Element} node @param {string} name @param {unknown} value */
function attribute(node, name, value) {
  const text = name.startsWith('aria-') && typeof value === 'boolean' ? String(value) : value;
  const script = ADDRESS.test(name) && /^[\s\0-\x1f]*(?:javascript|vbscript):/i.test(String(value));
  if (text === null || text === undefined || text === false || script) node.removeAttribute(name);
  else node.setAttribute(name, text === true ? '' : String(text));
}

/** @type {WeakMap<Node, Branch[]>} */
const shown = new WeakMap();

/** @param {unknown} view @param {Element} container */
export function render(view, container) {
  const active = /** @type {any} */ (document.activeElement);
  const held = active && container.contains(active);
  const range = held && typeof active.selectionStart === 'number' ? [active.selectionStart, active.selectionEnd] : null;
  /** @type {Branch[]} */
  const after = [];
  place(view, '', after);
  arrange(container, shown.get(container) ?? [], after);
  shown.set(container, after);
  if (held && active !== document.activeElement && active.isConnected) {
    active.focus({ preventScroll: true });
    if (range) active.setSelectionRange(...range);
  }
}

/** @type {Map<Element, () => unknown>} */
const mounted = new Map();
let asked = false;

/** Renders `view()` into the container, and again at each `refresh`.
 * @param {() => unknown} view @param {Element} container */
export function mount(view, container) {
  if (!mounted.has(container)) container.replaceChildren();
  mounted.set(container, view);
  flush();
}

export function flush() {
  asked = false;
  for (const [container, view] of mounted) render(view(), container);
}

/** Requests one render in the next animation frame; a hidden tab has none, and uses a timer. */
export function refresh() {
  if (asked) return;
  asked = true;
  if (document.hidden) setTimeout(() => asked && flush(), 20);
  else requestAnimationFrame(() => asked && flush());
}
