/** The strings that give a neighbour away, and how to find them in an answer. */
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
   * The kinds that show in an answer.
   * @param asked what the question itself said of the neighbour: an answer that repeats it gives nothing away
   */
  in(answer: string, asked = ''): string[] {
    const found = new Set<string>();
    for (const [text, kind] of answer.matchAll(this.marked())) if (!asked.includes(text)) found.add(kind ?? 'stem');
    for (const [text, kind] of this.others) if (answer.includes(text) && !asked.includes(text)) found.add(kind);
    return [...found];
  }

  /** Every kind that the given texts hold. */
  kindsOf(...texts: string[]): Set<string> {
    return new Set(texts.flatMap((text) => this.in(this.fill(text))));
  }

  private marked(): RegExp {
    return new RegExp(`${this.stem}(?:[_-]([a-z]+))?`, 'gi');
  }
}
