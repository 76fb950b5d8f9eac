/** `cdp doctor`: checks everything that the service depends on, and says what to do. Only the trial changes anything. */
import { randomBytes } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import { roundedSize } from '../contract/disk-size.js';
import { messageOf } from '../contract/operator-message.js';
import type { Finding } from '../contract/wire/operator.js';
import type { ServerAddress } from '../pg/index.js';
import { BOUNDED, isOlder, loadedLibxml } from '../embedded/libxml.js';
import { limitsOf } from '../embedded/limits.js';
import { newestVersion, readMigrations } from '../tenancy/migrate.js';
import { type ServerFacts, serverFacts } from '../tenancy/server-facts.js';
import { CONNECTIONS_BESIDE_PROJECTS } from '../tenancy/service-pool.js';
import type { Origin } from './audit/audit.js';
import type { Engine } from './engine.js';
import { insertRecords } from './insert/insert.js';
import { collectSql } from './sql/collect-sql.js';
import { createTable } from './schema/tables.js';

const MAJORS = { oldest: 15, newest: 18 };

/** Difference between the clocks of Postgres and of this machine. */
const CLOCK_MS = 1_000;

/** Warn below this share of the disk or these bytes, which one large import may fill. */
const DISK = { share: 0.1, bytes: 2 * 1024 ** 3, least: 256 * 1024 ** 2 };

const TRIAL_MS = 30_000;

const ok = (subject: string, found: string): Finding => ({ subject, health: 'ok', found, advice: null });
const wrong =
  (health: 'warning' | 'problem') =>
  (subject: string, found: string, advice: string): Finding => ({ subject, health, found, advice });
const warning = wrong('warning');
const problem = wrong('problem');

/** What is checked. */
export interface Patient {
  readonly address: ServerAddress;
  /** Connections to projects' databases that this process may have. */
  readonly connections: number;
  /** null: the server is the operator's. */
  readonly embedded: { readonly folder: string; readonly postmaster: () => number } | null;
  /** Opens the engine, if it is not open yet. */
  readonly engine: () => Promise<Engine>;
}

/** Checks everything, and tries everything once. A failure is a finding. */
export async function examine(patient: Patient, by: Origin): Promise<Finding[]> {
  const { address, connections, embedded } = patient;
  const findings: Finding[] = [];
  try {
    const facts = await serverFacts(address);
    findings.push(...examineServer(facts, embedded === null ? connections : null));
    if (embedded !== null) {
      const pid = embedded.postmaster();
      findings.push(await examineDisk(embedded.folder), ...(await examineLimits(pid)), ...(await examineLibxml(pid)));
    }
    // Opening the engine would migrate the schema, and an older service may be using it.
    if (isCurrent(facts)) findings.push(...(await examineInstallation(patient, by)));
  } catch (error) {
    findings.push(problem('Postgres', messageOf(error), 'Check DATABASE_URL, pg_hba.conf and the log of the server.'));
  }
  return findings;
}

async function examineInstallation({ engine: open }: Patient, by: Origin): Promise<Finding[]> {
  const findings: Finding[] = [];
  try {
    const engine = await open();
    findings.push(...(await examineProjects(engine)), await tryEverything(engine, by));
  } catch (error) {
    findings.push(problem('trial', messageOf(error), 'docs/errors.md explains the error codes; see also the log.'));
  }
  return findings;
}

/**
 * Checks of the server that need nothing of ours in it.
 * @param maxConnections null: no project is on this server
 */
function examineServer(facts: ServerFacts, maxConnections: number | null): Finding[] {
  return [
    version(facts),
    rights(facts),
    durability(facts),
    ...(maxConnections === null ? [] : [connections(facts, maxConnections)]),
    privacy(facts),
    clock(facts),
    controlSchema(facts),
  ];
}

/** Whether the control schema is of this program's version. */
const isCurrent = ({ controlVersion }: ServerFacts): boolean =>
  controlVersion === newestVersion(readMigrations('control'));

