/**
 * The shapes that pages name. Those that `/openapi.json` describes come from there, so a field that is
 * renamed is an error of `tsc`.
 *
 * @typedef {import('#openapi').components['schemas']} Schemas
 * @typedef {Schemas['Contact']} Contact
 * @typedef {Schemas['Broadcast']} Broadcast
 * @typedef {Schemas['BroadcastRecipient']} Recipient
 * @typedef {Schemas['Segment']} Segment
 * @typedef {Schemas['TemplateRow']} Template
 * @typedef {Schemas['Message']} Message
 * @typedef {Schemas['KeyRow']} Key
 * @typedef {Schemas['WebhookRow'] & {health?: Health, previous_secret_ends_at?: string | null}} Webhook
 * @typedef {Schemas['DeliveryRow']} Delivery
 * @typedef {Schemas['Conversation']} Conversation
 * @typedef {Schemas['ConversationMessage']} Written
 * @typedef {Schemas['Suppression']} Suppression
 * @typedef {Schemas['AuditRecordRow']} Audit
 * @typedef {Schemas['WorkspaceAnswer']} WorkspaceRow
 * @typedef {Schemas['Otp']} Otp
 * The health in an endpoint's row, if there is one.
 * @typedef {Schemas['WebhookRow'] extends {health: infer H} ? NonNullable<H> : {success_24h: number | null, p95_ms: number | null,
 *   waiting: number, oldest_seconds: number | null, breaker_open: boolean}} Health
 * @typedef {{tags_any?: string[], tags_all?: string[], tags_none?: string[], search?: string,
 *   custom_fields?: Record<string, unknown>, custom_fields_exist?: string[]}} Filter
 *
 * The page's own:
 *
 * @typedef {Record<string, string>} Params
 * @typedef {{
 *   title: string | (() => string), open?: (params: Params, signal: AbortSignal) => unknown, view: () => unknown,
 *   actions?: () => unknown, onEvent?: (event: LiveEvent) => unknown, wide?: boolean,
 *   resync?: () => unknown, changed?: (params: Params) => unknown
 * }} Page
 * @typedef {{path: string, file: string, may?: string, open?: boolean, menu?: [group: string, title: string, icon: string]}} Route
 * @typedef {{id: string, type: string, timestamp: string, sequence: number, data: any}} LiveEvent
 * @typedef {'Live' | 'Reconnecting' | 'Offline'} LiveState
 * @typedef {{id: string, name: string, role: string | null}} Workspace
 * @typedef {{principal: {kind: string, id: string, name: string, email?: string}, workspace: {id: string, name: string} | null,
 *   role: string | null, operator: boolean, permissions: string[], workspaces: Workspace[], sandbox: boolean, now: string,
 *   offset_seconds: number, elevated_until: string | null, features: {oidc: boolean, email: boolean}, version: string}} Me
 * @typedef {{method: string, path: string, body?: unknown, headers: Record<string, string>, status: number, answer: unknown, at: number}} Call
 * `text` is a body that is JSON already; of a `raw` call the answer is given as text.
 * @typedef {{query?: Record<string, unknown>, body?: unknown, text?: string, raw?: boolean, key?: string, headers?: Record<string, string>,
 *   signal?: AbortSignal | undefined, quiet?: boolean, file?: Blob}} Options
 * @typedef {{label: string, value?: string, input?: (value: string) => unknown, type?: string, hint?: unknown, error?: string | null,
 *   placeholder?: string, autocomplete?: string, rows?: number, required?: boolean, readonly?: boolean, mono?: boolean, focus?: boolean,
 *   inputmode?: string, dir?: string, max?: number, keydown?: (e: any) => unknown, list?: string[], hidden?: boolean, inside?: unknown,
 *   invalid?: (e: any) => unknown, ref?: (node: any, closed?: any) => unknown}} Field
 * @typedef {{key: string, direction: string, text: string, status?: string, at: string, error?: {code?: string | number | null, message?: string} | null,
 *   note?: unknown, waiting?: boolean}} Bubble
 * @typedef {{media_id: string, mime_type: string, filename: string | null, size: number}} PhoneFile
 * @typedef {{message_id: string, direction: string, text: string, status: string, at: string, media: PhoneFile | null}} PhoneRow
 * @typedef {{phone: string, thread: import('./store.js').Rows<any>, reload: () => unknown, text: string, writing: boolean,
 *   report: (id: string, status: string) => unknown, type: (text: string) => unknown, write: () => unknown,
 *   file: File | null, choose: (file: File | null) => unknown}} Device
 */
export {};
