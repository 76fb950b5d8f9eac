/** Adds, checks, changes and removes Postgres servers for an operator. */
import { EngineError } from '../../contract/errors.js';
import { isProjectName as isServerName, PROJECT_NAME_IN_WORDS } from '../../contract/names.js';
import { isReady } from '../../contract/projects.js';
import { DEFAULT_SERVER, isOn } from '../../contract/servers.js';
import type { Finding } from '../../contract/wire/operator.js';
import type { ServerAddress } from '../../pg/index.js';
import { placeOf, type NewServer, type ServerChange, type ServerRow } from '../../tenancy/control/server-rows.js';
import { databasesAt, startedAt } from '../../tenancy/server-probe.js';
import { addressAt } from '../../tenancy/server-url.js';
import type { Origin } from '../audit/audit.js';
import { bytesStoredOn, serverNamed } from '../projects/choose-server.js';
import { problem } from './finding.js';
import type { Engine } from '../engine.js';
import { type ServerCheck, checkServer } from './check-server.js';
import { examineReplicas } from './examine-replicas.js';
import { examineLeftBehind } from './left-behind.js';

export type { ServerChange, ServerRow } from '../../tenancy/control/server-rows.js';

/** A server, and the findings of its check. */
export interface CheckedServer {
  readonly server: ServerRow;
  readonly findings: readonly Finding[];
}

/**
 * Checks a server and adds it to the installation.
 * @throws EngineError invalid_name, unique_violation, invalid_request if projects cannot live there,
 * database_unavailable, outcome_unknown
 */
export async function addServer(engine: Engine, wanted: NewServer, by: Origin): Promise<CheckedServer> {
  const { name, urlReference, replicas = [] } = wanted;
  refuseReplicas(engine, wanted, replicas);
  if (!isServerName(name)) {
    throw new EngineError('invalid_name', `A server's name must be ${PROJECT_NAME_IN_WORDS}`);
  }
  const rows = engine.control.servers;
  if ((await rows.get(name)) !== null) throw nameTaken(name);
  const address = resolved(urlReference);
  const checked = await checkNewAddress(engine, address, wanted);
  const fitness = [...checked.fitness, ...(await examineReplicas(address, replicas))];
  refuseProblems(`Server "${name}" is not added`, fitness);
  if (!(await rows.add(wanted, engine.audit.entryOfChange(by, { operation: 'server.add', object: name })))) {
    throw nameTaken(name);
  }
  if (checked.facts !== null) await rows.setFacts(name, { ...checked.facts, bytes: 0 });
  return { server: await serverNamed(rows, name), findings: [...fitness, ...checked.condition] };
}

/** Checks a server and stores its facts. @throws EngineError not_found, database_unavailable */
export async function checkAgain(engine: Engine, name: string): Promise<CheckedServer> {
  const server = await serverNamed(engine.control.servers, name);
  const { fitness, condition, facts } = await checkNow(engine, server);
  const found = [...fitness, ...condition];
  if (facts === null) return { server, findings: found };
  const findings = [...found, ...(await examineLeftBehind(engine, server))];
  await engine.control.servers.setFacts(name, { ...facts, bytes: await bytesStoredOn(server, engine) });
  return { server: await serverNamed(engine.control.servers, name), findings };
}

/** Checks a server. A failure is a finding. */
export async function checkNow(engine: Engine, server: ServerRow): Promise<ServerCheck> {
  const { urlReference, replicas } = server;
  const connections = engine.shared.database.capacities.connectionLimit(placeOf(server).added);
  const source = urlReference ?? 'DATABASE_URL';
  let address: ServerAddress;
  try {
    address = urlReference === null ? engine.control.address : addressAt(urlReference);
  } catch (error) {
    return { fitness: [problem('Postgres', (error as Error).message, SET_IT)], condition: [], facts: null };
  }
  const checked = await checkServer({ address, engine: server.engine, source, connections });
  return { ...checked, condition: [...checked.condition, ...(await examineReplicas(address, replicas))] };
}

/** @throws EngineError not_found, invalid_request, database_unavailable, outcome_unknown */
export async function setServer(engine: Engine, name: string, change: ServerChange, by: Origin): Promise<ServerRow> {
  const server = await serverNamed(engine.control.servers, name);
  const { name: known, urlReference } = server;
  const { replicas = [] } = change;
  refuseReplicas(engine, server, replicas);
  if (change.urlReference !== undefined) await requireSame(engine, server, change.urlReference);
  if (replicas.length > 0) {
    const reference = change.urlReference ?? urlReference;
    const primary = reference === null ? engine.control.address : resolved(reference);
    refuseProblems(`The replicas of the server "${name}" stay as they are`, await examineReplicas(primary, replicas));
  }
  if (known === DEFAULT_SERVER && change.maxConnections !== undefined) {
    throw new EngineError(
      'invalid_request',
      `The limit of connections to the server "${DEFAULT_SERVER}" is a setting`,
      {
        hint: 'Start the service with --max-connections.',
      },
    );
  }
  const entry = engine.audit.entryOfChange(by, { operation: 'server.set', object: name });
  const changed = await engine.control.servers.set(name, change, entry);
  return changed ?? serverNamed(engine.control.servers, name);
}

/**
 * Checks a new address of a server. @throws EngineError invalid_request if it cannot be used, or leads to another
 * server
 */
