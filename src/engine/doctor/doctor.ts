/** `cdp doctor`: checks everything that the service depends on, and gives advice. Only the trial changes anything. */
import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { EngineError, messageOf } from '../../contract/errors.js';
import { counted } from '../../contract/message-text.js';
import { isReady } from '../../contract/projects.js';
import { DEFAULT_SERVER, takesTrials } from '../../contract/servers.js';
import { problem, warning, ok, type Finding } from '../../contract/wire/findings.js';
import type { Project } from '../../db/project.js';
import type { ServerAddress } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { inspectServer } from '../../tenancy/server-facts.js';
import type { AuditOrigin } from '../../contract/audit.js';
import { VERSION } from '../../version.js';
import type { Engine } from '../engine.js';
import { arrayOfRecords } from '../insert/batch.js';
import { insertRecords } from '../insert/insert.js';
import { createTable } from '../schema/tables.js';
import { checkNow } from '../servers/change-servers.js';
import { examineCommits, examineServer, isCurrent } from '../servers/server-findings.js';
import { collectSql } from '../sql/collect-sql.js';
import { examineDisk, examineLibraries, examineLibxml, examineLimits } from './machine-findings.js';

const TRIAL_MS = 30_000;

/** What the admin socket serves: the service that runs on this data folder, or `cdp doctor` without it. */
export interface ServiceUnderTest {
  readonly address: ServerAddress;
  /** The limit of connections to projects' databases. */
  readonly connections: number;
  /** null: the operator runs the server. */
  readonly embedded: {
    readonly folder: string;
    /** Where those of the servers come from. */
    readonly programs: string;
    readonly postmaster: () => number;
    /** In bytes. */
    readonly diskReserve: number;
  } | null;
  /** Opens the engine, if it is not open yet. */
  readonly engine: () => Promise<Engine>;
}

type OnFinding = (finding: Finding) => void;

/**
 * Runs all checks and a trial. A failure is one more finding, and so is a check that takes too long.
 * @param onFinding called with each finding as soon as it is known
 */
export async function examine(target: ServiceUnderTest, by: AuditOrigin, onFinding: OnFinding): Promise<void> {
  const { address, connections, embedded } = target;
  const advice =
    embedded === null
      ? 'Check DATABASE_URL, pg_hba.conf and the log of the server.'
      : 'See postgres/control/postgres.log in the data folder, and the log of the service.';
  try {
    const facts = await inTime(inspectServer(address));
    examineServer(facts, embedded === null ? connections : null).forEach(onFinding);
    const commits = await inTime(examineCommits(address));
    commits.forEach(onFinding);
    if (embedded !== null) {
      const pid = embedded.postmaster();
      onFinding(ok('programs', embedded.programs));
      onFinding(await inTime(examineDisk(embedded.folder, embedded.diskReserve)));
      const ofProcess = [await examineLimits(pid), await examineLibraries(pid), await examineLibxml(pid)];
      ofProcess.flat().forEach(onFinding);
    }
    // Opening the engine would migrate the schema, and an older service may be using it.
    if (!isCurrent(facts)) return;
    if (isStuck(commits)) onFinding(NOT_TRIED);
    else await examineInstallation(target, by, onFinding);
  } catch (error) {
    onFinding(problem('Postgres', messageOf(error), advice));
  }
}

/**
 * After an upgrade, the service that runs may still be the old one.
 * @param asking version of the program that asks
 */
export const examineVersion = (asking: string): Finding[] =>
  asking === VERSION
    ? []
    : [warning('running service', VERSION, `This command is ${asking}: restart the service if it should be, too.`)];

/** How long one check may take; each of its queries has a shorter limit. */
const CHECK_MS = 60_000;

async function inTime<T>(check: Promise<T>): Promise<T> {
  const end = new AbortController();
  const late = sleep(CHECK_MS, null, { signal: end.signal }).then(() => {
    throw new Error(`not finished within ${CHECK_MS / 1_000} s`);
  });
  try {
    return await Promise.race([check, late]);
  } finally {
    end.abort();
  }
}

const isStuck = (findings: readonly Finding[]): boolean =>
  findings.some(({ subject, health }) => subject.endsWith('commits') && health === 'problem');

const NOT_TRIED = warning('trial', 'not tried: no commit returns', 'Run cdp doctor again after the commits return.');

const IN_TRIAL = 'docs/errors.md explains the error codes; see also the log.';

