/** The Postgres servers that projects live on, and the commands that change them. */
import './operate.css';
import { useSignal } from '@preact/signals';
import type { Server } from '../../../src/contract/wire/servers.js';
import { Dialog } from '../parts/dialog.js';
import { count, counted, size } from '../parts/numbers.js';
import { listServers } from './admin-api.js';
import { Facts } from './facts.js';
import { useLoaded } from '../parts/loaded.js';
import { Status } from './status.js';

const EVERY_MS = 10_000;

export function ServersScreen() {
  const { value: servers, error } = useLoaded(listServers, '', EVERY_MS);
  const shown = useSignal<Server | null>(null);
  return (
    <main class="operate" aria-busy={servers === undefined}>
      <header class="operate-head">
        <div>
          <h1>Servers</h1>
          <p class="quiet">
            The Postgres servers that projects live on. Add one with <code>cdp server add</code>.
          </p>
        </div>
      </header>
      <p class="bad" role="alert">
        {error}
      </p>
      {servers !== undefined && <ServerTable servers={servers} onOpen={(server) => (shown.value = server)} />}
      {shown.value !== null && <ServerDialog server={shown.value} onClose={() => (shown.value = null)} />}
    </main>
  );
}

const ServerTable = ({ servers, onOpen }: { servers: readonly Server[]; onOpen: (server: Server) => void }) => (
  <div class="scroll" tabIndex={0} role="region" aria-label="List of servers">
    <table class="list">
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col">Status</th>
          <th scope="col" class="is-number">
            Projects
          </th>
          <th scope="col" class="is-number">
            Weight
          </th>
          <th scope="col" class="is-number wide-only">
            Size
          </th>
          <th scope="col" class="is-number wide-only">
            Connections
          </th>
          <th scope="col" class="wide-only">
            Postgres
          </th>
          <th scope="col" class="wide-only">
            Labels
          </th>
        </tr>
      </thead>
      <tbody>
        {servers.map((server) => (
          <tr key={server.name}>
            <th scope="row" class="is-text">
              <button type="button" class="link" onClick={() => onOpen(server)}>
                {server.name}
              </button>
            </th>
            <td>
              <Status status={server.status} />
            </td>
            <td class="is-number">
              {count(server.projects)}
              {server.max_projects !== null && <span class="quiet"> of {count(server.max_projects)}</span>}
            </td>
            <td class="is-number">{server.weight}</td>
            <MeasuredCells server={server} />
            <td class="is-text wide-only quiet">
              {Object.entries(server.labels)
                .map(([key, value]) => `${key}=${value}`)
                .join(' ')}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);

function MeasuredCells({ server: { facts, max_bytes } }: { server: Server }) {
  if (facts === null)
    return (
      <td class="wide-only quiet" colSpan={3}>
        not measured
      </td>
    );
  return (
    <>
      <td class="is-number wide-only">
        {size(facts.bytes)}
        {max_bytes !== null && <span class="quiet"> of {size(max_bytes)}</span>}
      </td>
      <td class="is-number wide-only">
        {count(facts.connections_used)}
        <span class="quiet"> of {count(facts.connections)}</span>
      </td>
      <td class="wide-only">{facts.version.split(' ')[0]}</td>
    </>
  );
}

function ServerDialog({ server, onClose }: { server: Server; onClose: () => void }) {
  const { name, projects } = server;
  return (
    <Dialog title={name} onClose={onClose}>
      <p>{counted(projects, 'project')} on it. To change it, type one of these where the service runs:</p>
      <dl class="commands">
        {COMMANDS.map(([command, what]) => (
          <div key={command}>
            <dt>
              <code>
                cdp server {command} {name}
              </code>
            </dt>
            <dd class="quiet">{what}</dd>
          </div>
        ))}
      </dl>
      <Facts of={server} />
    </Dialog>
  );
}

const COMMANDS = [
  ['check', 'rights, version, clock, latency, connections, settings'],
  ['close', 'it takes no new project'],
  ['drain', 'it takes none either, and a rebalance moves its projects away'],
  ['activate', 'it takes new projects again'],
] as const;
