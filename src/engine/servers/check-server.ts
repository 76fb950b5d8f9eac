/** `cdp server check`: checks whether projects can live on a Postgres server, and why not. Changes nothing there. */
import { messageOf } from '../../contract/errors.js';
import { roundedMs } from '../../contract/wire/fields.js';
import type { ServerEngine } from '../../contract/servers.js';
import { problem, warning, ok, type Finding } from '../../contract/wire/findings.js';
import type { ServerFacts as ShownFacts } from '../../contract/wire/servers.js';
import type { ServerAddress } from '../../pg/index.js';
import { locksExclude, type ServerProbe, probeServer, inspectServer, versionText } from '../../tenancy/server-facts.js';
import { examineCommits, examineFitness, examineOperation } from './server-findings.js';

export interface ServerCheck {
  /** A problem among them means that no project can live there. */
  readonly fitness: readonly Finding[];
  /** Other findings. */
  readonly condition: readonly Finding[];
  /** null: the server could not be reached. */
  readonly facts: Omit<ShownFacts, 'bytes'> | null;
}

interface ServerCheckOptions {
  readonly address: ServerAddress;
  readonly engine: ServerEngine;
  /** The source of its URL, for advice. */
  readonly source: string;
  /** This instance's limit of connections to its projects. */
  readonly connections: number;
}

/** A failure is a finding. */
export async function checkServer(options: ServerCheckOptions): Promise<ServerCheck> {
  try {
    return await check(options);
  } catch (error) {
    const advice = `Check ${options.source}, pg_hba.conf and the log of the server.`;
    return { fitness: [problem('Postgres', messageOf(error), advice)], condition: [], facts: null };
  }
}

async function check({ address, engine, source, connections }: ServerCheckOptions): Promise<ServerCheck> {
  const name = await versionText(address);
  const unsupported = UNSUPPORTED_SERVERS.find(({ sign }) => name.includes(sign));
  if (unsupported !== undefined) return { fitness: [unsupportedFinding(unsupported)], condition: [], facts: null };
  const facts = await inspectServer(address);
  const reach = await probeServer(address);
  const excludes = await locksExclude(address);
  return {
    fitness: [...examineFitness(facts), locks(excludes), ...citus(engine, reach, address.database)],
    condition: [
      ...examineOperation(facts, { connections, used: reach.connectionsUsed, source }),
      ...(await examineCommits(address)),
      latency(reach),
    ],
    facts: {
      checked_at: new Date().toISOString(),
      version: facts.version,
      latency_ms: roundedMs(reach.latencyMs),
      clock_ahead_ms: roundedMs(facts.clockAheadMs),
      connections: facts.connections,
      connections_used: reach.connectionsUsed,
    },
  };
}

interface UnsupportedServer {
  /** A text in the result of `version()`. */
  readonly sign: string;
  readonly name: string;
  readonly reason: string;
}

const UNSUPPORTED_SERVERS: readonly UnsupportedServer[] = [
  {
    sign: 'CockroachDB',
    name: 'CockroachDB',
    reason: 'its advisory locks do not exclude other sessions, so a batch could be stored twice',
  },
  {
    sign: '-YB-',
    name: 'YugabyteDB',
    reason: 'it cannot clone template databases, and its advisory locks are missing or switched off',
  },
];

const USE_POSTGRES = 'Add a Postgres server, version 15 to 18; a managed one will do.';

const unsupportedFinding = ({ name, reason }: UnsupportedServer): Finding =>
  problem('Postgres', `the server is ${name}: ${reason}`, USE_POSTGRES);

const locks = (excludes: boolean): Finding =>
  excludes
    ? ok('advisory locks', 'a lock of one session excludes others')
    : problem(
        'advisory locks',
        'two sessions got the same advisory lock, so a batch could be stored twice',
        'Name the Postgres server itself, not a connection pooler or a database that only looks like Postgres.',
      );

function citus(engine: ServerEngine, { hasCitus }: ServerProbe, database: string): Finding[] {
  if (engine === 'citus' && !hasCitus) {
    const advice = `CREATE EXTENSION citus in the database ${database} of the coordinator.`;
    return [problem('Citus', `the database ${database} does not have the extension citus`, advice)];
  }
  if (engine === 'postgres' && hasCitus) {
    const advice = 'Add it with --engine citus, or name a database without the extension.';
    return [problem('Citus', `the database ${database} has the extension citus`, advice)];
  }
  return hasCitus ? [ok('Citus', `the extension is in the database ${database}`)] : [];
}

/** A request takes several round trips. */
const SLOW_MS = 10;

function latency({ latencyMs }: ServerProbe): Finding {
  const result = `a round trip takes ${latencyMs.toFixed(1)} ms`;
  return latencyMs < SLOW_MS
    ? ok('latency', result)
    : warning('latency', result, 'Every request takes several round trips: run the service near its servers.');
}
