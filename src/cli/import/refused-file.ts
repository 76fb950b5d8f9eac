/**
 * The file of refused records: one per line, with its errors. After corrections, the file itself can be imported
 * (`source.ts`).
 */
import { appendFileSync, closeSync, fstatSync, fsyncSync, ftruncateSync, openSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { hasCode } from '../../files.js';
import { refusedLine, type RefusedLine } from '../../import/refused-lines.js';

export class RefusedFile {
  private fd: number | undefined;

  /**
   * @param path if this file exists, the next free name is used
   * @param fallback used if `path` cannot be created: data is often in a read-only folder
   */
  constructor(
    public path: string,
    private readonly fallback?: string,
  ) {
    this.path = resolve(path);
  }

  /**
   * Opens the file of an import that is resumed.
   * @param bytes its length according to the journal; the file is truncated to it
   * @returns its length, which is smaller after a power failure, or if someone removed the file
   */
  reopen(bytes: number): number {
    this.fd = openSync(this.path, 'a+');
    let { size } = fstatSync(this.fd);
    // The last line may be incomplete.
    if (size < bytes) size = readFileSync(this.fd).lastIndexOf('\n') + 1;
    const kept = Math.min(size, bytes);
    ftruncateSync(this.fd, kept);
    return kept;
  }

  /** Creates the file when the first record is refused. @returns whether it has just been created */
  create(): boolean {
    if (this.fd !== undefined) return false;
    try {
      this.createAt(this.path);
    } catch (error) {
      if (this.fallback === undefined) throw error;
      this.createAt(resolve(this.fallback));
    }
    return true;
  }

  private createAt(wantedPath: string): void {
    for (let n = 1; ; n++) {
      const path = n === 1 ? wantedPath : wantedPath.replace(/(\.[^./]*)?$/, (ending) => `-${n}${ending}`);
      try {
        this.fd = openSync(path, 'ax');
        this.path = path;
        return;
      } catch (error) {
        if (!hasCode(error, 'EEXIST')) throw error;
      }
    }
  }

  /** @returns the number of bytes written */
  append(file: string, lines: readonly RefusedLine[]): number {
    const text = Buffer.from(lines.map((line) => refusedLine(file, line)).join(''));
    if (this.fd !== undefined) appendFileSync(this.fd, text);
    return text.length;
  }

  sync(): void {
    if (this.fd !== undefined) fsyncSync(this.fd);
  }

  close(): void {
    if (this.fd !== undefined) closeSync(this.fd);
    this.fd = undefined;
  }
}
