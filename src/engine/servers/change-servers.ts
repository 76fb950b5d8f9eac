/** The operator's servers: adds, checks, changes and removes them. */
import { EngineError, messageOf } from '../../contract/errors.js';
import { isServerName, SERVER_NAME_IN_WORDS } from '../../contract/names.js';
import { isReady } from '../../contract/projects.js';
import { DEFAULT_SERVER, isOn, takesReplicas } from '../../contract/servers.js';
import { problem, ok, type Finding } from '../../contract/wire/findings.js';
import type { ServerAddress } from '../../pg/index.js';
import { type NewServer, serverRefOf, type ServerChange, type ServerRow } from '../../tenancy/control/server-rows.js';
import { databasesAt, postmasterStartTime, walStateOf } from '../../tenancy/server-facts.js';
import { addressAt } from '../../tenancy/server-url.js';
import type { AuditOrigin } from '../../contract/audit.js';
import type { Engine } from '../engine.js';
import { bytesStoredOn, serverNamed } from '../projects/choose-server.js';
import { checkServer, type ServerCheck } from './check-server.js';
import { examineLeftovers } from './leftovers.js';

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
export async function addServer(engine: Engine, newServer: NewServer, by: AuditOrigin): Promise<CheckedServer> {
  const { name, urlReference, replicas = [] } = newServer;
  refuseReplicas(engine, newServer, replicas);
  if (!isServerName(name)) {
    throw new EngineError('invalid_name', `A server's name must be ${SERVER_NAME_IN_WORDS}`);
  }
  const rows = engine.control.servers;
  if ((await rows.get(name)) !== null) throw nameTaken(name);
  const address = addressOf(urlReference);
  const check = await checkNewAddress(engine, address, newServer);
  const fitness = [...check.fitness, ...(await examineReplicas(address, replicas))];
  refuseProblems(`Server "${name}" is not added`, fitness);
  if (!(await rows.add(newServer, engine.audit.entryOfChange(by, { operation: 'server.add', object: name })))) {
    throw nameTaken(name);
  }
  if (check.facts !== null) await rows.setFacts(name, { ...check.facts, bytes: 0 });
  return { server: await serverNamed(rows, name), findings: [...fitness, ...check.condition] };
}

/** Checks a server and stores its facts. @throws EngineError not_found, database_unavailable */
export async function checkAndStoreFacts(engine: Engine, name: string): Promise<CheckedServer> {
  const server = await serverNamed(engine.control.servers, name);
  const { fitness, condition, facts } = await checkNow(engine, server);
  const allFindings = [...fitness, ...condition];
  if (facts === null) return { server, findings: allFindings };
  const findings = [...allFindings, ...(await examineLeftovers(engine, server))];
  await engine.control.servers.setFacts(name, { ...facts, bytes: await bytesStoredOn(server, engine) });
  return { server: await serverNamed(engine.control.servers, name), findings };
}

/** Checks a server. A failure is a finding. */
export async function checkNow(engine: Engine, server: ServerRow): Promise<ServerCheck> {
  const { urlReference, replicas } = server;
  const connections = engine.databaseAccess.capacities.connectionLimit(serverRefOf(server).added);
  const source = urlReference ?? 'DATABASE_URL';
  let address: ServerAddress;
  try {
    address = urlReference === null ? engine.control.address : addressAt(urlReference);
  } catch (error) {
    return { fitness: [problem('Postgres', (error as Error).message, SET_IT)], condition: [], facts: null };
  }
  const check = await checkServer({ address, engine: server.engine, source, connections });
  return { ...check, condition: [...check.condition, ...(await examineReplicas(address, replicas))] };
}