async function requireSame(engine: Engine, server: ServerRow, urlReference: string): Promise<void> {
  const { name } = server;
  if (server.urlReference === null) {
    throw new EngineError('invalid_request', `The address of the server "${name}" is a setting`, {
      hint: 'Start the service with another DATABASE_URL.',
    });
  }
  const address = resolved(urlReference);
  const { fitness, facts } = await checkNewAddress(engine, address, { ...server, urlReference });
  const missing = facts === null ? [] : await missingProjects(engine, name, address);
  refuseProblems(`The server "${name}" keeps its address`, [...fitness, ...missing]);
}

/** Checks a server at a new address, which must not be that of another server of the installation. */
async function checkNewAddress(
  engine: Engine,
  address: ServerAddress,
  { name, urlReference: source, ...server }: NewServer,
): Promise<ServerCheck> {
  const connections = engine.shared.database.capacities.connectionLimit(server);
  const checked = await checkServer({ address, engine: server.engine, source, connections });
  if (checked.facts === null) return checked;
  return { ...checked, fitness: [...checked.fitness, ...(await alreadyThere(engine, address, name))] };
}

/** A finding that names projects of the server whose databases are not at the address. */
async function missingProjects(engine: Engine, server: string, address: ServerAddress): Promise<Finding[]> {
  const projects = (await engine.projects.list()).filter(isOn(server));
  const there = await databasesAt(address);
  const missing = projects.filter((project) => isReady(project) && !there.has(project.placement.database));
  if (missing.length === 0) return [];
  const found = `it does not have the databases of ${named(missing.map(({ name }) => name))}`;
  return [
    problem('Postgres', found, 'Name the same server. To use another one, move its projects there: cdp project move.'),
  ];
}

/** @throws EngineError not_found, invalid_request, dependent_objects, database_unavailable, outcome_unknown */
export async function removeServer(engine: Engine, name: string, by: Origin): Promise<ServerRow> {
  const server = await serverNamed(engine.control.servers, name);
  if (name === DEFAULT_SERVER) {
    throw new EngineError('invalid_request', `"${name}" is the default server and cannot be removed`);
  }
  const entry = engine.audit.entryOfChange(by, { operation: 'server.remove', object: name });
  if (await engine.control.servers.remove(name, entry)) return server;
  // Someone else may have removed it.
  await serverNamed(engine.control.servers, name);
  throw inUse(name, await projectsOn(engine, name));
}

const projectsOn = async (engine: Engine, server: string): Promise<string[]> =>
  (await engine.projects.list()).filter(isOn(server)).map((project) => project.name);

const SET_IT = 'Set it for every instance of the service, or add the server again with a file.';

/** @throws EngineError invalid_request */
function resolved(urlReference: string): ServerAddress {
  try {
    return addressAt(urlReference);
  } catch (error) {
    const hint = urlReference.startsWith('env:')
      ? 'Every instance of the service needs the variable when it starts. A file is read immediately.'
      : 'The file must contain one URL, and the user of the service must be able to read it on the machine of each instance.';
    throw new EngineError('invalid_request', `The URL cannot be read: ${(error as Error).message}`, { hint });
  }
}

/** Whether the installation already has this server, under any address and another name. */
async function alreadyThere(engine: Engine, address: ServerAddress, name: string): Promise<Finding[]> {
  const started = await startedAt(address);
  const isSame = async ({ urlReference }: ServerRow): Promise<boolean> =>
    started === (await startedAt(urlReference === null ? engine.control.address : addressAt(urlReference)));
  for (const server of await engine.control.servers.list()) {
    if (server.name === name) continue;
    // A server that does not answer is not the one that just did.
    if (await isSame(server).catch(() => false)) {
      const advice = 'Add another server: under two names, its space would be counted twice.';
      return [problem('Postgres', `it is the server "${server.name}"`, advice)];
    }
  }
  return [];
}

const nameTaken = (name: string) => new EngineError('unique_violation', `A server "${name}" already exists`);

/**
 * Queries of a Citus cluster go to its workers, and embedded servers have no replicas.
 * @throws EngineError invalid_request
 */
function refuseReplicas(engine: Engine, server: Pick<ServerRow, 'name' | 'engine'>, replicas: readonly string[]): void {
  if (replicas.length === 0) return;
  const what = server.engine === 'citus' ? 'A Citus cluster' : 'The embedded Postgres';
  if (server.engine === 'citus' || (server.name === DEFAULT_SERVER && engine.folder !== null)) {
    throw new EngineError('invalid_request', `${what} has no replicas that the service can read from`);
  }
}

/** @throws EngineError invalid_request, if a finding is a problem */
function refuseProblems(what: string, findings: readonly Finding[]): void {
  const problems = findings.filter(({ health }) => health === 'problem');
  if (problems.length === 0) return;
  const found = problems.map((problem) => problem.found).join('; ');
  const hint = problems.map(({ advice }) => advice).join(' ');
  throw new EngineError('invalid_request', `${what}: ${found}`, { hint });
}

/** Maximum number of projects that a message names. */
const NAMED = 5;

const named = (projects: readonly string[]): string =>
  projects.slice(0, NAMED).join(', ') + (projects.length > NAMED ? `, and ${projects.length - NAMED} more` : '');

const inUse = (name: string, projects: readonly string[]): EngineError =>
  new EngineError('dependent_objects', `Projects live on the server "${name}": ${named(projects)}`, {
    hint: 'Move or delete them first.',
  });
