/**
 * Operations out of the OpenAPI description.
 * @typedef {{name: string, in: string, description: string}} Param
 * @typedef {{id: string, tag: string, method: string, path: string, summary: string, description: string, params: Param[], body: any}} Operation
 */

/** @param {any} api @returns {Operation[]} */
export function operations(api) {
  const all = [];
  for (const [path, item] of Object.entries(api.paths ?? {})) {
    for (const method of ['get', 'post', 'put', 'patch', 'delete']) {
      const o = /** @type {any} */ (item)[method];
      if (!o) continue;
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
        })),
        body: o.requestBody?.content?.['application/json']?.schema ?? null,
      });
    }
  }
  // What an application calls comes before what an operator does.
  const order = ['OTP', 'Messaging', '', 'Sandbox', 'Dashboard', 'Administration', 'Channel', 'Operation'];
  const rank = (/** @type {string} */ tag) => order.indexOf(order.includes(tag) ? tag : '');
  return all.sort((a, b) => rank(a.tag) - rank(b.tag));
}

/** A value that fits a schema: its example, or what it requires. @param {any} schema @param {any} api @param {number} [depth] @returns {any} */
export function sample(schema, api, depth = 0) {
  if (!schema || depth > 6) return null;
  if (schema.$ref) return sample(api.components.schemas[schema.$ref.split('/').pop()], api, depth + 1);
  if (schema.example !== undefined) return schema.example;
  if (schema.examples?.[0] !== undefined) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return schema.enum.find((/** @type {any} */ v) => v !== null);
  if (schema.allOf)
    return schema.allOf
      .map((/** @type {any} */ s) => sample(s, api, depth + 1))
      .reduce((/** @type {any} */ a, /** @type {any} */ b) => merge(a, b), {});
  const either = schema.oneOf ?? schema.anyOf;
  if (either && !schema.properties)
    return sample(either.find((/** @type {any} */ s) => s.type !== 'null') ?? either[0], api, depth + 1);
  const type = Array.isArray(schema.type) ? schema.type.find((/** @type {string} */ x) => x !== 'null') : schema.type;
  if (type === 'object' || schema.properties) {
    const required = new Set(schema.required ?? []);
    const names = Object.keys(schema.properties ?? {}).filter((name) => required.has(name) || required.size === 0);
    return Object.fromEntries(
      names.slice(0, 8).map((name) => [name, sample(schema.properties[name], api, depth + 1) ?? guess(name)]),
    );
  }
  if (type === 'array') return [sample(schema.items, api, depth + 1)].filter((v) => v !== null);
  if (type === 'integer' || type === 'number') return schema.minimum ?? 0;
  return type === 'boolean' ? true : type === 'string' ? '' : null;
}

/** @param {any} a @param {any} b */
const merge = (a, b) =>
  a && b && typeof a === 'object' && typeof b === 'object'
    ? { ...b, ...Object.fromEntries(Object.entries(a).filter(([, v]) => v !== null && v !== '')) }
    : (b ?? a);
/** @param {string} name */
const guess = (name) => (/phone|^to$|from/.test(name) ? '+15550123456' : '');

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
