/** The menu: a page is in it where the role may see it. */
import { can, session } from './session.js';

/** @typedef {[path: string, title: string, icon: string, permission: string]} Item */
/** @type {[string, Item[]][]} */
export const MENU = [
  [
    '',
    [
      ['/', 'Home', 'home', ''],
      ['/phone', 'Phone', 'phone', 'sandbox:use'],
    ],
  ],
  [
    'Messaging',
    [
      ['/codes', 'Codes', 'code', 'otp:read'],
      ['/messages', 'Messages', 'message', 'messages:read'],
      ['/inbox', 'Inbox', 'inbox', 'inbox:read'],
      ['/broadcasts', 'Broadcasts', 'broadcast', 'broadcasts:read'],
      ['/templates', 'Templates', 'template', 'templates:read'],
    ],
  ],
  [
    'Audience',
    [
      ['/contacts', 'Contacts', 'contacts', 'contacts:read'],
      ['/segments', 'Segments', 'segments', 'contacts:read'],
      ['/import', 'Import', 'import', 'contacts:write'],
    ],
  ],
  [
    'Developers',
    [
      ['/events', 'Events', 'events', 'events:read'],
      ['/webhooks', 'Webhooks', 'webhook', 'webhooks:manage'],
      ['/keys', 'API keys', 'key', 'keys:manage'],
      ['/requests', 'Requests', 'requests', 'requests:read'],
      ['/explorer', 'API explorer', 'explorer', ''],
    ],
  ],
  [
    'Manage',
    [
      ['/analytics', 'Analytics', 'analytics', 'analytics:read'],
      ['/settings', 'Settings', 'settings', ''],
      ['/operator', 'Operator', 'operator', 'operator'],
    ],
  ],
];

/** @param {Item} item */
export const allowed = ([path, , , permission]) =>
  (path === '/phone' ? session.sandbox : true) && (!permission || can(permission));
