/** `cdp doctor`: checks everything that the service depends on, and gives advice. Only the trial changes anything. */
import { randomBytes } from 'node:crypto';
import { EngineError } from '../../contract/errors.js';
import { messageOf } from '../../contract/operator-message.js';
import { DEFAULT_SERVER } from '../../contract/servers.js';
import type { Finding } from '../../contract/wire/operator.js';
import type { ServerAddress } from '../../pg/index.js';
import type { ProjectRow } from '../../tenancy/control/control-rows.js';
import { serverFacts } from '../../tenancy/server-facts.js';
import type { Origin } from '../audit/audit.js';
import type { Engine } from '../engine.js';
import { insertRecords } from '../insert/insert.js';
import type { Project } from '../project.js';
import { createTable } from '../schema/tables.js';
import { collectSql } from '../sql/collect-sql.js';
import { examineAddedServers, ofServer } from './added-servers.js';
import { ok, problem } from '../servers/finding.js';
import { examineDisk, examineLibxml, examineLimits } from './machine-findings.js';
import { examineProjects } from './project-findings.js';
import { examineCommits, examineServer, isCurrent } from '../servers/server-findings.js';

const TRIAL_MS = 30_000;

/** What the admin socket serves: the service that runs on this data folder, or `cdp doctor` without it. */
export interface LocalService {
  readonly address: ServerAddress;
  /** The limit of connections to projects' databases. */
  readonly connections: number;
  /** null: the operator runs the server. */
  readonly embedded: { readonly folder: string; readonly postmaster: () => number } | null;
  /** Opens the engine, if it is not open yet. */
  readonly engine: () => Promise<Engine>;
}

/** Runs all checks and a trial. A failure is one more finding. */
export async function examine(target: LocalService, by: Origin): Promise<Finding[]> {
  const { address, connections, embedded } = target;
  const findings: Finding[] = [];
  try {
    const facts = await serverFacts(address);
    findings.push(...examineServer(facts, embedded === null ? connections : null));
    findings.push(...(await examineCommits(address)));
    if (embedded !== null) {
      const pid = embedded.postmaster();
      findings.push(await examineDisk(embedded.folder), ...(await examineLimits(pid)), ...(await examineLibxml(pid)));
    }
    // Opening the engine would migrate the schema, and an older service may be using it.
    if (isCurrent(facts)) findings.push(...(await examineInstallation(target, by)));
  } catch (error) {
    findings.push(problem('Postgres', messageOf(error), 'Check DATABASE_URL, pg_hba.conf and the log of the server.'));
  }
  return findings;
}

const IN_TRIAL = 'docs/errors.md explains the error codes; see also the log.';

async function examineInstallation({ engine: open }: LocalService, by: Origin): Promise<Finding[]> {
  const failed = (subject: string) => (error: unknown) => problem(subject, messageOf(error), IN_TRIAL);
  let engine;
  try {
    engine = await open();
  } catch (error) {
    return [failed('trial')(error)];
  }
  const { findings, unreachable } = await examineAddedServers(engine);
  const projects = await examineProjects(engine, unreachable).catch((error: unknown) => [failed('projects')(error)]);
  const trials = [];
  for (const { name, engine: kind } of await engine.control.servers.list()) {
    // The operator has to prepare a Citus cluster for its single project.
    if (unreachable.has(name) || kind === 'citus') continue;
    const trial = await tryEverything(engine, name, by).catch(failed('trial'));
    trials.push(...(name === DEFAULT_SERVER ? [trial] : ofServer(name, [trial])));
  }
  return [...findings, ...projects, ...trials];
}

/**
 * Creates a project on a server, a table and a row, reads the row, and deletes the project.
 * @throws EngineError of the step that failed; the project is then deleted, too
 */
async function tryEverything(engine: Engine, server: string, by: Origin): Promise<Finding> {
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
    response = await storeAndRead(engine.admit(row, null));
  } catch (error) {
    // The first failure tells more than that of the cleanup.
    await engine.deleteProject(name, by).catch(() => {});
    throw error;
  }
  await engine.deleteProject(name, by);
  if (response !== ',["well"]') return problem('trial', `the response was ${response}`, 'Report this as a bug.');
  const ms = Math.round(performance.now() - started);
  return ok('trial', `created a project, a table and a row, read it, and deleted everything in ${ms} ms`);
}

/** @returns the row as JSON */
async function storeAndRead(project: Project): Promise<string> {
  const signal = AbortSignal.timeout(TRIAL_MS);
  const table = { table_name: 'trial', columns: [{ name: 'note', type: 'TEXT' as const }] };
  await createTable(project, table, { holdMs: TRIAL_MS, signal });
  const body = Buffer.from('[{"note":"well"}]');
  const options = { returnIds: false, idempotency: null, upsert: null, quarantine: false, signal };
  await insertRecords({ project, tableName: 'trial', body, ...options });
  const question = { sql: 'SELECT note FROM trial', params: [], readOnly: true, timeoutMs: TRIAL_MS, signal };
  const { response } = await collectSql(project, { ...question, maxRows: 1, rowMode: 'array' });
  return Buffer.concat(response[0]?.rows?.buffers ?? []).toString();
}
