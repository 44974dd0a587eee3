/**
 * Answers for interfaces that the server may not have yet, in the shapes that the page is written for.
 * With POSTRIDER_UI_REAL=1 nothing is answered here: the same specs then ask the server alone.
 */
export const REAL = process.env.POSTRIDER_UI_REAL === '1';

const json = (route, status, body) =>
  route.fulfill({ status, contentType: 'application/json', body: body === undefined ? '' : JSON.stringify(body) });

/**
 * Answers `METHOD /path` of the page in the server's place; a path's `*` is one part of it. A handler is
 * given the body, the address and the request, and returns a body, or `[status, body]`.
 * @returns {Promise<{calls: {method: string, path: string, body: any, headers: Record<string, string>}[], called: (method: string, path: RegExp) => any[]}>}
 */
export async function standIn(page, answers) {
  const calls = [];
  const known = Object.entries(answers).map(([key, handler]) => {
    const [method, path] = key.split(' ');
    return { method, matches: new RegExp(`^${path.replaceAll('*', '[^/]+')}$`), handler };
  });
  await page.route(/\/(v1|admin|ui\/api)\/(?!events\/stream)/, async (route) => {
    const request = route.request();
    const url = new URL(request.url());
    const body = request.postData() ? JSON.parse(request.postData()) : undefined;
    calls.push({ method: request.method(), path: url.pathname + url.search, body, headers: request.headers() });
    const found = REAL ? undefined : known.find((it) => it.method === request.method() && it.matches.test(url.pathname));
    if (!found) return route.fallback();
    const answer = await found.handler(body, url, request);
    if (Array.isArray(answer)) return json(route, ...answer);
    if (answer?.file) return route.fulfill({ status: 200, contentType: answer.type, body: answer.file });
    return json(route, 200, answer ?? null);
  });
  const called = (method, path) => calls.filter((it) => it.method === method && path.test(it.path));
  return { calls, called };
}

/** A cursor list of one page. */
export const list = (data) => ({ data, next_cursor: null });
/** A page list. */
export const paged = (data) => ({ data, total: data.length, page: 1 });

export const AT = '2026-01-31T09:25:00.000Z';

export const member = (more = {}) => ({
  user_id: 'usr_01jd3v0x5n8m7k2q4r6s8t0w2y', email: 'grace@example.com', name: 'Grace', role: 'agent', totp: true, seen_at: AT, ...more,
});
