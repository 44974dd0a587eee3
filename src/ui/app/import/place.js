/** The positions of imports, in the browser's own database. */

/** @typedef {{done: number, imported: number, skipped: number, refused: any[], meanings: any[], conflict: string,
 *   country: string}} Place */

/** @returns {Promise<IDBDatabase>} */
function open() {
  return new Promise((done, fail) => {
    const asked = indexedDB.open('postrider-import', 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore('places');
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => fail(asked.error);
  });
}

/** @template T @param {IDBTransactionMode} mode @param {(store: IDBObjectStore) => IDBRequest<T>} act @returns {Promise<T>} */
async function within(mode, act) {
  const db = await open();
  try {
    return await new Promise((done, fail) => {
      const change = db.transaction('places', mode);
      const asked = act(change.objectStore('places'));
      change.oncomplete = () => done(asked.result);
      change.onerror = change.onabort = () => fail(change.error);
    });
  } finally {
    db.close();
  }
}

/** @param {string} hash @returns {Promise<Place | undefined>} */
export const loadPlace = (hash) => within('readonly', (store) => store.get(hash));
/** @param {string} hash @param {Place} place */
export const savePlace = (hash, place) => within('readwrite', (store) => store.put(place, hash));
/** @param {string} hash */
export const dropPlace = (hash) => within('readwrite', (store) => store.delete(hash));