function version({ major, version: text, isStandby }: ServerFacts): Finding {
  const subject = 'Postgres';
  if (isStandby) {
    return problem(subject, `${text}, a read-only standby`, 'Point DATABASE_URL at the primary.');
  }
  const { oldest, newest } = MAJORS;
  if (major < oldest) return problem(subject, text, `Upgrade the server to Postgres ${oldest} or later.`);
  if (major > newest) return warning(subject, text, `The service is tested with Postgres ${oldest} to ${newest}.`);
  return ok(subject, text);
}

function rights({ isSuperuser, canProvision }: ServerFacts): Finding {
  const subject = 'rights';
  if (isSuperuser) return ok(subject, "the service's role is a superuser");
  if (!canProvision) {
    return problem(
      subject,
      "the service's role may not create databases and roles",
      'ALTER ROLE … CREATEDB CREATEROLE',
    );
  }
  return ok(subject, "the service's role may create databases and roles");
}

/** Without these an acknowledged row can be lost in a power failure. */
const DURABLE = ['fsync', 'full_page_writes', 'synchronous_commit'];

function durability({ settings }: ServerFacts): Finding {
  const off = [...DURABLE, 'autovacuum'].filter((name) => settings.get(name) === 'off');
  if (off.some((name) => DURABLE.includes(name))) {
    const names = off.join(', ');
    return problem('durability', `off: ${names}; acknowledged rows can be lost`, `ALTER SYSTEM RESET for: ${names}`);
  }
  if (off.length > 0) {
    return warning(
      'durability',
      'autovacuum is off; tables bloat, and transaction IDs will wrap around',
      'ALTER SYSTEM RESET autovacuum',
    );
  }
  return ok('durability', `${DURABLE.join(', ')} are on`);
}

function connections(facts: ServerFacts, maxConnections: number): Finding {
  const needed = maxConnections + CONNECTIONS_BESIDE_PROJECTS;
  const found = `${facts.connections} available to ordinary roles; this instance uses up to ${needed}`;
  if (facts.connections >= needed) return ok('connections', found);
  return warning(
    'connections',
    found,
    'Raise max_connections of Postgres, or lower the setting max-connections. Several instances add up.',
  );
}

function privacy({ isPrivate, settings }: ServerFacts): Finding {
  const subject = 'passwords';
  if (settings.get('password_encryption') !== 'scram-sha-256') {
    return warning(subject, 'password_encryption is not scram-sha-256', 'Set password_encryption to scram-sha-256.');
  }
  if (isPrivate) return ok(subject, 'scram-sha-256, over a connection that nobody else can read');
  return warning(subject, 'the connection to Postgres is not encrypted', 'Add sslmode=verify-full to DATABASE_URL.');
}

