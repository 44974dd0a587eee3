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
 * @typedef {Schemas['DeliveryRow'] & {id?: string}} Delivery
 * @typedef {Schemas['Conversation'] & {reply_window?: {open: boolean, closes_at: string | null}, unread?: number,
 *   last_inbound_at?: string | null, assignee?: {id: string, name: string} | null}} Conversation
 * @typedef {Schemas['ConversationMessage'] & {error?: {code: string, message: string} | null}} Written
 * @typedef {Schemas['Suppression']} Suppression
 * @typedef {Schemas['AuditRecordRow']} Audit
 * @typedef {Schemas['WorkspaceAnswer']} WorkspaceRow
 * @typedef {{success_24h: number | null, p95_ms: number | null, waiting: number, oldest_seconds: number | null, breaker_open: boolean}} Health
 * @typedef {{request_id: string, phone: string, status: string, delivery_status: string, attempts_remaining: number, sends: number,
 *   country: string | null, created_at: string, expires_at: string, verified_at: string | null}} Otp
 * @typedef {{tags_any?: string[], tags_all?: string[], tags_none?: string[], search?: string, custom_fields?: Record<string, string>, custom_fields_exist?: string[]}} Filter
 */
export {};
