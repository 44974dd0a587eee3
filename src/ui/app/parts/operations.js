/**
 * Operations from the OpenAPI description.
 * `needs` is `true` if a call without it is refused.
 * @typedef {{name: string, in: string, description: string, needs: boolean, example: unknown}} Param
 * @typedef {{id: string, tag: string, method: string, path: string, summary: string, description: string, params: Param[], body: any,
 *   example: unknown, needs: boolean}} Operation
 */

/** @param {any} api @returns {Operation[]} */
export function operations(api) {
  const all = [];
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete']) {
      const o = /** @type {any} */ (item)[method];
      if (!o) continue;
      const json = o.requestBody?.content?.['application/json'];
      all.push({
        id: o.operationId ?? `${method} ${path}`,
        tag: o.tags?.[0] ?? '',
        method: method.toUpperCase(),
        path,
        summary: o.summary ?? path,
        description: o.description ?? '',
        params: (o.parameters ?? []).map((/** @type {any} */ p) => ({
          name: p.name,
          in: p.in,
          description: p.description ?? '',
          needs: Boolean(p.required),
          example: p.example ?? p.schema?.example,
        })),
        body: json?.schema ?? null,
        example: json?.example,
        needs: Boolean(o.requestBody?.required),
      });
    }
  }
  // Calls of applications come before those of operators.
  const order = ['OTP', 'Messaging', '', 'Sandbox', 'Dashboard', 'Administration', 'Channel', 'Operation'];
  const rank = (/** @type {string} */ tag) => order.indexOf(order.includes(tag) ? tag : '');
  return all.sort((a, b) => rank(a.tag) - rank(b.tag));
}

/** @param {string} language @param {{method: string, path: string, body?: unknown, headers?: Record<string, string>}} r @returns {string} */
export function snippet(language, r) {
  const url = location.origin + r.path;
  const name = r.path.startsWith('/admin/') ? 'POSTRIDER_ADMIN_TOKEN' : 'POSTRIDER_API_KEY';
  const body = r.body === undefined ? '' : JSON.stringify(r.body, null, 2);
  const more = Object.entries(r.headers ?? {});
  if (language === 'JavaScript') {
    const headers = [
      `Authorization: \`Bearer \${process.env.${name}}\``,
      ...more.map(([k, v]) => `'${k}': ${JSON.stringify(v)}`),
      ...(body ? ["'Content-Type': 'application/json'"] : []),
    ];
    return `const answer = await fetch('${url}',
      {\n  method: '${r.method}',\n  headers: { ${headers.join(', ')} },${body ? `\n  body: JSON.stringify(${body.replaceAll('\n', '\n  ')}),` : ''}\n});\nconsole.log(answer.status, await answer.text());`;
  }
  if (language === 'Python') {
    const headers = [
      `"Authorization": f"Bearer {os.environ['${name}']}"`,
      ...more.map(([k, v]) => `"${k}": ${JSON.stringify(v)}`),
      ...(body ? ['"Content-Type": "application/json"'] : []),
    ];
    const data = body ? `,\n    data=json.dumps(json.loads(r'''${body}''')).encode()` : '';
    return `import json, os, urllib.request\n\nrequest = urllib.request.Request(\n    "${url}",
      method="${r.method}",\n    headers={${headers.join(', ')}}${data})\nwith urllib.request.urlopen(request) as answer:\n    print(answer.status, answer.read().decode())`;
  }
  const calls = [
    `.${r.method.toLowerCase()}("${url}")`,
    `.bearer_auth(std::env::var("${name}")?)`,
    ...more.map(([k, v]) => `.header("${k}", ${JSON.stringify(v)})`),
  ];
  if (body) calls.push(`.json(&serde_json::json!(${body.replaceAll('\n', '\n        ')}))`);
  return `// reqwest = { features = ["blocking", "json"] }, serde_json\nfn main() -> Result<(), Box<dyn std::error::Error>> {\n    let answer = reqwest::blocking::Client::new()\n        ${calls.join('\n        ')}\n        .send()?;\n    println!("{} {}", answer.status(), answer.text()?);\n    Ok(())\n}`;
}
