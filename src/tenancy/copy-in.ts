/** COPY … FROM STDIN through the driver: the rows go out in one piece, once the server asks for them. */
import type { Connection, PoolClient, Submittable } from 'pg';

/**
 * @param data rows in the format that the command names (Postgres manual, COPY); read until it has ended without an error
 * @param timeoutMs then it is given up; the connection cannot be used any more
 * @throws what the driver throws
 */
export function copyIn(client: PoolClient, copy: string, data: Buffer, timeoutMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    client.query(new CopyIn(copy, data, timeoutMs, (error) => (error ? reject(error) : resolve())));
  });
}

/** What the driver calls while the statement runs. */
class CopyIn implements Submittable {
  readonly query_timeout: number;

  constructor(
    private readonly copy: string,
    private readonly data: Buffer,
    timeoutMs: number,
    /** The driver puts one of its own in its place, which also ends its timer. */
    private readonly callback: (error?: Error) => void,
  ) {
    this.query_timeout = timeoutMs;
  }

  submit(connection: Connection): void {
    connection.query(this.copy);
  }

  handleCopyInResponse(connection: CopyConnection): void {
    connection.sendCopyFromChunk(this.data);
    connection.endCopyFrom();
  }

  handleCommandComplete(): void {}

  handleError(error: Error): void {
    this.callback(error);
  }

  handleReadyForQuery(): void {
    this.callback();
  }
}

/** Of the driver's connection, what its types leave out. */
interface CopyConnection {
  sendCopyFromChunk(chunk: Buffer): void;
  endCopyFrom(): void;
}
