/** One webhook: how far it is, its last attempts, and what can be done with it. */
import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { CHANGE_OPERATIONS } from '../../../src/contract/wire/changes.js';
import type {
  Webhook,
  WebhookDelivery,
  WebhookSecretResponse,
  WebhookTestResponse,
} from '../../../src/contract/wire/webhooks.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import type { ApiRequest } from '../parts/api-request.js';
import { useDialog } from '../parts/dialog.js';
import { TextField } from '../parts/fields.js';
import { ago } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import { currentSession, managesRoles } from '../session.js';
import { NewSecret } from './new-secret.js';

const RELOAD_MS = 2_000;

export function WebhookView({ id }: { id: string }) {
  const load = async () => {
    const { webhooks } = currentSession().client;
    const [webhook, deliveries] = await Promise.all([webhooks.get(id), webhooks.deliveries(id)]);
    return { webhook, deliveries };
  };
  const { value, error, reload } = useLoaded(load, id, RELOAD_MS);
  return (
    <main class="operate" aria-busy={value === undefined && error === ''}>
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo('webhooks')}>
            <Icon name="left" />
            Webhooks
          </a>
          <h1>{value?.webhook.url ?? 'Webhook'}</h1>
        </div>
        {value !== undefined && managesRoles() && <Actions webhook={value.webhook} onDone={() => void reload()} />}
      </header>
      <Alert>{error}</Alert>
      {value !== undefined && <Facts webhook={value.webhook} />}
      {value !== undefined && <Deliveries list={value.deliveries} />}
    </main>
  );
}

function Actions({ webhook: { id, status }, onDone }: { webhook: Webhook; onDone: () => void }) {
  const { dialog, open } = useDialog();
  const path = `/api/cdp/webhooks/${id}`;
  const isPaused = status === 'paused';
  const setActive: ApiRequest = { method: 'PUT', path, body: { active: isPaused } };
  const form = <Result,>(
    title: string,
    action: string,
    request: ApiRequest,
    done: string | ((response: Result) => string),
    more: { about?: ComponentChildren; isDangerous?: boolean; then?: (response: Result) => void } = {},
  ) =>
    open((close) => (
      <ActionForm<Result>
        title={title}
        action={action}
        done={done}
        request={request}
        isDangerous={more.isDangerous ?? false}
        onClose={close}
        onDone={more.then ?? onDone}
      >
        {more.about}
      </ActionForm>
    ));
  const test = () =>
    form<WebhookTestResponse>(
      'Test the webhook',
      'Send a test',
      { method: 'POST', path: `${path}/test` },
      ({ test: { delivered, status: code, error } }) =>
        delivered ? `Confirmed with ${code}` : `Not confirmed: ${error}`,
      { about: <p>The endpoint gets a message without changes.</p> },
    );
  const rotate = () =>
    form<WebhookSecretResponse>(
      'A new secret',
      'Make a new secret',
      { method: 'POST', path: `${path}/secret`, body: {} },
      'The webhook has a new secret',
      {
        about: <p>Both secrets sign for 24 hours. Give the endpoint the new one in that time.</p>,
        then: ({ secret }) => open((done) => <NewSecret secret={secret} onClose={done} />),
      },
    );
  const remove = () =>
    form('Delete the webhook', 'Delete', { method: 'DELETE', path }, 'Webhook deleted', {
      about: <p>The endpoint gets no more changes.</p>,
      isDangerous: true,
      then: () => goTo('webhooks'),
    });
  const activate = () =>
    form(
      isPaused ? 'Resume the webhook' : 'Pause the webhook',
      isPaused ? 'Resume' : 'Pause',
      setActive,
      isPaused ? 'It goes on where it was' : 'It is paused',
    );
  const replay = () => open((close) => <Replay path={path} onClose={close} onDone={onDone} />);
  return (
    <div class="actions">
      <Button label={isPaused ? 'Resume' : 'Pause'} run={activate} />
      <Button label="Test" run={test} />
      <Button label="Replay" run={replay} />
      <Button label="New secret" run={rotate} />
      <button type="button" class="button is-danger" onClick={remove}>
        Delete
      </button>
      {dialog}
    </div>
  );
}

const Button = ({ label, run }: { label: string; run: () => void }) => (
  <button type="button" class="button" onClick={run}>
    {label}
  </button>
);

function Replay({ path, onClose, onDone }: { path: string; onClose: () => void; onDone: () => void }) {
  const from = useSignal('');
  const request: ApiRequest = { method: 'POST', path: `${path}/replay`, body: { from: from.value } };
  return (
    <ActionForm
      title="Replay changes"
      action="Send again"
      done="Changes are sent again"
      request={from.value === '' ? null : request}
      onClose={onClose}
      onDone={onDone}
    >
      <TextField label="After the cursor" placeholder="9f3a01c7.1a2b3c4.2" text={from} />
    </ActionForm>
  );
}

const listed = (names: 'all' | readonly string[]): string => (names === 'all' ? 'all' : names.join(', '));

const Facts = ({ webhook }: { webhook: Webhook }) => {
  const { status, reason, tables, ops, columns, reads_as: role, cursor, error, attempts } = webhook;
  const facts: [string, string | null][] = [
    ['Status', status],
    ['Why it is paused', reason],
    ['Last failure', error === null ? null : `${error} (attempt ${attempts})`],
    ['Next attempt', webhook.next_attempt_at],
    ['Confirmed up to', cursor],
    ['Tables', listed(tables)],
    ['Changes', ops.length === CHANGE_OPERATIONS.length ? 'all' : ops.join(', ')],
    ['Columns', listed(columns)],
    ['Reads as', role],
    ['Previous secret signs until', webhook.previous_secret_until],
  ];
  return (
    <dl class="facts">
      {facts.map(
        ([name, text]) =>
          text !== null && (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{text}</dd>
            </div>
          ),
      )}
    </dl>
  );
};

const Deliveries = ({ list }: { list: readonly WebhookDelivery[] }) =>
  list.length === 0 ? (
    <p class="quiet">Nothing has been sent yet.</p>
  ) : (
    <Table
      label="Last attempts"
      rows={list}
      keyOf={({ at, message_id: message }) => `${message} ${at}`}
      columns={[
        { title: 'Time', cells: 'quiet', cell: ({ at }) => <time dateTime={at}>{ago(Date.parse(at))}</time> },
        { title: 'Changes', cell: ({ changes }) => changes },
        { title: 'Attempt', class: 'wide-only', cell: ({ attempt }) => attempt },
        { title: 'ms', class: 'wide-only', cell: ({ duration_ms: ms }) => ms },
        { title: 'Outcome', cells: 'is-text', cell: ({ status, error }) => error ?? `confirmed with ${status}` },
      ]}
    />
  );
