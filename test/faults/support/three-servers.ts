/**
 * Three Postgres servers, for the control database and for projects that move between the others, and two instances of
 * the service.
 */
import pg from 'pg';
import { expect, vi } from 'vitest';
import { LEDGER_TABLE, Ledger, UNTRUE } from './ledger.js';
import { type ClientOptions, type Clients, startClients } from './clients.js';
import { onDatabase } from './stage.js';
import type { MoveMode, MoveState } from '../../../src/contract/moves.js';
import type { Placement } from '../../../src/tenancy/placement.js';
import { type AddedServer, startAddedServer } from '../../support/added-server.js';
import { freePort, runProgram, type RunningService, startServe } from '../../support/program.js';
import { call, type TestResponse } from '../../support/service.js';

/** A project that somebody writes to. */
export interface Shop {
  readonly id: string;
  readonly name: string;
  readonly token: string;
  readonly ledger: Ledger;
  readonly clients: Clients;
}

/** What the control database says of a move. */
export interface MoveSeen {
  readonly state: MoveState;
  readonly hasEnded: boolean;
  readonly reason: string | null;
  readonly fallback: string | null;
  readonly source: Placement;
  readonly target: Placement;
}

const SECRET = 's'.repeat(32);

export class ThreeServers {
  readonly shops: Shop[] = [];
  readonly services: RunningService[] = [];
  private turn = 0;
  private begun = 0;
  private readonly pool: pg.Pool;

  private constructor(
    readonly control: AddedServer,
    readonly a: AddedServer,
    readonly b: AddedServer,
    private readonly ports: readonly string[],
    private readonly admin: string,
  ) {
    this.pool = new pg.Pool({ ...control.connection, database: 'cdp' });
    // It may be killed.
    this.pool.on('error', () => {});
  }

  static async start(): Promise<ThreeServers> {
    const forStreams = ['wal_level=logical', 'max_replication_slots=20'];
    const [control, a, b] = await Promise.all([
      startAddedServer(),
      startAddedServer(undefined, forStreams),
      startAddedServer(undefined, forStreams),
    ]);
    for (const { connection } of [a, b]) {
      await onDatabase(connection, (client) => client.query('ALTER ROLE cdp REPLICATION'));
    }
    const env = environment(control, a, b);
    const { stdout, stderr } = await runProgram(['token', 'create', '--admin'], { env });
    if (stdout === '') throw new Error(stderr);
    const ports = [String(await freePort()), String(await freePort())];
    const fleet = new ThreeServers(control, a, b, ports, stdout.trim());
    await fleet.startServices();
    for (const name of ['a', 'b']) await fleet.send('POST', 'servers', { name, url_reference: `env:SERVER_${name}` });
    // With it the template is made there.
    await fleet.send('POST', 'projects', { name: 'first', server: 'b' });
    await fleet.send('DELETE', 'projects/first?confirm=first');
    return fleet;
  }

  async startServices(): Promise<void> {
    const env = environment(this.control, this.a, this.b);
    this.services.splice(0);
    this.services.push(...(await Promise.all(this.ports.map((port) => startServe(['--port', port], { env })))));
  }

  /** One instance after the other. */
  get url(): string {
    return `http://127.0.0.1:${this.ports[this.turn++ % this.ports.length]}`;
  }

  /** A call of the admin API that must succeed. @param instance default: in turn */
  async send(method: string, path: string, body?: object, instance?: number): Promise<TestResponse> {
    const url = instance === undefined ? this.url : `http://127.0.0.1:${this.ports[instance]}`;
    const response = await call(url, method, `/api/cdp/admin/${path}`, { token: this.admin, body });
    if (response.status >= 400) throw new Error(response.text);
    return response;
  }

  /** A new project on the server `a`, with somebody who writes to its `ledger`, and not to `held`. */
  async shop(options: Partial<ClientOptions> = {}): Promise<Shop> {
    const name = `shop-${this.begun++}`;
    const made = await this.send('POST', 'projects', { name, server: 'a' });
    const { id } = made.body.project as { id: string };
    const { token } = (await this.send('POST', `projects/${name}/tokens`, {})).body as { token: string };
    const held = { ...LEDGER_TABLE, table_name: 'held' };
    for (const body of [LEDGER_TABLE, held]) {
      const created = await call(this.url, 'POST', '/api/cdp/schema/table', { token, body });
      expect(created.status, created.text).toBe(201);
    }
    const ledger = new Ledger();
    const names = { token, ledger, name: `${name}-` };
    const clients = startClients({ url: () => this.url, count: 1, pauseMs: 30, ...options, ...names });
    const shop = { id, name, token, ledger, clients };
    this.shops.push(shop);
    await stored(shop);
    return shop;
  }

