// Writes src/generated: `npm run generate -- http://127.0.0.1:8080` or a file.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

import openapiTS, { astToString } from "openapi-typescript";

import { Document, FREE, camel } from "./document.mjs";

const target = new URL("../src/generated/", import.meta.url);
const names = new URL("../../operations.json", import.meta.url);

async function read(source) {
  if (!/^https?:/.test(source)) return JSON.parse(readFileSync(source, "utf8"));
  const url = source.endsWith(".json") ? source : `${source.replace(/\/+$/, "")}/openapi.json`;
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answers ${answer.status}`);
  return answer.json();
}

/** The document that types are made from: our names, and of operations only the queries. */
function typed(document) {
  const paths = {};
  for (const { id, path, method, query } of document.operations) {
    const parameters = query.map((it) => ({ ...it, name: camel(it.name) }));
    const responses = { default: { description: "" } };
    paths[path] = { ...paths[path], [method.toLowerCase()]: { operationId: id, parameters, responses } };
  }
  for (const [path, item] of Object.entries(paths)) {
    const parameters = [...path.matchAll(/{(\w+)}/g)].map(([, name]) => (
      { name, in: "path", required: true, schema: { type: "string" } }));
    item.parameters = parameters;
  }
  const { openapi, info } = document.text;
  return { openapi, info, paths, components: { schemas: document.schemas } };
}

const comment = (text) => `/** ${text.replace(/\s+/g, " ").replaceAll("*/", "* /")} */`;
const typeOf = (name) => (name === "EventRow" ? "Event" : `S["${name}"]`);

function method(it) {
  const path = it.path.replace(/{(\w+)}/g, (_, name) => `\${id(${camel(name)})}`);
  const places = it.arguments.map((name) => `${name}: string`);
  if (it.kind === "events") {
    return `  ${comment(it.about)}
  ${it.names.at(-1)}(from: StreamFrom = {}): EventStream {
    return new EventStream(this.#transport, { method: "GET", path: \`${path}\` }, from);
  }`;
  }
  const call = [`method: "${it.method}"`, `path: \`${path}\``];
  const options = it.isKeyed ? "KeyedOptions" : "Options";
  const parts = [...places];
  let before = "";
  if (it.uploads) {
    parts.push("content: FileContent", `params: { contentType: string } & Query<"${it.id}">`);
    before = "    const { contentType, ...query } = params;\n";
    call.push("query, upload: new Upload(content, contentType)");
  } else if (it.body) {
    const optional = document.schemas[it.body].required.length === 0 ? " = {}" : "";
    const type = `S["${it.body}"]${it.waits ? " & Waiting" : ""}`;
    parts.push(it.bodyIsOptional ? `params?: ${type}` : `params: ${type}${optional}`);
    if (it.waits) before = "    const { wait, ...body } = params;\n";
    if (it.waits) call.push("body, wait");
    else call.push(it.bodyIsOptional ? "...(params && { body: params })" : "body: params");
  } else if (it.query.length > 0) {
    const isNeeded = it.query.some((parameter) => parameter.required);
    parts.push(`query: Query<"${it.id}">${isNeeded ? "" : " = {}"}`);
    call.push("query");
  }
  if (it.infersType) call.push("infersType: true");
  if (it.isKeyed) call.push("isKeyed: true");
  if (it.isAdmin) call.push("isAdmin: true");
  call.push("options");
  parts.push(`options: ${options} = {}`);
  const one = `{ ${call.join(", ")} }`;
  const kinds = {
    nothing: ["Promise<void>", `this.#transport.nothing(${one})`],
    file: ["Download", `new Download(this.#transport, ${one})`],
    one: [`Promise<${typeOf(it.answer)}>`, `this.#transport.answer(${one})`],
    lines: [`Export<${typeOf(it.answer)}>`, `new Export(this.#transport, ${one})`],
    pages: [`Pages<${typeOf(it.row)}, ${typeOf(it.answer)}>`,
      `new Pages<${typeOf(it.row)}, ${typeOf(it.answer)}>(this.#transport, ${one}, nextPage)`],
    cursors: [`Pages<${typeOf(it.row)}, ${typeOf(it.answer)}>`,
      `new Pages<${typeOf(it.row)}, ${typeOf(it.answer)}>(this.#transport, ${one}, nextCursor)`],
  };
  const [type, value] = kinds[it.kind];
  return `  ${comment(it.about)}
  ${it.names.at(-1)}(${parts.join(", ")}): ${type} {
${before}    return ${value};
  }`;
}

function resources() {
  const tree = new Map();
  for (const it of document.operations) {
    const resource = it.names.slice(0, -1).join(".");
    tree.set(resource, [...(tree.get(resource) ?? []), it]);
  }
  const className = (resource) => resource.split(".")
    .map((part) => part[0].toUpperCase() + part.slice(1)).join("");
  const classes = [...tree].map(([resource, methods]) => `${comment(`\`client.${resource}\`.`)}
export class ${className(resource)} {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

${methods.map(method).join("\n\n")}
}`);
  const group = (name, about, members) => `${comment(about)}
export class ${name} {
${members.map((it) => `  readonly ${it.split(".").at(-1)}: ${className(it)};`).join("\n")}

  constructor(transport: Transport) {
${members.map((it) => `    this.${it.split(".").at(-1)} = new ${className(it)}(transport);`).join("\n")}
  }
}`;
  const below = [...tree.keys()].filter((it) => it.startsWith("admin."));
  const roots = [...tree.keys()].filter((it) => !it.startsWith("admin."));
  return [...classes, group("Admin", "What an admin token may do.", below),
    group("Resources", "All methods, by what they are about.", [...roots, "admin"])].join("\n\n");
}

if (process.argv.length !== 3) {
  console.error("usage: npm run generate -- URL|FILE");
  process.exit(1);
}
const document = new Document(await read(process.argv[2]), JSON.parse(readFileSync(names, "utf8")));
const schema = astToString(await openapiTS(typed(document), {
  defaultNonNullable: false, emptyObjectsUnknown: true, silent: true,
}));
const note = "// Made from /openapi.json; do not edit.\n";
const quoted = (list) => list.map((it) => JSON.stringify(it)).join(" | ");
const files = {
  "schema.ts": schema,
  "names.ts": `${note}
/** Fields below which names are the user's own. */
export const FREE: ReadonlySet<string> = new Set(${JSON.stringify([...FREE, ...FREE.map(camel)])});
/** Names that no rule leads back to those of the server. */
export const IRREGULAR: Readonly<Record<string, string>> = ${JSON.stringify(document.irregular)};
/** The \`code\` of the server's errors. */
export type ErrorCode = ${quoted(document.codes())};
`,
  "resources.ts": `${note}
import { id, type KeyedOptions, type Options, type Waiting } from "../call.js";
import type { Event, Query, S } from "../types.js";
import { nextCursor, nextPage, Pages } from "../pages.js";
import { Download, EventStream, Export, type StreamFrom } from "../stream.js";
import type { Transport } from "../transport.js";
import { type FileContent, Upload } from "../upload.js";

${resources()}
`,
  "events.ts": `${note}
import type { components } from "./schema.js";

type S = components["schemas"];

/** What happens in a workspace. What a later server adds is of none of these types. */
export type Event = ${document.events.map((it) => `\n  | S["${it}"]`).join("")};
`,
};
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(new URL(name, target), text);
