import { html } from '../lib/render.js';
export default () => ({ title: 'Home', view: () => html`<p>…</p>` });
