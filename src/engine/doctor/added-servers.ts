/** The findings of `cdp doctor` about added servers: those of each server's check. */
import type { Finding } from '../../contract/wire/operator.js';
import type { Engine } from '../engine.js';
import { checkNow } from '../servers/change-servers.js';

interface AddedServers {
  readonly findings: readonly Finding[];
  /** Names of servers that could not be reached. */
  readonly unreachable: ReadonlySet<string>;
}

/** In parallel: each server that does not answer takes some seconds. */
export async function examineAddedServers(engine: Engine): Promise<AddedServers> {
  const servers = (await engine.control.servers.list()).filter(({ urlReference }) => urlReference !== null);
  const checked = await Promise.all(
    servers.map(async (server) => ({ server: server.name, ...(await checkNow(engine, server)) })),
  );
  return {
    findings: checked.flatMap(({ server, fitness, condition }) => ofServer(server, [...fitness, ...condition])),
    unreachable: new Set(checked.filter(({ facts }) => facts === null).map(({ server }) => server)),
  };
}

/** Adds the name of the server to findings. */
export const ofServer = (server: string, findings: readonly Finding[]): Finding[] =>
  findings.map((finding) => ({ ...finding, subject: `${server}: ${finding.subject}` }));
