/** The Postgres servers on which projects live, actions on them, and moves between them. */
import './operate.css';
import type { Server } from '../../../src/contract/wire/servers.js';
import { SERVER_STATUSES, type ServerStatus } from '../../../src/contract/servers.js';
import { Alert } from '../parts/announcements.js';
import { Dialog, useDialog } from '../parts/dialog.js';
import { useLoaded } from '../parts/loaded.js';
import { count, counted, size } from '../parts/formats.js';
import { Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { listServers } from './admin-api.js';
import { Facts, Status } from './facts.js';
import { Moves } from './moves.js';
import { ChangeServer, CHANGES, CheckServer, Findings } from './server-actions.js';

const EVERY_MS = 10_000;

type Action = 'check' | ServerStatus;

export function ServersScreen() {
  const { value: servers, error, reload } = useLoaded(listServers, '', EVERY_MS);
  const { dialog, open } = useDialog();
  const change = (server: string, action: Action) =>
    open((close) =>
      action === 'check' ? (
        <CheckServer
          server={server}
          onClose={close}
          onDone={(checked) => {
            open((done) => <Findings checked={checked} onClose={done} />);
            void reload();
          }}
        />
      ) : (
        <ChangeServer server={server} status={action} onClose={close} onDone={() => void reload()} />
      ),
    );
  const show = (server: Server) =>
    open((close) => (
      <ServerDialog server={server} onClose={close} onAction={(action) => change(server.name, action)} />
    ));
  return (
    <Screen
      title="Servers"
      about={
        <>
          The Postgres servers that projects live on. Add one with <code>cdp server add</code>.
        </>
      }
      isBusy={servers === undefined}
    >
      <Alert>{error}</Alert>
      {servers !== undefined && <ServerTable servers={servers} onOpen={show} />}
      {servers !== undefined && <Moves servers={servers} />}
      {dialog}
    </Screen>
  );
}

const ServerTable = ({ servers, onOpen }: { servers: readonly Server[]; onOpen: (server: Server) => void }) => (
  <Table
    label="List of servers"
    rows={servers}
    keyOf={({ name }) => name}
    columns={[
      {
        title: 'Name',
        cells: 'is-text',
        cell: (server) => (
          <button type="button" class="link" onClick={() => onOpen(server)}>
            {server.name}
          </button>
        ),
      },
      { title: 'Status', cell: ({ status }) => <Status status={status} /> },
      {
        title: 'Projects',
        class: 'is-number',
        cell: ({ projects, max_projects: max }) => <Of used={projects} max={max} as={count} />,
      },
      { title: 'Weight', class: 'is-number', cell: ({ weight }) => weight },
      {
        title: 'Size',
        class: 'is-number wide-only',
        cell: ({ facts, max_bytes: max }) =>
          facts === null ? <NotMeasured /> : <Of used={facts.bytes} max={max} as={size} />,
      },
      {
        title: 'Connections',
        class: 'is-number wide-only',
        cell: ({ facts }) => facts && <Of used={facts.connections_used} max={facts.connections} as={count} />,
      },
      { title: 'Postgres', class: 'wide-only', cell: ({ facts }) => facts?.version.split(' ')[0] },
      {
        title: 'Labels',
        class: 'wide-only',
        cells: 'is-text quiet',
        cell: ({ labels }) =>
          Object.entries(labels)
            .map(([key, value]) => `${key}=${value}`)
            .join(' '),
      },
    ]}
  />
);

const NotMeasured = () => <span class="quiet">not measured</span>;

interface OfProps {
  readonly used: number;
  /** null: there is no limit. */
  readonly max: number | null;
  readonly as: (n: number) => string;
}

const Of = ({ used, max, as }: OfProps) => (
  <>
    {as(used)}
    {max !== null && <span class="quiet"> of {as(max)}</span>}
  </>
);

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