async function examineInstallation(
  { engine: open }: ServiceUnderTest,
  by: AuditOrigin,
  onFinding: OnFinding,
): Promise<void> {
  const failed = (subject: string) => (error: unknown) => problem(subject, messageOf(error), IN_TRIAL);
  let engine;
  try {
    engine = await inTime(open());
  } catch (error) {
    return onFinding(failed('trial')(error));
  }
  const { findings, unreachable } = await inTime(examineAddedServers(engine));
  findings.forEach(onFinding);
  const projects = examineProjects(engine, unreachable);
  (await inTime(projects).catch((error: unknown) => [failed('projects')(error)])).forEach(onFinding);
  const archives = examineArchives(engine);
  (await inTime(archives).catch((error: unknown) => [failed('archives')(error)])).forEach(onFinding);
  const backups = examineBackups(engine);
  (await inTime(backups).catch((error: unknown) => [failed('backups')(error)])).forEach(onFinding);
  for (const server of await engine.control.servers.list()) {
    const { name } = server;
    if (unreachable.has(name) || !takesTrials(server)) continue;
    const ofThis = findings.filter(({ subject }) => subject.startsWith(`${name}: `));
    const trial = isStuck(ofThis) ? NOT_TRIED : await inTime(tryEverything(engine, name, by)).catch(failed('trial'));
    (name === DEFAULT_SERVER ? [trial] : ofServer(name, [trial])).forEach(onFinding);
  }
}

/**
 * Creates a project on a server, a table and a row, reads the row, and deletes the project.
 * @throws EngineError of the step that failed; the project is then deleted, too
 */
async function tryEverything(engine: Engine, server: string, by: AuditOrigin): Promise<Finding> {
  const started = performance.now();
  const name = `doctor-${randomBytes(4).toString('hex')}`;
  let row: ProjectRow;
  try {
    row = await engine.projects.create(name, by, { server });
  } catch (error) {
    // The server is full, or the operator has closed it.
    if (!(error instanceof EngineError && error.code === 'invalid_request')) throw error;
    return ok('trial', `not tried: ${error.message}`);
  }
  let response: string;
  try {
    response = await storeAndRead(engine, engine.admit(row, null));
  } catch (error) {
    // The first failure tells more than that of the cleanup.
    await engine.projects.delete(name, by).catch(() => {});
    throw error;
  }
  await engine.projects.delete(name, by);
  if (response !== ',["well"]') return problem('trial', `the response was ${response}`, 'Report this as a bug.');
  const ms = Math.round(performance.now() - started);
  return ok('trial', `created a project, a table and a row, read it, and deleted everything in ${ms} ms`);
}

/** @returns the row as JSON */
async function storeAndRead({ services }: Engine, project: Project): Promise<string> {
  const signal = AbortSignal.timeout(TRIAL_MS);
  const table = { table_name: 'trial', columns: [{ name: 'note', type: 'TEXT' as const }] };
  await createTable(project, table, { holdMs: TRIAL_MS, signal });
  const body = arrayOfRecords(Buffer.from('[{"note":"well"}]'));
  const { tableCache, throttle, quarantineDays } = services;
  const plain = { returnIds: false, key: null, upsert: null, quarantine: false };
  await insertRecords(project, 'trial', body, { tableCache, throttle, quarantineDays, ...plain, signal });
  const question = { sql: 'SELECT note FROM trial', params: [], readOnly: true, timeoutMs: TRIAL_MS, signal };
  const { response } = await collectSql(services, project, { ...question, maxRows: 1, rowMode: 'array' });
  return Buffer.concat(response.results[0]?.rows?.buffers ?? []).toString();
}

// The findings of `cdp doctor` about added servers: those of each server's check.

interface AddedServers {
  readonly findings: readonly Finding[];
  /** Names of servers that could not be reached. */
  readonly unreachable: ReadonlySet<string>;
}

/** In parallel: each server that does not answer takes some seconds. */
async function examineAddedServers(engine: Engine): Promise<AddedServers> {
  const servers = (await engine.control.servers.list()).filter(({ urlReference }) => urlReference !== null);
  const results = await Promise.all(
    servers.map(async (server) => ({ server: server.name, ...(await checkNow(engine, server)) })),
  );
  return {
    findings: results.flatMap(({ server, fitness, condition }) => ofServer(server, [...fitness, ...condition])),
    unreachable: new Set(results.filter(({ facts }) => facts === null).map(({ server }) => server)),
  };
}

/** Adds the name of the server to findings. */
export const ofServer = (server: string, findings: readonly Finding[]): Finding[] =>
  findings.map((finding) => ({ ...finding, subject: `${server}: ${finding.subject}` }));

// The findings of `cdp doctor` about archived write-ahead logs.

