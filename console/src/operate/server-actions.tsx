/** Actions of an operator on a server: a check, and changes of its status. */
import type { CheckedServerResponse } from '../../../src/contract/wire/servers.js';
import type { ServerStatus } from '../../../src/contract/servers.js';
import { ActionForm } from '../parts/action-form.js';
import { Notice } from '../parts/dialog.js';
import { checkServer, setServerStatus } from './admin-api.js';

interface Change {
  readonly action: string;
  readonly done: string;
  readonly what: string;
}

export const CHANGES: Readonly<Record<ServerStatus, Change>> = {
  active: { action: 'Activate', done: 'takes new projects', what: 'New projects are placed on it again.' },
  closed: { action: 'Close', done: 'is closed', what: 'It accepts no new projects. Existing projects stay there.' },
  draining: {
    action: 'Drain',
    done: 'is draining',
    what: 'It accepts no new projects, and a rebalance moves its projects away. Nothing moves until you start it.',
  },
};

interface FormProps<Result> {
  readonly server: string;
  readonly onClose: () => void;
  readonly onDone: (response: Result) => void;
}

export function ChangeServer({ server, status, ...events }: FormProps<unknown> & { status: ServerStatus }) {
  const { action, done, what } = CHANGES[status];
  return (
    <ActionForm
      title={`${action} ${server}`}
      action={action}
      done={`${server} ${done}`}
      request={setServerStatus(server, status)}
      {...events}
    >
      <p>{what}</p>
    </ActionForm>
  );
}

export const CheckServer = ({ server, ...events }: FormProps<CheckedServerResponse>) => (
  <ActionForm<CheckedServerResponse>
    title={`Check ${server}`}
    action="Check"
    done={`${server} checked`}
    request={checkServer(server)}
    {...events}
  >
    <p>This checks its privileges, version, clock, latency, connections and settings. It changes nothing.</p>
  </ActionForm>
);

export const Findings = ({ checked, onClose }: { checked: CheckedServerResponse; onClose: () => void }) => (
  <Notice title={`What the check of ${checked.server.name} found`} onClose={onClose}>
    <dl class="findings">
      {checked.findings.map(({ subject, health, found, advice }, i) => (
        <div key={i}>
          <dt>
            {subject} <span class={health === 'ok' ? 'quiet' : 'bad'}>{health}</span>
          </dt>
          <dd>{found}</dd>
          {advice !== null && <dd class="quiet">{advice}</dd>}
        </div>
      ))}
    </dl>
  </Notice>
);
