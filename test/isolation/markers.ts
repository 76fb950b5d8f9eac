/** The strings that reveal a neighbor, and how to find them in a response. */
import { randomBytes } from 'node:crypto';

export class Markers {
  /** Begins every name and text of the neighbour, and occurs nowhere else. */
  readonly stem = `zq${randomBytes(4).toString('hex')}`;
  /** Strings that the service made, by kind. */
  private readonly others = new Map<string, string>();

  /** Adds a string that does not begin with the stem: a role's random name, a token. */
  add(kind: string, text: string): void {
    this.others.set(text, kind);
  }

  /** A text of the neighbour, with its stem in place. */
  fill(text: string): string {
    return text.replaceAll('{m}', this.stem);
  }

  /**
   * The kinds that show in a response.
   * @param asked what the question itself said of the neighbour: a response that repeats it gives nothing away
   */
  in(response: string, asked = ''): string[] {
    const found = new Set<string>();
    for (const [text, kind] of this.marked(response)) if (!asked.includes(text)) found.add(kind ?? 'stem');
    for (const [text, kind] of this.others) if (response.includes(text) && !asked.includes(text)) found.add(kind);
    return [...found];
  }

  /** Every kind that these texts hold, their comments left out. */
  kindsOf(...texts: string[]): Set<string> {
    return new Set(texts.flatMap((text) => this.in(this.fill(text.replaceAll(/^--.*$/gm, '')))));
  }

  /** With its kind, each place where the stem stands: as it is, or in the hexadecimal digits of a bytea. */
  private marked(response: string): RegExpExecArray[] {
    const plain = new RegExp(`${this.stem}(?:[_-]([a-z]+))?`, 'gi');
    const bytes = [...response.matchAll(new RegExp(`${Buffer.from(this.stem).toString('hex')}(?:[0-9a-f]{2})*`, 'g'))];
    const decoded = bytes.map(([digits]) => Buffer.from(digits, 'hex').toString('latin1'));
    return [response, ...decoded].flatMap((text) => [...text.matchAll(plain)]);
  }
}
