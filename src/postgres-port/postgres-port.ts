/**
 * The port for Postgres's protocol: a client logs in with a token, and then has its own connection with the project's
 * role (docs/decisions/0038-postgres-port.md).
 */
import { randomBytes, randomInt, timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { Splitter } from '../engine/parser/splitter.js';
import { classify } from '../engine/sessions/classify.js';
import type { ClientSession } from '../engine/sessions/client-session.js';
import { SessionError } from '../engine/sessions/session-error.js';
import type { Sessions } from '../engine/sessions/sessions.js';
import {
  AUTHENTICATION_OK,
  backendKeyData,
  errorResponse,
  negotiateVersion,
  parameterStatus,
  READY_IDLE,
} from '../pg/protocol.js';
import { askPassword, BufferedSocket, type Encryption, negotiate } from './client-login.js';
import { HalfOpenLogins } from './half-open-logins.js';
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
interface Key {
  readonly secretKey: Buffer;
  readonly session: ClientSession;
}

const KEEP_ALIVE_MS = 30_000;

export class PostgresPort {
  private readonly server: Server;
  private readonly halfOpen: HalfOpenLogins;
  private readonly encryption: Encryption;
  private readonly keys = new Map<number, Key>();
  private readonly serving = new Set<Promise<void>>();

  private constructor(
    private readonly splitter: Splitter,
    private readonly sessions: Sessions,
    settings: PostgresPortSettings,
  ) {
    const { certificate, allowsPlain } = settings;
    this.encryption = {
      tls: certificate === null ? null : createSecureContext({ ...certificate, minVersion: 'TLSv1.2' }),
      requiresTls: !allowsPlain,
    };
    this.halfOpen = new HalfOpenLogins(() => sessions.refuse('login_timeout'));
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
  static async listen(splitter: Splitter, sessions: Sessions, settings: PostgresPortSettings): Promise<PostgresPort> {
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
        this.cancel(startUp.processId, startUp.secretKey);
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
      if (isNegotiating) this.sessions.refuse(error instanceof SessionError ? error.code : 'malformed');
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
    const [processId, secretKey] = this.newKey(session);
    const parameters = [...loggedIn.parameters].map(([name, value]) => parameterStatus(name, value));
    socket.write(Buffer.concat([AUTHENTICATION_OK, ...parameters, backendKeyData(processId, secretKey), READY_IDLE]));
    try {
      const { id } = owner.project;
      const classifyText = (text: string, isPlain: boolean) => classify(this.splitter, id, text, isPlain);
      await new SessionRelay(socket, session, classifyText).run(client.rest());
    } finally {
      this.keys.delete(processId);
    }
  }

  /**
   * Not Postgres's own key: it would tell a project about others on a shared server, and two servers may use the same
   * key.
   */
  private newKey(session: ClientSession): [processId: number, secretKey: Buffer] {
    let processId;
    do processId = randomInt(1, 2 ** 31 - 1);
    while (this.keys.has(processId));
    const secretKey = randomBytes(4);
    this.keys.set(processId, { secretKey, session });
    return [processId, secretKey];
  }

  /** As in Postgres, there is no response, whether or not the session exists. */
  private cancel(processId: number, secretKey: Buffer): void {
    const found = this.keys.get(processId);
    if (found?.secretKey.length === secretKey.length && timingSafeEqual(found.secretKey, secretKey)) {
      void found.session.cancel();
    }
  }
}
