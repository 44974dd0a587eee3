// A file that is sent: what can be read only once is not sent a second time.

/** What is uploaded. Node's `openAsBlob(path)` and `createReadStream(path)` read a file from disk; the
 * first can be sent again. Not every browser sends what is not a `Blob` or bytes. */
export type FileContent = Blob | Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>;

// A server gives up a file that comes slower, and takes none that is larger.
const BYTES_PER_MS_MIN = 262;
const BYTES_MAX = 100 * 1024 * 1024;

/** One object stands for all tries of an upload. */
export class Upload {
  readonly #content: FileContent;
  readonly #bytes: number | undefined;
  #isUsed = false;

  constructor(
    content: FileContent,
    readonly contentType: string,
  ) {
    this.#content = content;
    if (content instanceof Uint8Array) this.#bytes = content.byteLength;
    if (content instanceof Blob) this.#bytes = content.size;
    const isStream = typeof content === "object" && content !== null &&
      (content instanceof ReadableStream || Symbol.asyncIterator in content);
    if (this.#bytes === undefined && !isStream) {
      throw new TypeError("a file is a Blob, bytes, or pieces that are awaited");
    }
  }

  /** Whether it can be read from its beginning, still or again. */
  get canBeSent(): boolean {
    return !this.#isUsed || this.#bytes !== undefined;
  }

  /** How long it may be on its way. */
  get milliseconds(): number {
    return Math.ceil((this.#bytes ?? BYTES_MAX) / BYTES_PER_MS_MIN);
  }

  /** The body of one try. */
  body(): Blob | Uint8Array | ReadableStream<Uint8Array> {
    this.#isUsed = true;
    const content = this.#content;
    const isWhole = content instanceof Blob || content instanceof Uint8Array;
    return isWhole || content instanceof ReadableStream ? content : streamOf(content);
  }
}

function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await iterator.next();
      if (done) controller.close();
      else controller.enqueue(value);
    },
    async cancel(reason) {
      await iterator.return?.(reason);
    },
  });
}
