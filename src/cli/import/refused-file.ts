/**
 * The records that were not taken, a line each with what is wrong with it; made with the first of them. Such a file can be
 * imported itself, when its records have been corrected.
 */
import { closeSync, constants, fstatSync, fsyncSync, ftruncateSync, openSync, readFileSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ErrorPlace } from '../../contract/errors.js';
import type { Encoded } from './plan.js';

export interface Refusal {
  record: Encoded;
  errors: readonly ErrorPlace[];
}

export class RefusedFile {
  #fd: number | null = null;
  #path: string;

  /**
   * @param path wanted; a file that is there already is not touched, and the next free name taken
   * @param otherwise where that cannot be: data often lie where nobody may write
   */
  constructor(
    path: string,
    private readonly otherwise?: string,
  ) {
    this.#path = resolve(path);
  }

  get path(): string {
    return this.#path;
  }

  /**
   * Of an import that goes on.
   * @param bytes what its journal knows of; what was written after that is taken away
   * @returns bytes that are there: fewer after a failure of power, or where somebody has removed the file
   */
  reopen(bytes: number): number {
    this.#fd = openSync(this.#path, constants.O_RDWR | constants.O_CREAT);
    let { size } = fstatSync(this.#fd);
    // Of a line that was lost in part nothing is kept.
    if (size < bytes) size = readFileSync(this.#fd).lastIndexOf('\n') + 1;
    const kept = Math.min(size, bytes);
    ftruncateSync(this.#fd, kept);
    return kept;
  }

  /** @returns true where this made the file */
  ensure(): boolean {
    if (this.#fd !== null) return false;
    try {
      this.#make(this.#path);
    } catch (error) {
      if (this.otherwise === undefined) throw error;
      this.#make(resolve(this.otherwise));
    }
    return true;
  }

  #make(wanted: string): void {
    for (let n = 1; ; n++) {
      const path = n === 1 ? wanted : wanted.replace(/(\.[^./]*)?$/, (suffix) => `-${n}${suffix}`);
      try {
        this.#fd = openSync(path, 'wx');
        this.#path = path;
        return;
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      }
    }
  }

  /** @param at bytes of the file so far @returns bytes with these */
  append(file: string, refusals: readonly Refusal[], at: number): number {
    const text = refusals.map((refusal) => lineOf(file, refusal)).join('');
    const bytes = Buffer.from(text);
    let written = 0;
    while (written < bytes.length)
      written += writeSync(this.#fd as number, bytes, written, bytes.length - written, at + written);
    return at + bytes.length;
  }

  sync(): void {
    if (this.#fd !== null) fsyncSync(this.#fd);
  }

  close(): void {
    if (this.#fd !== null) closeSync(this.#fd);
    this.#fd = null;
  }
}

/** `record` is what was sent, so that it can be corrected and imported from here (`corrected.ts`). */
function lineOf(file: string, { record: { line, json }, errors }: Refusal): string {
  const said = errors.map(({ column, error, message, hint }) => ({
    column,
    error,
    message: message.replace(/^Record \d+(?:: |, )/, ''),
    hint,
  }));
  return `{"file":${JSON.stringify(file)},"line":${line},"record":${json},"errors":${JSON.stringify(said)}}\n`;
}