  async beginMove({ name }: Shop, mode: MoveMode, instance?: number): Promise<string> {
    const { body } = await this.send('POST', `projects/${name}/move`, { to: 'b', mode }, instance);
    return (body.move as { id: string }).id;
  }

  async query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return (await this.pool.query<Row>(text, values)).rows;
  }

  async move(id: string): Promise<MoveSeen> {
    const [row] = await this.query<MoveSeen>(
      'SELECT state, ended_at IS NOT NULL AS "hasEnded", reason, fallback, source, target FROM cdp.moves WHERE id = $1',
      [id],
    );
    if (row === undefined) throw new Error('There is no such move');
    return row;
  }

  async placeOf({ id }: Shop): Promise<{ server: string; database: string; writer: string; reader: string }> {
    const [row] = await this.query<{ server: string; database: string; writer: string; reader: string }>(
      `SELECT server, database_name AS database, writer_role AS writer, reader_role AS reader FROM cdp.projects WHERE id = $1`,
      [id],
    );
    if (row === undefined) throw new Error('There is no such project');
    return row;
  }

  serverNamed(name: string): AddedServer {
    return name === 'a' ? this.a : this.b;
  }

  /** Databases, roles, slots and publications of places where no project lives. */
  async leftBehind(): Promise<string[]> {
    const places = await Promise.all(this.shops.map((shop) => this.placeOf(shop)));
    const left: string[] = [];
    for (const name of ['a', 'b']) {
      const here = places.filter(({ server }) => server === name);
      const known = here.flatMap(({ database, writer, reader }) => [database, writer, reader]);
      const { connection } = this.serverNamed(name);
      const there = await onDatabase(connection, (client) => client.query<{ name: string }>(THERE));
      left.push(...there.rows.map((row) => row.name).filter((one) => !known.includes(one)));
      for (const { database } of here) {
        const { rows } = await onDatabase({ ...connection, database }, (client) =>
          client.query<{ name: string }>(`SELECT pubname AS name FROM pg_publication`),
        );
        left.push(...rows.map((row) => `${row.name} of ${database}`));
      }
    }
    return left;
  }

  /** Ends the writing, and compares what was answered with where each project lives. */
  async compare(): Promise<void> {
    await Promise.all(this.shops.map(({ clients }) => clients.stop()));
    const codes: Record<string, number> = {};
    let acknowledged = 0;
    for (const shop of this.shops) {
      const { server, database } = await this.placeOf(shop);
      const at = { ...this.serverNamed(server).connection, database };
      const verdict = await onDatabase(at, (client) => shop.ledger.compare(client));
      acknowledged += verdict.acknowledged;
      expect(verdict.wrong, `${UNTRUE}, in ${shop.name}`).toEqual([]);
      for (const [code, count] of Object.entries(shop.ledger.codes)) codes[code] = (codes[code] ?? 0) + count;
    }
    console.log('moves:', { projects: this.shops.length, acknowledged }, codes);
    expect(Object.keys(codes).filter((code) => !TRUE_RESPONSES.includes(code) && !/^E/.test(code))).toEqual([]);
  }

  async close(): Promise<void> {
    for (const { clients } of this.shops) void clients.stop();
    for (const service of this.services) {
      service.process.kill('SIGCONT');
      await service.end('SIGKILL');
    }
    await this.pool.end();
    await Promise.all([this.control, this.a, this.b].map((server) => server.close()));
  }
}

/** What a client may be told: a killed service answers nothing, and one that has slept is late. */
const TRUE_RESPONSES = [
  ...['200', '201', 'database_unavailable', 'outcome_unknown', 'overloaded', 'query_timeout', 'request_in_flight'],
];

const THERE = `SELECT datname::text AS name FROM pg_database WHERE datname ~ '^d_'
  UNION ALL SELECT rolname FROM pg_roles WHERE rolname ~ '^[wrb]_' UNION ALL SELECT slot_name FROM pg_replication_slots`;

const environment = (control: AddedServer, a: AddedServer, b: AddedServer) => ({
  DATABASE_URL: control.url,
  CDP_SECRET: SECRET,
  SERVER_a: a.url,
  SERVER_b: b.url,
});

/** Several moves at once keep the machine busy. */
export const patiently = async (what: string, ask: () => Promise<boolean>): Promise<void> => {
  await vi.waitUntil(ask, { timeout: 150_000, interval: 50 }).catch((cause: unknown) => {
    throw new Error(`It did not happen: ${what}`, { cause });
  });
};

/** Waits until what is sent from now on is stored. */
export async function stored({ name, ledger }: Shop): Promise<void> {
  const before = ledger.batches.length;
  await patiently(`${name} takes writes`, () =>
    Promise.resolve(ledger.batches.slice(before).some(({ replies }) => replies.some(({ status }) => status === 201))),
  );
}
