/**
 * Node's request with a short way for its body: each piece goes to whoever asked for them as it comes. Through a stream it
 * passes a buffer, three listeners and several turns of the queue of ticks, which cost more than reading a small body.
 */
import { IncomingMessage } from 'node:http';

/** Where a body goes, piece by piece. */
export interface BodySink {
  piece(bytes: Buffer): void;
  end(): void;
  /** The connection broke before the end. */
  fail(error: Error): void;
}

export class WholeRequest extends IncomingMessage {
  private sink: BodySink | null = null;
  /** The whole body went to a sink; the stream knows nothing of it. */
  private isTaken = false;
  /** Node's note that somebody reads the body, and that it need not throw it away once the answer is out. */
  declare private _consuming: boolean;

  /** Nothing is read ahead: a sink takes what comes. */
  pour(sink: BodySink): void {
    if (!this.complete && this.readableLength === 0) this.sink = sink;
    // Something came while the request waited for its turn. It is in the stream, and the rest will be.
    else {
      this.on('data', (piece: Buffer) => sink.piece(piece))
        .on('end', () => sink.end())
        .on('error', (error) => sink.fail(error));
    }
  }

  /** The sink takes no more. What still comes is left to Node, as is every body that nobody wants. */
  stopPouring(): void {
    this.sink = null;
    this.removeAllListeners('data').removeAllListeners('end').removeAllListeners('error');
  }

  /** Called by Node's parser: with each piece, and with null at the end of the request. */
  override push(piece: Buffer | null): boolean {
    const { sink } = this;
    if (sink === null) return super.push(piece);
    if (piece !== null) sink.piece(piece);
    else {
      this.sink = null;
      this.isTaken = true;
      this._consuming = true;
      sink.end();
    }
    return true;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    const { sink } = this;
    this.sink = null;
    super._destroy(error, callback);
    // As late as the stream would say it: the end of the answer is seen first.
    if (sink !== null && error !== null) process.nextTick(() => sink.fail(error));
  }

  static {
    // By this Node knows that it need not keep the request for what may still come of it. TypeScript takes it for a field.
    Object.defineProperty(this.prototype, 'readableEnded', {
      get(this: WholeRequest): boolean {
        return this.isTaken || Reflect.get(IncomingMessage.prototype, 'readableEnded', this);
      },
    });
  }
}
