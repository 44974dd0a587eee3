import { fault } from '../import/check.js';
import { chooseCountry, chosenCountry, countryOptions } from '../import/countries.js';
import { choices, guess, inWords, REFUSED } from '../import/map.js';
import { dropPlace } from '../import/place.js';
import { toContact } from '../import/rows.js';
import { Import } from '../import/run.js';
import { csvCell, download, on } from '../lib/dom.js';
import { readable } from '../lib/exact.js';
import { bytes, number } from '../lib/format.js';
import { list, t } from '../lib/i18n.js';
import { icon } from '../lib/icons.js';
import { html, refresh } from '../lib/render.js';
import { problem } from '../parts/empty.js';
import { button, select } from '../parts/form.js';
import { figure, label } from '../parts/status.js';
import { table } from '../parts/table.js';

/** @typedef {import('../import/rows.js').Meaning} Meaning */

/** Returns the rows that the server has refused, or would refuse. @param {Import} run */
const refusedRows = (run) => (run.refused.length ? run.refused : (run.checked ?? []));

/** @returns {import('../lib/types.js').Page} */
export default function page() {
  /** @type {Import | null} */
  let run = null;
  /** @type {any} */
  let error = null;
  let over = false;

  /** @param {File | undefined} file */
  const choose = async (file) => {
    if (!file) return;
    run?.close();
    error = null;
    run = new Import(file);
    const mine = run;
    try {
      await run.readHead();
      run.meanings = guess(run.head);
      run.country = chosenCountry();
      await run.count();
    } catch (e) {
      if (run === mine) error = e;
    }
    refresh();
  };
  const again = async () => {
    if (!run) return;
    await dropPlace(run.hash);
    await choose(run.file);
  };
  const picker = () => html`<div class=${`drop ${over ? 'over' : ''}`} ondragover=${on((e) => {
    e.preventDefault();
    over = true;
  })} ondragleave=${() => {
    over = false;
  }}
      ondrop=${on((e) => {
        e.preventDefault();
        over = false;
        return choose(e.dataTransfer.files[0]);
      })}>
    ${icon('upload')}<label for="csv-file">${t('CSV file')}</label>
    <input id="csv-file" type="file" accept=".csv,text/csv,text/plain" onchange=${on((e) => choose(e.target.files[0]))}>
    <p class="hint">${t('Or drop a file here. The first row must contain the column names. Use UTF-8, UTF-16 or Latin-1, and separate columns with commas, semicolons or tabs.')}</p></div>`;

  /** @param {Import} r */
  const mapping = (r) => html`<section class="card stack"><h2>${t('Map columns')}</h2>
    <div class="columns mapping">${r.head.map(
      (column, i) =>
        html`<div key=${i}>${select({
          label: column || t('Column {n}', { n: i + 1 }),
          value: r.meanings[i] ?? '',
          options: choices(column),
          disabled: r.done > 0,
          change: (v) => {
            r.meanings[i] = /** @type {Meaning} */ (v);
            r.checked = null;
          },
        })}</div>`,
    )}</div>
    ${r.meanings.includes('phone') ? select({
      label: t('Country for local numbers'),
      value: r.country,
      disabled: r.done > 0,
      options: countryOptions(t('None (refuse these rows)')),
      hint: t('Applies to phone numbers without +. Spaces and punctuation are removed, and 00 becomes +.'),
      change: (v) => {
        r.country = v;
        r.checked = null;
        chooseCountry(v);
      },
    }) : ''}
    ${select({
      label: t('Duplicate phone numbers'),
      value: r.conflict,
      disabled: r.done > 0,
      change: (v) => {
        r.conflict = v;
        r.checked = null;
      },
      options: [
        ['refuse', t('Refuse the row')],
        ['skip', t('Keep existing contact')],
        ['update', t('Update existing contact')],
      ],
    })}
    <h3>${t('Preview')}</h3>${sample(r)}
    <div class="row">${button(t('Check'), () => r.check(), { disabled: r.state !== 'ready' || !r.meanings.includes('name'), busy: r.checking })}
      ${button(t('Import'), () => r.run(), { kind: 'primary', disabled: r.state !== 'ready' || !r.meanings.includes('name') || r.rows === 0 })}
      <span class="muted">${r.state === 'read' ? t('Reading…') : t('{n} rows', { n: r.rows })}${r.meanings.includes('name') ? ''
        : html` · <span class="error" role="alert">${t('Map one column to Name.')}</span>`}</span></div>
    <p role="status" aria-label=${t('Check')}>${found(r)}</p></section>`;

  /** Returns the result of the check, in words. @param {Import} r */
  const found = (r) => {
    if (r.checking) return t('Checking…');
    if (!r.checked) return '';
    return r.checked.length
      ? label('warning', 'warning', t('{n} rows would be refused', { n: r.checked.length }))
      : label('good', 'check', t('No rows would be refused'));
  };

  /** @param {Import} r */
  const sample = (r) =>
    table({
      label: t('Preview'),
      rows: r.sample,
      key: (row) => String(row.line),
      columns: [
        { name: t('Row'), kind: 'num', cell: (row) => number(row.line) },
        {
          name: t('Name'),
          cell: (row) => html`<span dir="auto">${toContact(row.cells, r.how).contact.name || '–'}</span>`,
        },
        {
          name: t('Phone'),
          cell: (row) => {
            const sent = toContact(row.cells, r.how).contact.phone;
            const written = row.cells[r.meanings.indexOf('phone')] ?? '';
            return html`<span><bdi class="nowrap-text" dir="ltr">${sent || written || '–'}</bdi>${sent && sent !== written
              ? html` <bdi class="muted" dir="ltr">${written}</bdi>` : ''}</span>`;
          },
        },
        { name: t('E-mail'), cell: (row) => toContact(row.cells, r.how).contact.email || '–' },
        { name: t('Tags'), cell: (row) => list(toContact(row.cells, r.how).contact.tags ?? []) || '–' },
        {
          name: t('Custom fields'),
          cell: (row) =>
            Object.entries(toContact(row.cells, r.how).contact.custom_fields ?? {})
              .map(([k, v]) => `${k}: ${readable(v)}`)
              .join(', ') || '–',
        },
        {
          name: t('Check'),
          cell: (row) => {
            const { contact, wrong: unread } = toContact(row.cells, r.how);
            const wrong = unread ?? fault(contact);
            return wrong ? html`<span class="error">${wrong.column} ${inWords(wrong.reason)}</span>` : t('No issues');
          },
        },
      ],
    });

  /** @param {Import} r */
  const progress = (r) => html`<section class="card stack">
    <div class="progress" role="progressbar" aria-label=${t('Import')} aria-valuemin="0" aria-valuenow=${r.done}
      aria-valuemax=${r.rows}><i style=${{ 'inline-size': `${(100 * r.done) / Math.max(1, r.rows)}%` }}></i></div>
    <dl class="figures">${figure(t('Imported'), html`<span role="status" aria-label=${t('Imported')}>${number(r.imported)}</span>`)}
      ${figure(t('Refused'), html`<span role="status" aria-label=${t('Refused')}>${number(r.refused.length)}</span>`)}
      ${r.conflict === 'skip' ? figure(t('Skipped'), number(r.skipped)) : ''}${figure(t('Rows'), html`${number(r.done)} / ${number(r.rows)}`)}</dl>
    ${r.error && !r.error.paused ? problem(r.error, () => r.run()) : ''}
    <div class="row">${button(t('Pause'), () => r.pause(), { disabled: r.state !== 'running' })}${button(t('Resume'),
      () => r.run(), { disabled: !['paused', 'failed'].includes(r.state), kind: r.state === 'paused' ? 'primary' : '' })}
      <span class="muted">${r.waiting ? t('Waiting for the server…') : r.state === 'done' ? t('Done') : r.state === 'paused'
        ? t('The import resumes where it stopped, even if you reload the page and choose the same file again.') : ''}</span>
      <span class="grow"></span>${r.state === 'done' ? html`<a class="button primary" href="/ui/contacts">${t('View contacts')}
        </a>${button(t('Import again'), again, { kind: 'quiet' })}` : ''}</div></section>`;

  return {
    title: 'Import contacts',
    open(_, signal) {
      signal.addEventListener('abort', () => {
        run?.pause();
        run?.close();
      });
    },
    view: () => html`<div class="stack">${picker()}${problem(error)}
      ${
        run
          ? html`<p class="muted">${run.file.name} · ${bytes(run.file.size)}</p>${run.head.length ? mapping(run) : ''}
        ${run.state === 'running' || run.done > 0 || run.state === 'failed' || run.state === 'done' ? progress(run) : ''}
        ${run.checked && run.rewrites ? rewrittenView(run.rewritten, run.rewrites) : ''}
        ${refusedRows(run).length ? refusedView(run.file.name, run.head, refusedRows(run)) : ''}`
          : ''
      }</div>`,
  };
}

