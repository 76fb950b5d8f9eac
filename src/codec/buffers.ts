/**
 * Buffers that their owner frees. V8 counts memory outside its heap that was allocated since its last full collection
 * as growth of the heap, even if it is already garbage. If each body or response allocates some, V8 runs a full
 * collection after every few hundred of them, which takes a third of the service's time.
 */
import { MessageChannel } from 'node:worker_threads';

/** Transferring a buffer to a closed port frees it. */
const nowhere = new MessageChannel().port1;
nowhere.close();

/** Smaller buffers are not worth the call: Node allocates them from its pool. */
const MIN_FREED_BYTES = 4 * 1024;

/** @returns a buffer of this size that {@link freeBuffer} can free, with the previous contents of its memory */
export function allocBuffer(size: number): Buffer {
  return size < MIN_FREED_BYTES ? Buffer.allocUnsafe(size) : Buffer.allocUnsafeSlow(size);
}

/** Frees the memory; the buffer is then empty. Does nothing to a buffer that shares its memory with others. */
export function freeBuffer({ length, buffer }: Uint8Array): void {
  if (length < MIN_FREED_BYTES || length < buffer.byteLength || !(buffer instanceof ArrayBuffer)) return;
  nowhere.postMessage(null, [buffer]);
}

/** Bytes that their owner frees when they are no longer read. */
export interface OwnedBuffer {
  readonly bytes: Buffer;
  free(): void;
}

/** A buffer that grows as chunks arrive. It takes at most twice their bytes, however small they are. */
export class GrowingBuffer implements OwnedBuffer {
  private buffer: Buffer;
  private length = 0;

  /** @param size the expected total of the chunks */
  constructor(size: number) {
    this.buffer = allocBuffer(size);
  }

  /** Copies a chunk, and frees it. */
  append(chunk: Buffer): void {
    const { buffer, length } = this;
    if (length + chunk.length > buffer.length) {
      this.buffer = allocBuffer(Math.max(2 * buffer.length, length + chunk.length));
      buffer.copy(this.buffer, 0, 0, length);
      freeBuffer(buffer);
    }
    this.length += chunk.copy(this.buffer, length);
    freeBuffer(chunk);
  }

  get bytes(): Buffer {
    return this.buffer.subarray(0, this.length);
  }

  free(): void {
    freeBuffer(this.buffer);
  }
}

/** Bytes in several buffers, so that none has to grow or be copied. */
export class BufferList {
  readonly buffers: Buffer[] = [];
  length = 0;

  push(buffer: Buffer): void {
    this.buffers.push(buffer);
    this.length += buffer.length;
  }

  /** Returns all bytes in one buffer, and empties the list. */
  take(): OwnedBuffer {
    const bytes = this.join();
    return { bytes, free: () => freeBuffer(bytes) };
  }

  private join(): Buffer {
    const buffers = this.buffers.splice(0);
    this.length = 0;
    const [first] = buffers;
    if (first !== undefined && buffers.length === 1) return first;
    const whole = Buffer.concat(buffers);
    for (const buffer of buffers) freeBuffer(buffer);
    return whole;
  }

  /** The bytes must not be read afterwards. */
  free(): void {
    for (const buffer of this.buffers) freeBuffer(buffer);
  }
}
