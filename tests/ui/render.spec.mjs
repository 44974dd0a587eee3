/** The renderer, in a browser, under the page's own policy. */
import { test, expect } from '@playwright/test';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { APP } from './world.mjs';

const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'";
let server;

test.beforeAll(async () => {
  server = createServer((request, response) => {
    const js = request.url.endsWith('.js');
    response.writeHead(200, { 'Content-Type': js ? 'text/javascript' : 'text/html', 'Content-Security-Policy': POLICY });
    response.end(js ? readFileSync(path.join(APP, 'lib/render.js')) : '<!doctype html><title>t</title><body><div id=a></div></body>');
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
});
test.afterAll(() => server.close());
test.beforeEach(async ({ page }) => {
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.evaluate(async () => { globalThis.r = await import('/render.js'); });
});

test('1,000 random edit scripts give the DOM that a new rendering gives', async ({ page }) => {
  const faults = await page.evaluate(() => {
    const { html, render } = globalThis.r;
    let seed = 7;
    const random = (n) => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) % n;
    const texts = ['', 'a', '<b>x</b>', '&amp;', 'مرحبا'];
    const item = (m) => html`<li key=${m.key} class=${m.cls} data-n="n ${m.n}" ?hidden=${m.hidden}>${m.text}${m.kids ? html`<ul>${m.kids.map(item)}</ul>` : m.n % 2 ? html`<i>${m.n}</i>` : ''} tail ${m.n}</li>`;
    const model = (depth) => {
      const keys = [...Array(random(9)).keys()].map(() => random(14));
      return [...new Set(keys)].map((key) => ({ key, cls: texts[random(5)] || null, n: random(5), hidden: random(3) === 0, text: texts[random(5)], kids: depth && random(3) === 0 ? model(depth - 1) : null }));
    };
    const view = (m) => html`<h2>${m.length}</h2>${m.length % 3 ? html`<p>odd ${m.length}</p>` : null}<ul>${m.map(item)}</ul>${m.length > 4 ? 'many' : html`<svg viewBox="0 0 1 1">${m.map((x) => html`<rect x=${x.n}></rect>`)}</svg>`}`;
    const faults = [];
    for (let script = 0; script < 1000; script++) {
      const live = document.createElement('div');
      document.body.append(live);
      let before = new Map();
      for (let step = 0; step < 4; step++) {
        const m = model(2);
        render(view(m), live);
        const fresh = document.createElement('div');
        render(view(m), fresh);
        if (!live.isEqualNode(fresh)) faults.push(`${script}.${step}: ${live.outerHTML} is not ${fresh.outerHTML}`);
        const nodes = new Map(m.map((x, i) => [x.key, live.querySelector('ul').children[i]]));
        for (const [key, node] of nodes) if (before.has(key) && before.get(key) !== node) faults.push(`${script}.${step}: key ${key} has another node`);
        before = nodes;
      }
      live.remove();
    }
    const svg = document.createElement('div');
    render(html`<svg>${[html`<rect></rect>`]}</svg>`, svg);
    if (svg.firstChild.firstChild.namespaceURI !== 'http://www.w3.org/2000/svg') faults.push('a rect is no SVG');
    return faults.slice(0, 3);
  });
  expect(faults).toEqual([]);
});

test('focus, selection, typed text and scroll survive a move', async ({ page }) => {
  const seen = await page.evaluate(() => {
    const { html, render } = globalThis.r;
    const box = document.querySelector('#a');
    const view = (keys) => html`${keys.map((k) => html`<div key=${k}><input id=${`i${k}`}><pre id=${`p${k}`}>${'x\n'.repeat(50)}</pre></div>`)}`;
    render(view([1, 2, 3]), box);
    const sheet = new CSSStyleSheet();
    sheet.replaceSync('pre { height: 40px; overflow: auto }');
    document.adoptedStyleSheets = [sheet];
    const input = document.querySelector('#i3');
    input.value = 'typed by hand';
    input.focus();
    input.setSelectionRange(2, 5);
    document.querySelector('#p3').scrollTop = 77;
    render(view([3, 1, 4, 2]), box);
    render(view([2, 3]), box);
    return [document.activeElement === input, input.value, input.selectionStart, input.selectionEnd, document.querySelector('#p3').scrollTop, box.children.length];
  });
  expect(seen).toEqual([true, 'typed by hand', 2, 5, 77, 2]);
});

test('a text is never markup, and what could run is refused', async ({ page }) => {
  const seen = await page.evaluate(() => {
    const { html, render } = globalThis.r;
    const box = document.querySelector('#a');
    const bad = '<img src=x onerror=alert(1)>';
    render(html`<p title=${bad}>${bad}</p><a href=${' javascript:alert(1)'}>x</a><b style=${{ color: 'red' }}>y</b>`, box);
    const caught = [];
    for (const make of [() => html`<p onclick=${'alert(1)'}></p>`, () => html`<p .innerHTML=${bad}></p>`, () => html`<iframe srcdoc=${bad}></iframe>`]) {
      try {
        render(make(), document.createElement('div'));
      } catch (error) {
        caught.push(error.name);
      }
    }
    return [box.querySelectorAll('img').length, box.querySelector('p').textContent === bad, box.querySelector('a').hasAttribute('href'), box.querySelector('b').style.color, caught];
  });
  expect(seen).toEqual([0, true, false, 'red', ['TypeError', 'SyntaxError', 'SyntaxError']]);
});

test('listeners go with their nodes, and ref is told of both ends', async ({ page }) => {
  const seen = await page.evaluate(() => {
    const { html, render } = globalThis.r;
    const box = document.querySelector('#a');
    const log = [];
    const view = (on) => html`${on ? html`<button ref=${(node) => log.push(node ? 'come' : 'gone')} onclick=${() => log.push('click')}>x</button>` : ''}<i onclick=${on ? () => log.push('i') : null}>i</i>`;
    render(view(true), box);
    const button = box.querySelector('button');
    button.click();
    box.querySelector('i').click();
    render(view(false), box);
    box.querySelector('i').click();
    return [log, button.isConnected];
  });
  expect(seen).toEqual([['come', 'click', 'i', 'gone'], false]);
});
