// Reads an OpenAPI document as far as Postrider's uses the standard; anything else is refused.

const METHODS = ["get", "post", "put", "patch", "delete"];
// Lists whose items the document leaves open, because a bad one is answered by itself.
const ITEMS = { "BatchBody.contacts": "ContactInput" };
// Streams of lines, each of them one of these.
const LINES = { exportContacts: "Contact" };
// Bodies whose `type` is the name of the field that is given beside it.
const INFERRED = new Set(["SendMessage", "Reply"]);
// Fields below which names are the user's own, so that they are not rewritten.
export const FREE = [
  "applied", "changes", "channels", "components", "contacts", "content", "custom_fields", "headers",
  "interactive", "metadata", "phones", "settings", "webhook_fields_seen",
];
// `data` of an event is typed by the event.
const TYPED_ELSEWHERE = new Set(["EventRow.data"]);

export const camel = (name) => name.replace(/_([a-z0-9])/g, (_, letter) => letter.toUpperCase());
const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);

export const reference = (schema) => {
  if (!schema?.$ref) throw new Error(`${JSON.stringify(schema)} is no reference`);
  return schema.$ref.split("/").at(-1);
};

const FILE = "application/octet-stream";
const takesFile = ({ requestBody }) => FILE in (requestBody?.content ?? {});
const answersFile = ({ responses }) => FILE in (responses["200"]?.content ?? {});
/** Whether it moves a whole workspace, which commands do and this client does not. */
const isArchive = (path, operation) =>
  path.startsWith("/admin/") && (takesFile(operation) || answersFile(operation));

/** The document's schemas with our names, each flat, and its operations. */
export class Document {
  constructor(text, names) {
    this.text = text;
    this.irregular = {};
    this.schemas = {};
    for (const name of Object.keys(text.components.schemas)) {
      this.schemas[name] = this.schema(name);
    }
    this.operations = this.readOperations(names);
    this.events = Object.keys(text.webhooks).map((name) => `Event-${name}`);
  }

  /** Merges the parts of a schema. Of alternatives only what they have in common stays: the server
   * says clearly what is missing. */
  flat(schema, name) {
    const parts = schema.allOf ?? [schema];
    const found = { type: "object", properties: {}, required: [] };
    if (schema.description) found.description = schema.description;
    for (let part of parts) {
      if (part.$ref) part = this.flat(this.text.components.schemas[reference(part)]);
      if (part.oneOf) continue;
      Object.assign(found.properties, part.properties);
      found.required = [...new Set([...found.required, ...(part.required ?? [])])];
    }
    if (INFERRED.has(name)) found.required = found.required.filter((it) => it !== "type");
    return found;
  }

  schema(name) {
    const raw = this.text.components.schemas[name];
    if (raw.enum || raw.oneOf) return raw;
    const { properties, required, ...rest } = this.flat(raw, name);
    const renamed = {};
    for (const [key, value] of Object.entries(properties)) {
      const place = `${name}.${key}`;
      if (this.isFree(value) && !FREE.includes(key) && !TYPED_ELSEWHERE.has(place)) {
        throw new Error(`${place} has names of its own and is not in FREE`);
      }
      if (snake(camel(key)) !== key) this.irregular[camel(key)] = key;
      renamed[camel(key)] = ITEMS[place]
        ? { ...value, items: { $ref: `#/components/schemas/${ITEMS[place]}` } }
        : value;
    }
    return { ...rest, properties: renamed, required: required.map(camel) };
  }

  isFree(schema) {
    const kinds = [schema.type].flat();
    if (kinds.includes("array")) return this.isFree(schema.items);
    return kinds.includes("object") && !schema.properties;
  }

  readOperations(names) {
    const raw = {};
    for (const [path, item] of Object.entries(this.text.paths)) {
      if (!/^\/(admin\/)?v1\//.test(path)) continue;
      for (const method of METHODS.filter((it) => item[it] && !isArchive(path, item[it]))) {
        raw[item[method].operationId] = { path, method, operation: item[method] };
      }
    }
    for (const id of [...Object.keys(raw), ...Object.keys(names)]) {
      if (!raw[id] || !names[id]) {
        throw new Error(`${id} stands only in one of the document and operations.json`);
      }
    }
    const found = [];
    for (const [id, { path, method, operation }] of Object.entries(raw)) {
      const same = /^same as (\w+)$/.exec(names[id])?.[1];
      if (!same) {
        found.push(this.operation(id, names[id].split(".").map(camel), path, method, operation));
        continue;
      }
      for (const part of ["requestBody", "parameters", "responses"]) {
        if (JSON.stringify(operation[part]) !== JSON.stringify(raw[same].operation[part])) {
          throw new Error(`${id} differs from ${same}`);
        }
      }
    }
    return found;
  }

  operation(id, names, path, method, raw) {
    const parameters = raw.parameters ?? [];
    const query = parameters.filter((it) => it.in === "query");
    const headers = parameters.filter((it) => it.in === "header").map((it) => it.name);
    const uploads = takesFile(raw);
    const given = uploads ? undefined : raw.requestBody?.content["application/json"].schema;
    const body = given && reference(given);
    if (body && query.length > 0) throw new Error(`${id} has a query and a body`);
    for (const { name } of query) {
      if (snake(camel(name)) !== name) this.irregular[camel(name)] = name;
    }
    return {
      id, names, path, method: method.toUpperCase(), query, body, uploads,
      bodyIsOptional: raw.requestBody?.required !== true,
      about: `${raw.summary}. ${raw.description ?? ""}`.trim(),
      arguments: [...path.matchAll(/{(\w+)}/g)].map((it) => camel(it[1])),
      isKeyed: headers.includes("Idempotency-Key"),
      waits: headers.includes("Prefer"),
      infersType: INFERRED.has(body),
      isAdmin: names[0] === "admin",
      ...this.answer(raw, query.map((it) => it.name)),
    };
  }

  /** How an operation answers, and with what. */
  answer(raw, query) {
    if (answersFile(raw)) return { kind: "file" };
    const [good] = Object.entries(raw.responses).filter(([status]) => status.startsWith("2"));
    const [media, content] = Object.entries(good[1].content ?? {})[0] ?? [];
    if (!media) return { kind: "nothing" };
    if (media === "text/event-stream") return { kind: "events" };
    if (media === "application/x-ndjson") return { kind: "lines", answer: LINES[raw.operationId] };
    const answer = reference(content.schema);
    const fields = this.schemas[answer].properties;
    const row = () => reference(fields.data.items);
    if (fields.data && fields.page && query.includes("page")) {
      return { kind: "pages", answer, row: row() };
    }
    if (fields.data && fields.nextCursor && query.includes("cursor")) {
      return { kind: "cursors", answer, row: row() };
    }
    return { kind: "one", answer };
  }

  /** Every code of an error, from what the operations say of their refusals. */
  codes() {
    const found = new Set(["METHOD_NOT_ALLOWED"]);
    for (const item of Object.values(this.text.paths)) {
      for (const operation of Object.values(item)) {
        for (const [status, answer] of Object.entries(operation.responses)) {
          const told = status.startsWith("2") ? [] : answer.description.matchAll(/`([A-Z_]+)`/g);
          for (const [, code] of told) found.add(code);
        }
      }
    }
    return [...found].sort();
  }
}
