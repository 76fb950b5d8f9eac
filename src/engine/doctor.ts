/** What `cdp doctor` looks at, and what an operator should do about it. Looking changes nothing, except for the trial. */
import { randomBytes } from 'node:crypto';
import { statfs } from 'node:fs/promises';
import { roundedSize } from '../contract/disk-size.js';
import { messageOf } from '../contract/operator-message.js';
import type { Finding } from '../contract/wire/operator.js';
import type { ServerAddress } from '../postgres/server.js';
import { BOUNDED, isOlder, loadedLibxml } from '../embedded/libxml.js';
import { limitsOf } from '../embedded/limits.js';
import { newestVersion, readMigrations } from '../tenancy/migrate.js';
import { type ServerFacts, serverFacts } from '../tenancy/server-facts.js';
import { CONNECTIONS_BESIDE_PROJECTS } from '../tenancy/service-pool.js';
import type { Origin } from './audit/audit.js';
import type { Engine } from './engine.js';
import { insertRecords } from './insert/records.js';
import { collectSql } from './sql/collect.js';
import { createTable } from './schema/tables.js';

const MAJORS = { oldest: 15, newest: 18 };

/** Answers can wait for tokens whose times lie between two clocks. */
const CLOCK_MS = 1_000;

/** Below this share of the disk, or these bytes, one large import may fill it. */
const DISK = { share: 0.1, bytes: 2 * 1024 ** 3, least: 256 * 1024 ** 2 };

const TRIAL_MS = 30_000;

const ok = (subject: string, found: string): Finding => ({ subject, health: 'ok', found, advice: null });
const warning = (subject: string, found: string, advice: string): Finding => ({
  subject,
  health: 'warning',
  found,
  advice,
});
const problem = (subject: string, found: string, advice: string): Finding => ({
  subject,
  health: 'problem',
  found,
  advice,
});

/** What the doctor looks at. */
export interface Patient {
  readonly address: ServerAddress;
  /** Connections to projects' databases that this process may have. */
  readonly connections: number;
  /** null: the server is the operator's. */
  readonly embedded: { readonly folder: string; readonly postmaster: () => number } | null;
  /** Opens the engine, if it is not open yet. */
  readonly engine: () => Promise<Engine>;
}

/** Looks at everything, and tries everything once. Whatever fails is a finding. */
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
    // Opening the engine would bring the schema up to date, and an older service may be using it.
    if (isCurrent(facts)) findings.push(...(await examineInstallation(patient, by)));
  } catch (error) {
    findings.push(
      problem('Postgres', messageOf(error), 'Look at DATABASE_URL, pg_hba.conf and the log of the server.'),
    );
  }
  return findings;
}

async function examineInstallation({ engine: open }: Patient, by: Origin): Promise<Finding[]> {
  const findings: Finding[] = [];
  try {
    const engine = await open();
    findings.push(...(await examineProjects(engine)), await tryEverything(engine, by));
  } catch (error) {
    findings.push(problem('trial', messageOf(error), 'docs/errors.md says what a code means; the log says more.'));
  }
  return findings;
}

/**
 * What can be told of the server before anything of ours is in it.
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

/** True where the control schema is the one of this program, so that it can be worked with as it stands. */
const isCurrent = ({ controlVersion }: ServerFacts): boolean =>
  controlVersion === newestVersion(readMigrations('control'));

function version({ major, version: text, isStandby }: ServerFacts): Finding {
  const subject = 'Postgres';
  if (isStandby) {
    return problem(subject, `${text}, a standby, which takes no writes`, 'Point DATABASE_URL at the primary.');
  }
  const { oldest, newest } = MAJORS;
  if (major < oldest) return problem(subject, text, `Upgrade the server to Postgres ${oldest} or later.`);
  if (major > newest) return warning(subject, text, `The service is tested with Postgres ${oldest} to ${newest}.`);
  return ok(subject, text);
}

function rights({ isSuperuser, canProvision }: ServerFacts): Finding {
  const subject = 'rights';
  if (isSuperuser) return ok(subject, 'the role of the service is a superuser');
  if (!canProvision) {
    return problem(
      subject,
      'the role of the service may not make databases and roles',
      'ALTER ROLE … CREATEDB CREATEROLE',
    );
  }
  return ok(subject, 'the role of the service can make projects');
}

/** Without these an acknowledged row can be gone after a power cut. */
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
      'autovacuum is off; tables bloat, and the server stops at a wraparound',
      'Turn it on.',
    );
  }
  return ok('durability', `${DURABLE.join(', ')} are on`);
}

function connections(facts: ServerFacts, maxConnections: number): Finding {
  const needed = maxConnections + CONNECTIONS_BESIDE_PROJECTS;
  const found = `${facts.connections} for ordinary roles; this instance takes ${needed} at most`;
  if (facts.connections >= needed) return ok('connections', found);
  return warning(
    'connections',
    found,
    'Raise max_connections of Postgres, or lower the setting max-connections; several instances add up.',
  );
}

