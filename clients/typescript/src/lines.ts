// Cuts what arrives into lines, and lines into the messages of an event stream: pure.

/** Lines of what arrives in pieces. Only what is ended by a line break is a line. */
export class Lines {
  readonly #decoder = new TextDecoder();
  readonly #end: RegExp;
  #rest = "";

  constructor(end: RegExp) {
    this.#end = end;
  }

  feed(piece: Uint8Array): string[] {
    const lines = (this.#rest + this.#decoder.decode(piece, { stream: true })).split(this.#end);
    this.#rest = lines.pop() ?? "";
    return lines;
  }
}

/** A message of the stream; one without data only moves the position. */
export interface Message {
  id: string | undefined;
  data: string;
}

/** The messages of a text/event-stream. What is cut off is none. */
export class Messages {
  // A CR at the end of a piece may be half of a CRLF, so it waits for what follows.
  readonly #lines = new Lines(/\r\n|\n|\r(?!$)/);
  #id: string | undefined;
  #data: string[] = [];

  feed(piece: Uint8Array): Message[] {
    const found: Message[] = [];
    for (const line of this.#lines.feed(piece)) {
      if (line !== "") {
        this.#field(line);
        continue;
      }
      if (this.#data.length > 0 || this.#id !== undefined) {
        found.push({ id: this.#id, data: this.#data.join("\n") });
      }
      this.#id = undefined;
      this.#data = [];
    }
    return found;
  }

  #field(line: string): void {
    const [, name = "", value = ""] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === "data") this.#data.push(value);
    if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}