function clock({ clockAheadMs }: ServerFacts): Finding {
  const seconds = (Math.abs(clockAheadMs) / 1000).toFixed(1);
  const found = `Postgres is ${seconds} s ${clockAheadMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (Math.abs(clockAheadMs) < CLOCK_MS) return ok('clock', found);
  return warning(
    'clock',
    found,
    'Synchronize both by NTP: tokens expire by one clock, and idempotency keys by the other.',
  );
}

function controlSchema({ controlVersion }: ServerFacts): Finding {
  const subject = 'control schema';
  const newest = newestVersion(readMigrations('control'));
  if (controlVersion > newest) {
    return problem(
      subject,
      `version ${controlVersion}; this program supports up to ${newest}`,
      'Run the newer program, or restore a backup made by this one.',
    );
  }
  if (controlVersion === newest) return ok(subject, `version ${controlVersion}, up to date`);
  const found = controlVersion === 0 ? 'not created yet' : `version ${controlVersion} of ${newest}`;
  return warning(subject, found, 'The next start of this program migrates it. Projects were not checked.');
}

/** @param folder of an embedded server */
async function examineDisk(folder: string): Promise<Finding> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const [free, all] = [bavail * bsize, blocks * bsize];
  const found = `${roundedSize(free)} of ${roundedSize(all)} free`;
  const advice = 'Free disk space, or limit projects (cdp project quota, or the setting project-quota).';
  if (free < DISK.least) return problem('disk', found, advice);
  return free < DISK.bytes || free < all * DISK.share ? warning('disk', found, advice) : ok('disk', found);
}

/** @param postmaster process id of an embedded server. @returns nothing if the system does not say */
export async function examineLimits(postmaster: number): Promise<Finding[]> {
  const limits = await limitsOf(postmaster);
  if (limits === null) return [];
  const { stackMib, dataMib, hasFullStack } = limits;
  const subject = 'limits';
  const memory = dataMib === Infinity ? 'unlimited memory' : `${dataMib} MiB of memory`;
  const found = `per Postgres process: ${memory}, ${stackMib} MiB of stack`;
  if (hasFullStack) return [ok(subject, found)];
  const advice =
    'Raise the hard limit to 256 MiB (LimitSTACK= in the unit, `ulimit -Hs`, ulimits of the container): deeply nested SQL can exceed a small stack and crash the server.';
  return [warning(subject, `${found}, because of the hard limit`, advice)];
}

/** @param postmaster process id of an embedded server. @returns nothing if the system does not say */
async function examineLibxml(postmaster: number): Promise<Finding[]> {
  const loaded = await loadedLibxml(postmaster);
  if (loaded === null) return [];
  const found = `${loaded.version}, ${loaded.path}`;
  if (!isOlder(loaded.version, BOUNDED)) return [ok('libxml2', found)];
  const advice = `Install libxml2 ${BOUNDED} to 2.13 on the system and restart: this one crashes on deeply nested XPath.`;
  return [warning('libxml2', found, advice)];
}

/** Whether the roles and rights of each project are intact. A stopped server is not started for that. */
async function examineProjects(engine: Engine): Promise<Finding[]> {
  const findings: Finding[] = [];
  const projects = await engine.projects.list();
  let stopped = 0;
  for (const project of projects) {
    const { name, status } = project;
    const subject = `project ${name}`;
    if (status === 'creating' || status === 'deleting') {
      findings.push(
        warning(
          subject,
          `interrupted while ${status}`,
          'The service removes it at its next start; or run cdp project delete.',
        ),
      );
      continue;
    }
    if (!engine.projects.runs(project)) {
      stopped++;
      continue;
    }
    const drift = await engine.projects.examine(project).catch((error: unknown) => [String(error)]);
    if (drift.length > 0) findings.push(problem(subject, drift.join('; '), `cdp project repair ${name}`));
  }
  if (findings.length > 0) return findings;
  const intact = `${projects.length - stopped} checked: roles and privileges are intact`;
  const servers = stopped === 1 ? 'its server is' : 'their servers are';
  const skipped = `${stopped} not checked, because ${servers} stopped until the next request`;
  if (stopped === 0) return [ok('projects', intact)];
  return [ok('projects', stopped === projects.length ? skipped : `${intact}; ${skipped}`)];
}

/**
 * Creates a project, a table and a row, reads the row, and deletes the project.
 * @throws EngineError whatever failed; the project is deleted then, too
 */
async function tryEverything(engine: Engine, by: Origin): Promise<Finding> {
  const started = performance.now();
  const name = `doctor-${randomBytes(4).toString('hex')}`;
  const row = await engine.projects.create(name, by);
  try {
    const project = engine.project(row);
    const signal = AbortSignal.timeout(TRIAL_MS);
    const table = { table_name: 'trial', columns: [{ name: 'note', type: 'TEXT' as const }] };
    await createTable(project, table, { holdMs: TRIAL_MS, signal });
    const options = { returnIds: false, idempotency: null, signal };
    await insertRecords(project, 'trial', Buffer.from('[{"note":"well"}]'), options);
    const question = { sql: 'SELECT note FROM trial', params: [], readOnly: true, timeoutMs: TRIAL_MS, signal };
    const {
      answer: [result],
    } = await collectSql(project, { ...question, maxRows: 1, rowMode: 'array' });
    const answer = Buffer.concat(result?.rows?.buffers ?? []).toString();
    if (answer !== ',["well"]') return problem('trial', `the response was ${answer}`, 'Report this as a bug.');
  } finally {
    await engine.deleteProject(name, by);
  }
  const ms = Math.round(performance.now() - started);
  return ok('trial', `created a project, a table and a row, read it, and deleted everything in ${ms} ms`);
}