/** @throws EngineError not_found, invalid_request, database_unavailable, outcome_unknown */
export async function setServer(
  engine: Engine,
  name: string,
  change: ServerChange,
  by: AuditOrigin,
): Promise<ServerRow> {
  const server = await serverNamed(engine.control.servers, name);
  const { name: storedName, urlReference } = server;
  const { replicas = [] } = change;
  refuseReplicas(engine, server, replicas);
  if (change.urlReference !== undefined) await requireSameServer(engine, server, change.urlReference);
  if (replicas.length > 0) {
    const reference = change.urlReference ?? urlReference;
    const primary = reference === null ? engine.control.address : addressOf(reference);
    refuseProblems(`The replicas of the server "${name}" stay as they are`, await examineReplicas(primary, replicas));
  }
  if (storedName === DEFAULT_SERVER && change.maxConnections !== undefined) {
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
async function requireSameServer(engine: Engine, server: ServerRow, urlReference: string): Promise<void> {
  const { name } = server;
  if (server.urlReference === null) {
    throw new EngineError('invalid_request', `The address of the server "${name}" is a setting`, {
      hint: 'Start the service with another DATABASE_URL.',
    });
  }
  const address = addressOf(urlReference);
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
  const connections = engine.databaseAccess.capacities.connectionLimit(server);
  const check = await checkServer({ address, engine: server.engine, source, connections });
  if (check.facts === null) return check;
  return { ...check, fitness: [...check.fitness, ...(await alreadyThere(engine, address, name))] };
}

/** A finding that names projects of the server whose databases are not at the address. */
async function missingProjects(engine: Engine, server: string, address: ServerAddress): Promise<Finding[]> {
  const projects = (await engine.projects.list()).filter(isOn(server));
  const there = await databasesAt(address);
  const missing = projects.filter((project) => isReady(project) && !there.has(project.placement.database));
  if (missing.length === 0) return [];
  const result = `it does not have the databases of ${nameList(missing.map(({ name }) => name))}`;
  return [
    problem('Postgres', result, 'Name the same server. To use another one, move its projects there: cdp project move.'),
  ];
}

/** @throws EngineError not_found, invalid_request, dependent_objects, database_unavailable, outcome_unknown */
export async function removeServer(engine: Engine, name: string, by: AuditOrigin): Promise<ServerRow> {
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
function addressOf(urlReference: string): ServerAddress {
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
  const started = await postmasterStartTime(address);
  const isSame = async ({ urlReference }: ServerRow): Promise<boolean> =>
    started === (await postmasterStartTime(urlReference === null ? engine.control.address : addressAt(urlReference)));
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

/** @throws EngineError invalid_request: embedded servers and Citus clusters have none to read from */
function refuseReplicas(engine: Engine, server: Pick<ServerRow, 'name' | 'engine'>, replicas: readonly string[]): void {
  if (replicas.length === 0) return;
  const isEmbedded = server.name === DEFAULT_SERVER && engine.serversFolder !== null;
  if (isEmbedded || !takesReplicas(server)) {
    const what = takesReplicas(server) ? 'The embedded Postgres' : 'A Citus cluster';
    throw new EngineError('invalid_request', `${what} has no replicas that the service can read from`);
  }
}

/** @throws EngineError invalid_request, if a finding is a problem */
function refuseProblems(what: string, findings: readonly Finding[]): void {
  const problems = findings.filter(({ health }) => health === 'problem');
  if (problems.length === 0) return;
  const reasons = problems.map((problem) => problem.found).join('; ');
  const hint = problems.map(({ advice }) => advice).join(' ');
  throw new EngineError('invalid_request', `${what}: ${reasons}`, { hint });
}

/** Maximum number of projects that a message names. */
const NAMED = 5;

const nameList = (projects: readonly string[]): string =>
  projects.slice(0, NAMED).join(', ') + (projects.length > NAMED ? `, and ${projects.length - NAMED} more` : '');

const inUse = (name: string, projects: readonly string[]): EngineError =>
  projects.length === 0
    ? new EngineError('dependent_objects', `A move to or from the server "${name}" has not ended`, {
        hint: 'cdp project moves shows it: cancel it, or wait until it ends.',
      })
    : new EngineError('dependent_objects', `Projects live on the server "${name}": ${nameList(projects)}`, {
        hint: 'Move or delete them first.',
      });

// Checks that servers are streaming replicas of another.

/** Returns one finding for each. */
const examineReplicas = (primary: ServerAddress, references: readonly string[]): Promise<Finding[]> =>
  Promise.all(references.map((reference) => examine(primary, reference)));

async function examine(primary: ServerAddress, reference: string): Promise<Finding> {
  const subject = `replica ${reference}`;
  try {
    const replica = await walStateOf({ ...addressAt(reference), needsPrimary: false });
    const { cluster, lsn } = await walStateOf(primary);
    if (replica.cluster === cluster && replica.isStandby) {
      return ok(subject, `it is ${lsn > replica.lsn ? lsn - replica.lsn : 0n} bytes behind`);
    }
    return problem(subject, `${reference} is not a standby of the server`, 'Name a streaming replica of the server.');
  } catch (error) {
    return problem(subject, messageOf(error), `Check ${reference}, and pg_hba.conf and the log of the replica.`);
  }
}

// `cdp server remove NAME --lost`: removes a server that will not come back, and everything about it in the control
// database.

/**
 * Deletes the projects that lived there, with their tokens, and ends the moves to and from there. Does not contact the
 * server, except to see that it does not answer.
 * @returns the server as it was, and the names of the projects
 * @throws EngineError not_found; invalid_request if it answers; request_in_flight while one of its projects is being
 * moved or deleted: the next attempt continues; database_unavailable, outcome_unknown
 */
export async function removeLostServer(
  engine: Engine,
  name: string,
  by: AuditOrigin,
): Promise<{ server: ServerRow; deleted: string[] }> {
  const server = await serverNamed(engine.control.servers, name);
  if (name !== DEFAULT_SERVER && (await checkNow(engine, server)).facts !== null) {
    throw new EngineError('invalid_request', `The server "${name}" answers, so it is not lost`, {
      hint: 'Move or delete its projects, then remove it without --lost.',
    });
  }
  const deleted: string[] = [];
  if (name !== DEFAULT_SERVER) {
    // No new project may be placed there meanwhile.
    await setServer(engine, name, { status: 'closed' }, by);
    for (const { name: project } of (await engine.projects.list()).filter(isOn(name))) {
      await engine.projects.delete(project, by, name);
      deleted.push(project);
    }
    await engine.moves.recover(name);
  }
  return { server: await removeServer(engine, name, by), deleted };
}