/** @returns nothing if no project is archived */
export async function examineArchives({ archiveWatch }: Engine): Promise<Finding[]> {
  const states = [...(await archiveWatch.check()).values()];
  const failing = states.filter(({ failure }) => failure !== null);
  if (states.length === 0) return [];
  if (failing.length === 0)
    return [ok('archives', `the write-ahead log of ${counted(states.length, 'project')} is archived`)];
  return failing.map(({ name, failure, waiting, since }) => {
    const late =
      since === null ? '' : `; ${counted(waiting, 'segment')} not archived, the oldest since ${since.toISOString()}`;
    return problem(`archive of ${name}`, `${failure}${late}`, ADVICE);
  });
}

const ADVICE =
  'Until then the project cannot be restored to a later moment, and its log fills the disk. Make the folder writable for ' +
  'the user of its server, and the disk have room; or turn it off and on: cdp project archive NAME off. Then make a backup.';

// The findings of `cdp doctor` about the service's own backups.

/** @returns nothing without the setting `backup-to` */
export async function examineBackups({ backupPlan }: Engine): Promise<Finding[]> {
  if (backupPlan === null) return [];
  const { folder, last, isOverdue } = await backupPlan.state();
  const since = last?.succeededAt == null ? 'there is none yet' : `the last is of ${last.succeededAt.toISOString()}`;
  const subject = `backups into ${folder}`;
  if (last?.error != null) return [problem(subject, `${last.error}; ${since}`, AFTER_FAILURE)];
  if (isOverdue) return [problem(subject, `overdue; ${since}`, AFTER_FAILURE)];
  if (last?.succeededAt == null) return [warning(subject, since, 'Make the first: cdp backup --to')];
  return [ok(subject, since)];
}

const AFTER_FAILURE =
  'The log of the service says more. Make sure that the folder is mounted and has room, then run cdp backup --to.';

// The findings of `cdp doctor` about projects: whether the roles and privileges of each are intact.

const DOES_NOT_START =
  'The log of the service and postgres.log in the folder of its server say more. If its files are damaged, restore the project from a backup.';

/** Maximum number of projects that one finding names. */
const NAMED = 5;

/**
 * Does not start a stopped server. The same problem in several projects becomes one finding.
 * @param unreachable servers that could not be reached
 */
async function examineProjects({ projects }: Engine, unreachable: ReadonlySet<string>): Promise<Finding[]> {
  const all = await projects.list();
  const [interrupted, drifted] = [new Map<string, string[]>(), new Map<string, string[]>()];
  const unreached = new Map<string, string[]>();
  const notStarting = new Map<string, string[]>();
  let stoppedCount = 0;
  for (const project of all) {
    const { name, status } = project;
    if (!isReady(project)) {
      addToGroup(interrupted, `interrupted while ${status}`, name);
    } else if (unreachable.has(project.placement.server)) {
      addToGroup(unreached, project.placement.server, name);
    } else if (!projects.isRunning(project)) {
      stoppedCount++;
      const failure = projects.startFailure(project);
      if (failure !== null)
        addToGroup(notStarting, `its server does not start: ${failure.replaceAll(/\s+/g, ' ')}`, name);
    } else {
      const drift = await projects.examine(project).catch((error: unknown) => [messageOf(error)]);
      if (drift.length > 0) addToGroup(drifted, drift.join('; '), name);
    }
  }
  const findings = [
    ...Array.from(notStarting, ([reason, names]) => problem(...subjectOf(names, reason), DOES_NOT_START)),
    ...Array.from(interrupted, ([reason, names]) =>
      warning(...subjectOf(names, reason), 'The service removes it at its next start; or run cdp project delete.'),
    ),
    ...Array.from(drifted, ([difference, names]) =>
      problem(...subjectOf(names, difference), `cdp project repair ${names.length === 1 ? names[0] : '--all'}`),
    ),
    ...Array.from(unreached, ([server, names]) =>
      problem(...subjectOf(names, `not checked: the server ${server} does not answer`), `cdp server check ${server}`),
    ),
  ];
  if (findings.length > 0) return findings;
  const intact = `${all.length - stoppedCount} checked: roles and privileges are intact`;
  const servers = stoppedCount === 1 ? 'its server is' : 'their servers are';
  const skipped = `${stoppedCount} not checked, because ${servers} stopped until the next request`;
  if (stoppedCount === 0) return [ok('projects', intact)];
  return [ok('projects', stoppedCount === all.length ? skipped : `${intact}; ${skipped}`)];
}

function addToGroup(groups: Map<string, string[]>, cause: string, name: string): void {
  groups.set(cause, [...(groups.get(cause) ?? []), name]);
}

/** The subject and the text of a finding. */
function subjectOf(names: readonly string[], cause: string): [string, string] {
  if (names.length === 1) return [`project ${names[0]}`, cause];
  const more = names.length > NAMED ? ', …' : '';
  return [`${names.length} projects`, `${cause}: ${names.slice(0, NAMED).join(', ')}${more}`];
}