function privacy({ isPrivate, settings }: ServerFacts): Finding {
  const subject = 'passwords';
  if (settings.get('password_encryption') !== 'scram-sha-256') {
    return warning(subject, 'password_encryption is not scram-sha-256', 'Set it, for roles that others make.');
  }
  if (isPrivate) return ok(subject, 'scram-sha-256, on a connection that nobody else can read');
  return warning(subject, 'the connection to Postgres is not encrypted', 'Add sslmode=verify-full to DATABASE_URL.');
}

function clock({ clockAheadMs }: ServerFacts): Finding {
  const seconds = (Math.abs(clockAheadMs) / 1000).toFixed(1);
  const found = `Postgres is ${seconds} s ${clockAheadMs < 0 ? 'behind' : 'ahead of'} this machine`;
  if (Math.abs(clockAheadMs) < CLOCK_MS) return ok('clock', found);
  return warning('clock', found, 'Keep both in time by NTP: tokens expire by one of them and keys by the other.');
}

function controlSchema({ controlVersion }: ServerFacts): Finding {
  const subject = 'control schema';
  const newest = newestVersion(readMigrations('control'));
  if (controlVersion > newest) {
    return problem(
      subject,
      `version ${controlVersion}, and this program knows ${newest}`,
      'Run the newer program; there is no way back but a backup.',
    );
  }
  if (controlVersion === newest) return ok(subject, `version ${controlVersion}, the one of this program`);
  const found = controlVersion === 0 ? 'not there yet' : `version ${controlVersion} of ${newest}`;
  return warning(subject, found, 'The next start of this program brings it up to date. Nothing else was looked at.');
}

/** @param folder of an embedded server */
async function examineDisk(folder: string): Promise<Finding> {
  const { bavail, blocks, bsize } = await statfs(folder);
  const [free, all] = [bavail * bsize, blocks * bsize];
  const found = `${roundedSize(free)} of ${roundedSize(all)} free`;
  const advice = 'Make room, or give projects a quota (cdp project quota, or the setting project-quota).';
  if (free < DISK.least) return problem('disk', found, advice);
  return free < DISK.bytes || free < all * DISK.share ? warning('disk', found, advice) : ok('disk', found);
}

/** @param postmaster the process id of an embedded server. @returns nothing if the system does not tell its limits */
export async function examineLimits(postmaster: number): Promise<Finding[]> {
  const limits = await limitsOf(postmaster);
  if (limits === null) return [];
  const { stackMib, dataMib, hasFullStack } = limits;
  const subject = 'limits';
  const memory = dataMib === Infinity ? 'no bound on its memory' : `${dataMib} MiB of memory`;
  const found = `each process of Postgres: ${memory}, stack ${stackMib} MiB`;
  if (hasFullStack) return [ok(subject, found)];
  const advice =
    'Raise the hard limit (LimitSTACK= in the unit, `ulimit -Hs`, the container’s ulimits) to 256 MiB: deeply nested SQL crashes a small stack.';
  return [warning(subject, `${found}, since the hard limit allows no more`, advice)];
}

/** @param postmaster the process id of an embedded server. @returns nothing if that cannot be told */
async function examineLibxml(postmaster: number): Promise<Finding[]> {
  const loaded = await loadedLibxml(postmaster);
  if (loaded === null) return [];
  const found = `${loaded.version}, ${loaded.path}`;
  if (!isOlder(loaded.version, BOUNDED)) return [ok('libxml2', found)];
  const advice = `Install the system's libxml2 (${BOUNDED} to 2.13) and restart: this one crashes on deeply nested XPath.`;
  return [warning('libxml2', found, advice)];
}

/** Whether every project is as it should be. */
async function examineProjects(engine: Engine): Promise<Finding[]> {
  const findings: Finding[] = [];
  const projects = await engine.projects.list();
  let stopped = 0;
  for (const project of projects) {
    const { name, status } = project;
    const subject = `project ${name}`;
    if (status === 'creating' || status === 'deleting') {
      findings.push(
        warning(subject, `half done: ${status}`, 'The next start of the service finishes it, or cdp project delete.'),
      );
      continue;
    }
    if (!engine.projects.runs(project)) {
      stopped++;
      continue;
    }
    const spoilt = await engine.projects.examine(project).catch((error: unknown) => [String(error)]);
    if (spoilt.length > 0) findings.push(problem(subject, spoilt.join('; '), `cdp project repair ${name}`));
  }
  if (findings.length > 0) return findings;
  if (stopped === 0) return [ok('projects', `${projects.length}, each with its roles and rights in place`)];
  const rest = stopped === 1 ? '1 is stopped, and was not looked at' : `${stopped} are stopped, and were not looked at`;
  return [ok('projects', `${projects.length}; ${rest}`)];
}

/**
 * Makes a project, a table in it and a row in that, asks for the row, and takes everything away again.
 * @throws EngineError whatever failed; the project is gone then, too
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
    const [result] = await collectSql(project, { ...question, maxRows: 1, rowMode: 'array' });
    const answer = Buffer.concat(result?.rows?.views() ?? []).toString();
    if (answer !== '["well"]') return problem('trial', `the answer was ${answer}`, 'Report this as a defect.');
  } finally {
    await engine.deleteProject(name, by);
  }
  const ms = Math.round(performance.now() - started);
  return ok('trial', `a project, a table, a row, a question: answered and taken away again in ${ms} ms`);
}
