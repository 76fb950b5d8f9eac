/** Clients of the Postgres port for tests: npm's `pg`, and raw bytes. */
import { connect as connectTcp, type Socket } from 'node:net';
import pg from 'pg';
import type { TestProject, TestService } from '../support/service.js';

/** How to log in with a project's token, or another one. */
export function login(
  service: TestService,
  project: TestProject,
  user: 'writer' | 'reader' = 'writer',
  token = project.token,
): pg.ClientConfig & { port: number } {
  return {
    ...{ host: '127.0.0.1', port: service.postgresPort ?? 0 },
    ...{ user, database: project.name, password: token },
  };
}

/** Runs `work` with a client, which is closed afterward. */
export async function withClient<T>(config: pg.ClientConfig, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client(config);
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end().catch(() => {});
  }
}

/** The error of a promise that must be rejected. */
export async function errorOf(work: Promise<unknown>): Promise<pg.DatabaseError> {
  return work.then(
    () => {
      throw new Error('There was no error');
    },
    (error: unknown) => error as pg.DatabaseError,
  );
}

/** The SQLSTATE of a login that must be refused. */
export const refusedLogin = async (config: pg.ClientConfig): Promise<string | undefined> =>
  (await errorOf(withClient(config, () => Promise.resolve()))).code;

/** Bytes of the protocol: what comes is kept, until somebody looks. */
export class RawClient {
  private received = Buffer.alloc(0);
  private wake = (): void => {};
  isClosed = false;

  private constructor(readonly socket: Socket) {
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      this.received = Buffer.concat([this.received, chunk]);
      this.wake();
    });
    socket.on('close', () => {
      this.isClosed = true;
      this.wake();
    });
  }

  static async open(port: number): Promise<RawClient> {
    const socket = connectTcp(port, '127.0.0.1');
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new RawClient(socket);
  }

  send(...parts: Buffer[]): void {
    this.socket.write(Buffer.concat(parts));
  }

  /** Logs in, up to ReadyForQuery. @returns the messages until then */
  async logIn(user: string, database: string, token: string, more: Record<string, string> = {}): Promise<Message[]> {
    this.send(startUp({ user, database, ...more }));
    await this.until('R');
    this.send(message('p', `${token}\0`));
    return this.until('Z');
  }

  /** Messages up to one of this type, or the end of the connection. */
  async until(type: string): Promise<Message[]> {
    const messages: Message[] = [];
    for (;;) {
      const next = await this.next();
      if (next === null) return messages;
      messages.push(next);
      if (next.type === type) return messages;
    }
  }

  /** null: the connection is closed. */
  async next(): Promise<Message | null> {
    for (;;) {
      if (this.received.length >= 5 && this.received.length >= 1 + this.received.readInt32BE(1)) {
        const end = 1 + this.received.readInt32BE(1);
        const body = this.received.subarray(5, end);
        const type = this.received.toString('latin1', 0, 1);
        this.received = this.received.subarray(end);
        return { type, body };
      }
      if (this.isClosed) return null;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
  }

  /** One byte, as after an SSLRequest; null: the connection is closed. */
  async byte(): Promise<string | null> {
    while (this.received.length === 0) {
      if (this.isClosed) return null;
      await new Promise<void>((resolve) => (this.wake = resolve));
    }
    const byte = this.received.toString('latin1', 0, 1);
    this.received = this.received.subarray(1);
    return byte;
  }

  /** Whatever comes, to the end of the connection. */
  async rest(): Promise<Buffer> {
    while (!this.isClosed) await new Promise<void>((resolve) => (this.wake = resolve));
    return this.received;
  }

  close(): void {
    this.socket.destroy();
  }
}

export interface Message {
  readonly type: string;
  readonly body: Buffer;
}

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};

export function message(type: string, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string)));
  return Buffer.concat([Buffer.from(type), int32(4 + body.length), body]);
}

export function untyped(code: number, ...parts: (string | Buffer)[]): Buffer {
  const body = Buffer.concat([int32(code), ...parts.map((part) => Buffer.from(part as string))]);
  return Buffer.concat([int32(4 + body.length), body]);
}

export const startUp = (parameters: Record<string, string>, version = 3 << 16): Buffer =>
  untyped(version, `${Object.entries(parameters).flat().join('\0')}\0\0`);

export const SSL_REQUEST = untyped(80877103);
export const GSS_REQUEST = untyped(80877104);
export const cancelRequest = (keyData: Buffer): Buffer => untyped(80877102, keyData);

export const query = (sql: string): Buffer => message('Q', `${sql}\0`);
export const parse = (sql: string, name = ''): Buffer => message('P', `${name}\0${sql}\0\0\0`);
export const bind = (name = '', portal = ''): Buffer => message('B', `${portal}\0${name}\0\0\0\0\0\0\0`);
export const execute = (portal = ''): Buffer => message('E', `${portal}\0\0\0\0\0`);
/** Parse, Bind and Execute of an unnamed statement. */
export const run = (sql: string): Buffer => Buffer.concat([parse(sql), bind(), execute()]);
export const SYNC = message('S');
export const FLUSH = message('H');
export const TERMINATE = message('X');

/** The SQLSTATE of an ErrorResponse. */
export const sqlstate = ({ body }: Message): string => /(?:^|\0)C([^\0]{5})/.exec(body.toString())?.[1] ?? '';

/** The SQLSTATEs of all errors among messages. */
export const errorsIn = (messages: readonly Message[]): string[] =>
  messages.filter(({ type }) => type === 'E').map(sqlstate);