/** Phones that are sent in another form than in the file. @param {import('../import/rows.js').Rewritten[]} rows @param {number} count of them all */
const rewrittenView = (rows, count) => html`<section class="section"><h2>${t('Reformatted phone numbers')}</h2>
  ${table({
    label: t('Reformatted phone numbers'),
    rows,
    key: (r) => String(r.row),
    columns: [
      { name: t('Row'), kind: 'num', cell: (r) => number(r.row) },
      { name: t('In the file'), cell: (r) => html`<bdi dir="ltr">${r.written}</bdi>` },
      { name: t('Imported as'), cell: (r) => html`<bdi dir="ltr">${r.sent}</bdi>` },
    ],
  })}
  ${count > rows.length ? html`<p class="hint foot">${t('{shown} of {n}', { shown: rows.length, n: count })}</p>` : ''}</section>`;

/** @typedef {import('../import/rows.js').Refused} Refused */
const SHOWN = 100;

/** Returns the refused rows with their reasons before them, ready to be corrected and imported.
 * @param {string[]} head @param {Refused[]} refused */
function refusedCsv(head, refused) {
  const again = REFUSED.every((name, i) => head[i] === name);
  const own = again ? head.slice(REFUSED.length) : head;
  const lines = [[...REFUSED, ...own]];
  for (const r of refused)
    lines.push([String(r.row), r.column, r.value, r.reason, ...(again ? r.cells.slice(REFUSED.length) : r.cells)]);
  return lines.map((cells) => cells.map(csvCell).join(',')).join('\r\n') + '\r\n';
}

/** @param {string} name of the file @param {string[]} head @param {Refused[]} refused */
const refusedView = (name, head, refused) => html`<section class="section">
  <div class="card-head"><h2>${t('Refused rows')}</h2>
    <a class="button" href="#refused" role="link" download=${`refused-${name}`} onclick=${on((e) => {
      e.preventDefault();
      download(`refused-${name}`, ['\ufeff', refusedCsv(head, refused)], 'text/csv');
    })}>${t('Download refused rows')}</a></div>
  <p class="muted">${t('Fix the rows in the downloaded file, then import that file. Its first four columns are ignored.')}</p>
  ${table({
    label: t('Refused rows'),
    rows: refused.slice(0, SHOWN),
    key: (r) => String(r.row),
    columns: [
      { name: t('Row'), kind: 'num', cell: (r) => number(r.row) },
      { name: t('Column'), cell: (r) => r.column || '–' },
      { name: t('Value'), cell: (r) => html`<span dir="auto">${r.value || '–'}</span>` },
      { name: t('Reason'), cell: (r) => r.reason },
    ],
  })}
  ${refused.length > SHOWN ? html`<p class="hint foot">${t('Showing the first {n}. The download includes everything.', { n: SHOWN })}</p>` : ''}</section>`;
