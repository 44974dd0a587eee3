/** Finds the sure faults of a row, by the server's own rules, before anything is sent. Runs in the worker and the page. */

const LOCAL = /^[^\s\p{Cc}()<>[\]\\,;:"@]{1,64}$/u;
const LABEL = /^(?!-)[\p{Alphabetic}\p{N}-]+(?<!-)$/u;
const CONTROL = /\p{Cc}/u;
const NAME_MOST = 200;
const TAG_MOST = 64;
const TAGS_MOST = 50;
const EMAIL_BYTES = 254;
const FIELDS_BYTES = 16 * 1024;

const bytes = (/** @type {string} */ text) => new TextEncoder().encode(text).length;

/** @param {string} text */
function isEmail(text) {
  const at = text.indexOf('@');
  const [local, domain] = [text.slice(0, at), text.slice(at + 1)];
  const dots = local.startsWith('.') || local.endsWith('.') || local.includes('..');
  return at > 0 && bytes(text) <= EMAIL_BYTES && LOCAL.test(local) && !dots && domain.includes('.')
    && domain.split('.').every((label) => LABEL.test(label));
}

/** @param {any} contact @returns {{column: string, reason: string} | null} the reason in a word; `inWords` says it */
export function fault(contact) {
  const { name, email, tags = [], custom_fields: fields } = contact;
  if (!name) return { column: 'name', reason: 'missing' };
  if ([...name].length > NAME_MOST || CONTROL.test(name)) return { column: 'name', reason: 'name' };
  if (email && !isEmail(email)) return { column: 'email', reason: 'email' };
  const long = tags.length > TAGS_MOST || tags.some((/** @type {string} */ it) => [...it].length > TAG_MOST || CONTROL.test(it));
  if (long) return { column: 'tags', reason: 'tags' };
  if (fields && bytes(JSON.stringify(fields)) > FIELDS_BYTES) return { column: 'custom_fields', reason: 'fields' };
  return null;
}

/** Checks rows one after the other. A phone of an earlier row is refused if the choice for conflicts is to refuse.
 * @param {string} conflict */
export function checker(conflict) {
  const seen = new Set();
  return (/** @type {any} */ contact) => {
    const wrong = fault(contact);
    if (wrong || !contact.phone || conflict !== 'refuse') return wrong;
    if (seen.has(contact.phone)) return { column: 'phone', reason: 'twice' };
    seen.add(contact.phone);
    return null;
  };
}
