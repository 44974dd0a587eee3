import { part, post, remove } from '../lib/api.js';
import { submit } from '../lib/dom.js';
import { icon } from '../lib/icons.js';
import { dateTime, time, words } from '../lib/format.js';
import { t } from '../lib/i18n.js';
import { html } from '../lib/render.js';
import { can } from '../lib/session.js';
import { Rows } from '../lib/store.js';
import { attempt, dialog, notify, overlay } from './dialog.js';
import { empty, shown } from './empty.js';
import { button, e164, errorFor, field, formError, phoneNote } from './form.js';
import { moreButton, table } from './table.js';

/** @typedef {import('../lib/types.js').Suppression} Suppression */

export function suppressions() {
  /** @type {AbortSignal} */
  let signal;
  const rows = new Rows(
    '/v1/suppressions',
    () => ({}),
    (/** @type {Suppression} */ s) => s.phone ?? s.user_id ?? s.created_at,
  );
  const add = () => {
    const state = { phone: '', reason: '', error: /** @type {any} */ (null) };
    const save = async () => {
      try {
        await post('/v1/suppressions', {
          phone: await e164(state.phone),
          ...(state.reason.trim() ? { reason: state.reason.trim() } : {}),
        });
        close();
        await rows.load(signal);
      } catch (error) {
        state.error = error;
      }
    };
    const close = overlay(() =>
      dialog(
        t('Add opt-out'),
        () => close(),
        html`<form class="stack" onsubmit=${submit(save)}>
      ${field({
        label: t('Phone'),
        type: 'tel',
        value: state.phone,
        input: (v) => {
          state.phone = v;
        },
        required: true,
        focus: true,
        dir: 'ltr',
        error: errorFor(state.error, 'phone'),
      })}${phoneNote(state.phone)}
      ${field({
        label: t('Reason'),
        value: state.reason,
        input: (v) => {
          state.reason = v;
        },
        error: errorFor(state.error, 'reason'),
      })}${formError(state.error, ['phone', 'reason'])}<div class="row end"><button class="primary">${t('Opt out')}</button></div></form>`,
        { kind: 'small' },
      ),
    );
  };
  /** @param {Suppression} s */
  const drop = (s) =>
    attempt(async () => {
      await remove(`/v1/suppressions/${part(rows.id(s))}`);
      rows.drop(rows.id(s));
      notify(t('Opt-out removed'), { undo: () => attempt(() => optOut(s)) });
    });
  /** @param {Suppression} s taken back by mistake */
  const optOut = async (s) => {
    const { phone, user_id, reason } = s;
    await post('/v1/suppressions', { ...(phone ? { phone } : { user_id }), ...(reason ? { reason } : {}) });
    await rows.load(signal);
  };
  return {
    /** @param {AbortSignal} s */
    open(s) {
      signal = s;
      return rows.load(s);
    },
    view: () => html`${can('contacts:write') ? html`<div class="row end tab-actions"><button type="button" onclick=${add}>
      ${icon('plus')}${t('Add opt-out')}</button></div>` : ''}
      ${shown(
        rows,
        () =>
          html`${table({
            label: t('Opt-outs'),
            rows: rows.rows,
            key: rows.id,
            columns: [
              { name: t('Phone'), cell: (s) => html`<span dir="ltr">${s.phone ?? s.user_id}</span>` },
              { name: t('Reason'), cell: (s) => html`<span dir="auto">${s.reason ?? '–'}</span>` },
              { name: t('By'), cell: (s) => words(s.source) },
              { name: t('Since'), cell: (s) => time(s.created_at, dateTime) },
            ],
            ...(can('contacts:write')
              ? { actions: (/** @type {Suppression} */ s) => button(t('Remove opt-out'), () => drop(s)) }
              : {}),
          })}${moreButton(rows)}`,
        () =>
          empty({
            icon: 'stop',
            title: t('No opt-outs yet'),
            text: t('People who send STOP receive no broadcasts or marketing messages. You can also opt people out here or through the API.'),
          }),
      )}`,
  };
}
