/**
 * The port for Postgres's protocol: a client logs in with a token, and then has its own connection with the project's
 * role (docs/decisions/0038-postgres-port.md).
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import { Counts } from '../counts.js';
import { networkOf } from '../ip-address.js';
import type { Splitter } from '../engine/parser/splitter.js';
import { classify } from '../engine/parser/classify-reader-text.js';
import type { ClientSession } from '../engine/sessions/client-session.js';
import { SessionError } from '../engine/sessions/session-error.js';
import type { PortSessions } from '../engine/sessions/sessions.js';
import {
  AUTHENTICATION_OK,
  backendKeyData,
  errorResponse,
  negotiateVersion,
  parameterStatus,
  READY_IDLE,
} from '../pg/protocol.js';
import { askPassword, BufferedSocket, type Encryption, negotiate } from './client-login.js';
import { fatal, SessionRelay } from './session-relay.js';
import { type StartUpSettings, startUpSettings } from './start-up-settings.js';

interface PostgresPortSettings {
  readonly host: string;
  readonly port: number;
  /** PEM; null: no TLS. */
  readonly certificate: { readonly cert: Buffer; readonly key: Buffer } | null;
  /** Whether clients on other machines may connect without TLS. */
  readonly allowsPlain: boolean;
}

/** Identifies a session in a cancel request. */
interface CancelKey {
  readonly processId: number;
  readonly secretKey: Buffer;
  readonly session: ClientSession;
}

const KEEP_ALIVE_MS = 30_000;

export class PostgresPort {
  private readonly server: Server;
  private readonly halfOpen: HalfOpenLogins;
  private readonly encryption: Encryption;
  private readonly keys = new Set<CancelKey>();
  private readonly serving = new Set<Promise<void>>();

  private constructor(
    private readonly splitter: Splitter,
    private readonly sessions: PortSessions,
    settings: PostgresPortSettings,
  ) {
    const { certificate, allowsPlain } = settings;
    this.encryption = {
      tls: certificate === null ? null : createSecureContext({ ...certificate, minVersion: 'TLSv1.2' }),
      requiresTls: !allowsPlain,
    };
    this.halfOpen = new HalfOpenLogins(() => sessions.countRefusal('login_timeout'));
    this.server = createServer({
      pauseOnConnect: true,
      noDelay: true,
      keepAlive: true,
      keepAliveInitialDelay: KEEP_ALIVE_MS,
    });
    this.server.on('connection', (socket) => {
      const served = this.serve(socket).finally(() => this.serving.delete(served));
      this.serving.add(served);
    });
  }

