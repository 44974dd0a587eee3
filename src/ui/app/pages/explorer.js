/** Every operation of the interface, from its own description: its parameters, its call, a try. */
import { call, context, parse as read, withQuery } from '../lib/api.js';
import { icon } from '../lib/icons.js';
import { t } from '../lib/i18n.js';
import { html, refresh } from '../lib/render.js';
import { query, setQuery } from '../lib/router.js';
import { session } from '../lib/session.js';
import { Resource } from '../lib/store.js';
import { bodyFields, leaves } from '../parts/body-form.js';
import { code, curlText } from '../parts/code.js';
import { problem, shown, skeleton } from '../parts/empty.js';
import { search } from '../parts/filter.js';
import { field, radios } from '../parts/form.js';
import { json } from '../parts/json.js';
import { badge } from '../parts/status.js';
import { operations, snippet } from '../parts/operations.js';
import { newest, sampleOf } from '../parts/samples.js';

/** @typedef {import('../parts/operations.js').Operation} Operation */

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  let id = '';
  const state = {
    find: query('find'),
    values: /** @type {Record<string, string>} */ ({}),
    body: '',
    language: 'curl',
    key: '',
    busy: false,
    answer: /** @type {any} */ (null),
    error: /** @type {any} */ (null),
    history: /** @type {{method: string, path: string, body?: unknown, status: number}[]} */ ([]),
  };
  /** @type {Operation[]} */
  let all = [];
  const doc = new Resource(async (signal) => {
    const answer = await fetch('/openapi.json', { signal: signal ?? null });
    if (answer.status === 404)
      throw Object.assign(
        new Error(t('The API description is disabled on this server ([server] docs = false).')),
        { requestId: ' ' },
      );
    const api = await answer.json();
    all = operations(api);
    return api;
  });
  const one = () => all.find((o) => o.id === id);
  const choose = (/** @type {string} */ next) => {
    id = next;
    const op = one();
    const needed = op?.params.filter((p) => p.needs && p.in !== 'path' && p.example !== undefined) ?? [];
    const body = op?.body && op.needs ? sampleOf(op, doc.data) : null;
    Object.assign(state, {
      values: Object.fromEntries(needed.map((p) => [p.name, String(p.example)])),
      answer: null,
      error: null,
      body: body === null ? '' : JSON.stringify(body, null, 2),
    });
    requestAnimationFrame(() => id && document.querySelector('.operation')?.scrollIntoView({ block: 'nearest' }));
    return op ? fillIn(op, body) : undefined;
  };
  /** Fills in ids that exist. Outside of a sandbox, an operation that changes them waits for a chosen id; a deletion
   * always does. @param {Operation} op @param {any} body its sample */
  const fillIn = async (op, body) => {
    if (!session.me || op.method === 'DELETE' || (op.method !== 'GET' && !session.sandbox)) return;
    const before = state.body;
    // A refusal does not matter, so none asks for a confirmation.
    const known = await newest(op, body, all, async (list, values) => {
      const path = withQuery(request(list, values).path, list.params.some((p) => p.name === 'limit') ? { limit: 1 } : {});
      const answer = await fetch(path, { headers: { 'Postrider-Workspace': context.workspace } });
      return answer.ok ? answer.json() : null;
    });
    if (one() !== op) return;
    for (const [name, value] of Object.entries(known)) {
      if (op.params.some((p) => p.name === name)) state.values[name] ||= value;
      else body[name] = value;
    }
    if (body && state.body === before) state.body = JSON.stringify(body, null, 2);
    refresh();
  };
  /** @param {Operation} op @param {Record<string, string>} [values] */
  const request = (op, values = state.values) => {
    let path = op.path;
    /** @type {Record<string, string>} */
    const inQuery = {};
    /** @type {Record<string, string>} */
    const headers = {};
    for (const p of op.params) {
      const value = values[p.name] ?? '';
      if (p.in === 'path')
        path = path.replace(
          `{${p.name}}`,
          value
            ? encodeURIComponent(value)
            : p.name === 'workspace'
              ? context.workspace || '{workspace}'
              : `{${p.name}}`,
        );
      else if (value && p.in === 'query') inQuery[p.name] = value;
      else if (value) headers[p.name] = value;
    }
    return {
      method: op.method,
      path: withQuery(path, inQuery),
      headers,
      ...(state.body.trim() && op.body ? { body: parse(state.body) } : {}),
    };
  };
  const run = async () => {
    const op = one();
    if (!op) return;
    const asked = request(op);
    Object.assign(state, { busy: true, answer: null, error: null });
    const started = performance.now();
    try {
      if (asked.body instanceof Error) throw asked.body;
      const headers = { ...asked.headers, ...(session.me ? {} : { Authorization: `Bearer ${state.key}` }) };
      state.answer = {
        status: 200,
        body: await call(asked.method, asked.path, { body: asked.body, headers, quiet: !session.me }),
      };
    } catch (error) {
      const e = /** @type {any} */ (error);
      if (e.status)
        state.answer = {
          status: e.status,
          body: {
            code: e.code,
            message: e.message,
            ...(e.reason ? { reason: e.reason } : {}),
            request_id: e.requestId,
          },
        };
      else state.error = e;
    }
    if (state.answer) {
      state.answer.ms = Math.round(performance.now() - started);
      state.history = [{ ...asked, status: state.answer.status }, ...state.history].slice(0, 10);
    }
    state.busy = false;
    refresh();
  };

  const menu = () => {
    const wanted = state.find.toLowerCase();
    const fits = all.filter((o) => !wanted || `${o.summary} ${o.path} ${o.id}`.toLowerCase().includes(wanted));
    const tags = [...new Set(fits.map((o) => o.tag))];
    return html`<nav class="operations" aria-label=${t('Operations')}>${tags.map(
      (tag) => html`<div key=${tag}><p class="menu-label">${tag}</p><ul>
      ${fits
        .filter((o) => o.tag === tag)
        .map(
          (
            o,
          ) => html`<li key=${o.id}><a href=${`/ui/explorer/${o.id}${location.search}`} aria-current=${o.id === id ? 'page' : null}>
        <span>${o.summary}</span></a></li>`,
        )}</ul></div>`,
    )}
      ${fits.length ? '' : html`<p class="muted pad">${t('Nothing found')}</p>`}</nav>`;
  };
  /** Shows its fields beside their JSON; each changes the other. @param {Operation} op */
  const body = (op) => {
    const all = leaves(op.body, doc.data);
    const now = state.body.trim() ? parse(state.body) : {};
    const change = (/** @type {unknown} */ next) => {
      state.body = JSON.stringify(next, null, 2);
    };
    const raw = field({
      label: t('Body'),
      rows: Math.min(16, state.body.split('\n').length + 1),
      mono: true,
      dir: 'ltr',
      value: state.body,
      error: now instanceof Error ? now.message : null,
      input: (v) => {
        state.body = v;
      },
    });
    return all.length && !(now instanceof Error)
      ? html`<div class="columns"><fieldset class="stack" aria-label=${t('Body fields')}>${bodyFields(all, now, change,
          new Set(op.params.map((p) => p.name)))}</fieldset>${raw}</div>`
      : raw;
  };
  /** @param {Operation} op */
  const form = (op) => html`<form class="stack" onsubmit=${(/** @type {Event} */ e) => {
    e.preventDefault();
    return run();
  }}>
    ${op.params.map(
      (p) =>
        html`<div key=${p.name}>${field({
          label: p.name,
          value: state.values[p.name] ?? '',
          input: (v) => {
            state.values[p.name] = v;
          },
          hint: p.description,
          required: p.in === 'path' && p.name !== 'workspace',
          placeholder: p.in === 'path' && p.name === 'workspace' ? context.workspace : '',
        })}</div>`,
    )}
    ${
      op.body ? body(op) : ''
    }
    ${
      session.me
        ? ''
        : session.sandbox
          ? field({
              label: t('API key'),
              type: 'password',
              value: state.key,
              input: (v) => {
                state.key = v;
              },
              hint: t('The key is kept only in this page’s memory.'),
            })
          : html`<p class="muted">${t('Sign in to run this operation.')} <a href="/ui/sign-in?next=/explorer">${t('Sign in')}</a></p>`
    }
    <div class="row"><button class="primary" ?disabled=${state.busy || (!session.me && !state.key)}>${icon('play')}${t('Run')}</button></div></form>`;
  /** @param {Operation} op */
  const operation = (op) => html`<article class="operation stack" key=${op.id}>
    <div><h2>${op.summary}</h2><p><b class="method">${op.method}</b> <code class="wrap">${op.path}</code></p></div>
    <p class="prose">${prose(op.description)}</p>
    ${form(op)}
    <section aria-label=${t('Request')}><div class="card-head"><h3>${t('Request')}</h3>${radios(
      t('Language'),
      state.language,
      [
        ['curl', 'curl'],
        ['JavaScript', 'JavaScript'],
        ['Python', 'Python'],
        ['Rust', 'Rust'],
      ],
      (v) => {
        state.language = v;
      },
    )}</div>
      ${code(state.language === 'curl' ? curlText(request(op)) : snippet(state.language, request(op)), t('Request'))}</section>
    <section aria-label=${t('Answer')} aria-live="polite"><h3>${t('Answer')}</h3>
      ${state.error ? problem(state.error) : ''}${state.busy ? skeleton(3) : ''}
      ${
        state.answer
          ? html`<p class="row">${badge(state.answer.status < 400 ? 'ok' : 'failed', state.answer.status < 400
            ? t('Done') : String(state.answer.status))}<span class="muted">${t('{n} ms', { n: state.answer.ms })}</span></p>
        ${state.answer.body === null ? html`<p class="muted">${t('No body')}</p>` : typeof state.answer.body === 'string'
          ? html`<pre class="code" tabindex="0">${state.answer.body}</pre>` : json(state.answer.body, t('Answer'))}`
          : state.busy || state.error
            ? ''
            : html`<p class="muted">${t('Run the operation to see the response.')}</p>`
      }</section>
    ${state.history.length ? html`<section><h3>${t('History')}</h3><ol class="history" aria-label=${t('History')}>
      ${state.history.map((h) => html`<li><b class="method">${h.method}</b><code class="wrap">${h.path}</code>
      ${badge(h.status < 400 ? 'ok' : 'failed', h.status < 400 ? t('Done') : String(h.status))}</li>`)}</ol></section>` : ''}
  </article>`;

  return {
    title: 'API explorer',
    wide: true,
    async open(params, signal) {
      await doc.load(signal);
      choose(params['id'] ?? '');
    },
    changed: (params) => choose(params['id'] ?? ''),
    view: () =>
      shown(
        doc,
        () => html`<div class=${`explorer ${id ? 'has-one' : ''}`}><div class="explorer-list">
      ${search(t('Find an operation'), state.find, (v) => {
        state.find = v;
        setQuery({ find: v });
        refresh();
      })}${menu()}</div>
      ${one() ? operation(/** @type {Operation} */ (one())) : id ? html`<p class="muted">${t('This operation does not exist.')}</p>` : intro(doc.data)}</div>`,
      ),
  };
}

/** Shows a description: its words in backticks are code. @param {string} text */
const prose = (text) => text.split('`').map((piece, i) => (i % 2 ? html`<code>${piece}</code>` : piece));

/** @param {any} doc */
const intro = (
  doc,
) => html`<div class="stack operation"><h2>${doc.info?.title ?? 'API'} <span class="muted">${doc.info?.version ?? ''}</span></h2>
  <p class="prose muted">${prose(doc.info?.description ?? '')}</p>
  <p>${t('Choose an operation to see its parameters, copy it as curl, JavaScript, Python or Rust, and run it here.')}</p>
  <p><a href="/openapi.json" download="openapi.json">${t('Download the OpenAPI description')}</a></p></div>`;

/** @param {string} text @returns {unknown} */
function parse(text) {
  try {
    return read(text);
  } catch (error) {
    return new Error(t('The body is not valid JSON: {why}', { why: /** @type {Error} */ (error).message }));
  }
}
