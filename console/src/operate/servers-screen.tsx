/** The Postgres servers that projects live on, what changes them, and the moves between them. */
import './operate.css';
import { useSignal } from '@preact/signals';
import type { CheckedServerAnswer, Server } from '../../../src/contract/wire/servers.js';
import { SERVER_STATUSES, type ServerStatus } from '../../../src/contract/servers.js';
import { Dialog } from '../parts/dialog.js';
import { useLoaded } from '../parts/loaded.js';
import { count, counted, size } from '../parts/numbers.js';
import { listServers } from './admin-api.js';
import { Facts } from './facts.js';
import { Moves } from './moves.js';
import { ChangeServer, CHANGES, CheckServer, Findings } from './server-actions.js';
import { Status } from './status.js';

const EVERY_MS = 10_000;

type Action = 'check' | ServerStatus;

export function ServersScreen() {
  const { value: servers, error, reload } = useLoaded(listServers, '', EVERY_MS);
  const shown = useSignal<Server | null>(null);
  const doing = useSignal<{ readonly server: string; readonly action: Action } | null>(null);
  const checked = useSignal<CheckedServerAnswer | null>(null);
  const close = () => (doing.value = null);
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
      {servers !== undefined && <Moves servers={servers} />}
      {shown.value !== null && (
        <ServerDialog
          server={shown.value}
          onClose={() => (shown.value = null)}
          onAction={(action) => {
            doing.value = { server: shown.value?.name ?? '', action };
            shown.value = null;
          }}
        />
      )}
      {doing.value?.action === 'check' && (
        <CheckServer
          server={doing.value.server}
          onClose={close}
          onDone={(answer) => {
            checked.value = answer;
            void reload();
          }}
        />
      )}
      {doing.value !== null && doing.value.action !== 'check' && (
        <ChangeServer
          server={doing.value.server}
          status={doing.value.action}
          onClose={close}
          onDone={() => void reload()}
        />
      )}
      {checked.value !== null && <Findings checked={checked.value} onClose={() => (checked.value = null)} />}
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

interface ServerDialogProps {
  readonly server: Server;
  readonly onClose: () => void;
  readonly onAction: (action: Action) => void;
}

function ServerDialog({ server, onClose, onAction }: ServerDialogProps) {
  const { name, projects, status } = server;
  const others = SERVER_STATUSES.filter((other) => other !== status);
  return (
    <Dialog title={name} onClose={onClose}>
      <p>
        <Status status={status} /> · {counted(projects, 'project')} on it
      </p>
      <div class="actions">
        {(['check', ...others] as const).map((action) => (
          <button key={action} type="button" class="button" onClick={() => onAction(action)}>
            {action === 'check' ? 'Check' : CHANGES[action].action} …
          </button>
        ))}
      </div>
      <Facts of={server} />
    </Dialog>
  );
}
