/** The service in this process, over embedded servers in a data folder of the test's own. */
import { join } from 'node:path';
import pg from 'pg';
import { pino } from 'pino';
import { loadConfig } from '../../src/cli/load-config.js';
import { processes } from '../../src/embedded/proc.js';
import { type Service, startService } from '../../src/service.js';
import { preparedDataDir, projectPostmaster, serverOf, superuserOf } from '../support/program.js';
import { call, type TestResponse } from '../support/service.js';

export interface Stage {
  readonly dataDir: string;
  readonly service: Service;
  /** Servers of projects that run, start or stop now. */
  readonly running: () => number;
  readonly log: () => Record<string, unknown>[];
  /** Makes a project. */
  project(name: string): Promise<StageProject>;
  close(): Promise<void>;
}

export interface StageProject {
  readonly name: string;
  /** The id of its server. */
  readonly server: string;
  readonly folder: string;
  readonly token: string;
  readonly sql: (text: string) => Promise<TestResponse>;
  /** Of its postmaster; undefined if it does not run. */
  readonly pid: () => Promise<number | undefined>;
}

/** @param settings by flag name, as on the command line: `{ 'idle-stop-ms': '1000' }` */
export async function openStage(settings: Record<string, string> = {}, dataDir?: string): Promise<Stage> {
  const folder = dataDir ?? (await preparedDataDir());
  const { config } = loadConfig({ port: '0', 'data-dir': folder, ...settings }, {}, null);
  const lines: Record<string, unknown>[] = [];
  const write = (line: string) => void lines.push(JSON.parse(line) as Record<string, unknown>);
  const service = await startService(config, pino({ level: 'info' }, { write }));
  const tenancy = service.engine.servers.defaultTenancy;
  if (tenancy.files === null) throw new Error('The projects have no servers of their own');
  return {
    dataDir: folder,
    service,
    running: () => tenancy.runningServers,
    log: () => lines,
    project: (name) => makeProject(service, folder, name),
    close: () => service.close(),
  };
}

async function makeProject({ engine, url }: Service, dataDir: string, name: string): Promise<StageProject> {
  const { id } = await engine.projects.create(name);
  const { token } = await engine.tokens.create(id);
  const server = await serverOf(dataDir, name);
  return {
    name,
    server,
    folder: join(dataDir, 'postgres/projects', server),
    token,
    sql: (text) => call(url, 'POST', '/api/cdp/sql', { token, body: { sql: text } }),
    pid: () => projectPostmaster(dataDir, name),
  };
}

/** Rows of the control database, read without the service. */
export async function controlRows<Row extends pg.QueryResultRow>(dataDir: string, text: string): Promise<Row[]> {
  const client = new pg.Client(superuserOf(dataDir));
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Command lines of all processes of the servers of a data folder, also of those whose postmaster is gone. */
export async function processesOf(dataDir: string, ...servers: string[]): Promise<string[]> {
  const titles = servers.map((server) => `postgres: cdp-${server}-`);
  const all = (await processes()).map(({ command }) => command);
  return all.filter((command) => command.includes(dataDir) || titles.some((title) => command.startsWith(title)));
}

let ranges = 0;

/**
 * The user ids, first and last, of a range for one test: two installations that share a range must not use it up
 * together.
 */
export function uidRange(count: number): [first: number, last: number] {
  const first = 51_000 + ((process.pid * 13 + ranges++) % 300) * 3;
  return [first, first + count - 1];
}