  /** @throws Error if the port cannot be opened, or the certificate cannot be read */
  static async listen(
    splitter: Splitter,
    sessions: PortSessions,
    settings: PostgresPortSettings,
  ): Promise<PostgresPort> {
    const port = new PostgresPort(splitter, sessions, settings);
    port.server.listen(settings.port, settings.host);
    await once(port.server, 'listening');
    return port;
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  /** Accepts no more clients, and ends all sessions. */
  async close(): Promise<void> {
    this.server.close();
    this.halfOpen.close();
    await this.sessions.close();
    await Promise.all(this.serving);
  }

  /** Never rejects. */
  private async serve(socket: Socket): Promise<void> {
    socket.on('error', () => {});
    const address = socket.remoteAddress ?? '';
    const loggedIn = this.halfOpen.begin(socket);
    let client = new BufferedSocket(socket);
    let isNegotiating = true;
    try {
      const startUp = await negotiate(client, this.encryption, (secured) => (client = secured));
      if (startUp.kind === 'cancel') {
        // libpq waits for the end of this connection, and then sends its next statement.
        await this.find(startUp.processId, startUp.secretKey)?.session.cancel();
        return void client.socket.destroySoon();
      }
      const settings = startUpSettings(startUp.parameters);
      if (startUp.minor > 0 || settings.protocolOptions.length > 0) {
        client.socket.write(negotiateVersion(settings.protocolOptions));
      }
      const token = await askPassword(client);
      // From here on, the limits for sessions apply.
      loggedIn();
      isNegotiating = false;
      await this.session(client, settings, token, address);
    } catch (error) {
      if (error instanceof SessionError) client.socket.write(errorResponse(fatal(error)));
      // Later refusals are counted by `Sessions`.
      if (isNegotiating) this.sessions.countRefusal(error instanceof SessionError ? error.code : 'malformed');
      client.socket.destroySoon();
    } finally {
      loggedIn();
    }
  }

  private async session(
    client: BufferedSocket,
    { user, database, applicationName, settings }: StartUpSettings,
    token: string,
    address: string,
  ): Promise<void> {
    const { socket } = client;
    const session = await this.sessions.login({ user, database, token, address, applicationName, settings });
    const { loggedIn, owner } = session;
    const key = this.newKey(session);
    const parameters = [...loggedIn.parameters].map(([name, value]) => parameterStatus(name, value));
    socket.write(
      Buffer.concat([AUTHENTICATION_OK, ...parameters, backendKeyData(key.processId, key.secretKey), READY_IDLE]),
    );
    try {
      const { id } = owner.project;
      const classifyText = (text: string, isPlain: boolean) => classify(this.splitter, id, text, isPlain);
      await new SessionRelay(socket, session, classifyText).run(client.rest());
    } finally {
      this.keys.delete(key);
    }
  }

  /**
   * The backend's own process id, which the client finds in notifications and in pg_stat_activity. The secret is not
   * Postgres's own: two servers may use the same process id and secret.
   */
  private newKey(session: ClientSession): CancelKey {
    const { processId } = session.loggedIn;
    let secretKey;
    do secretKey = randomBytes(4);
    while (this.find(processId, secretKey) !== undefined);
    const key = { processId, secretKey, session };
    this.keys.add(key);
    return key;
  }

  private find(processId: number, secretKey: Buffer): CancelKey | undefined {
    for (const key of this.keys) {
      const isBackend = key.processId === processId && key.secretKey.length === secretKey.length;
      if (isBackend && timingSafeEqual(key.secretKey, secretKey)) return key;
    }
    return undefined;
  }
}

// Unfinished logins. Each has a time limit, and a flood of them evicts only the oldest.

const LOGIN_MS = 10_000;

/** Limits in total and per network (the same networks as for wrong tokens). */
const MAX_LOGINS = 1_000;
const MAX_PER_NETWORK = 200;

class HalfOpenLogins {
  /** Oldest first. */
  private readonly open = new Map<Socket, string>();
  private readonly counts = new Counts();

  /** @param late called before a login is aborted */
  constructor(private readonly late: () => void) {}

  /** @returns a function to call when the login has ended */
  begin(socket: Socket): () => void {
    const network = networkOf(socket.remoteAddress ?? '');
    this.open.set(socket, network);
    const count = this.counts.add(network, 1);
    if (count > MAX_PER_NETWORK) this.breakOff([...this.open].find(([, other]) => other === network)?.[0]);
    else if (this.open.size > MAX_LOGINS) this.breakOff(this.open.keys().next().value);
    const timer = setTimeout(() => this.breakOff(socket), LOGIN_MS).unref();
    return () => {
      clearTimeout(timer);
      this.delete(socket);
    };
  }

  /** Aborts all logins. */
  close(): void {
    for (const socket of this.open.keys()) socket.destroy();
  }

  private breakOff(socket: Socket | undefined): void {
    if (socket === undefined || !this.open.has(socket)) return;
    this.late();
    this.delete(socket);
    socket.destroy();
  }

  private delete(socket: Socket): void {
    const network = this.open.get(socket);
    if (network === undefined) return;
    this.open.delete(socket);
    this.counts.add(network, -1);
  }
}
