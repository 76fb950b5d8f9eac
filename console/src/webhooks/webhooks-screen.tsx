/** The webhooks of the project: a list, and a form for a new one. */
import '../operate/operate.css';
import { useSignal } from '@preact/signals';
import type { CreateWebhookBody, Webhook, WebhookSecretResponse } from '../../../src/contract/wire/webhooks.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { TextField } from '../parts/fields.js';
import { ago } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { linkTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { currentSession, managesRoles } from '../session.js';
import { NewSecret } from './new-secret.js';
import { WebhookView } from './webhook-view.js';

const RELOAD_MS = 5_000;

export const WebhooksScreen = ({ path: [id] }: ScreenProps) =>
  id === undefined ? <AllWebhooks /> : <WebhookView key={id} id={id} />;

function AllWebhooks() {
  const { value: webhooks, error, reload } = useLoaded(() => currentSession().client.webhooks.list(), '', RELOAD_MS);
  const { dialog, open } = useDialog();
  const create = () =>
    open((close) => (
      <CreateForm
        onClose={close}
        onDone={({ secret }) => {
          open((done) => <NewSecret secret={secret} onClose={done} />);
          void reload();
        }}
      />
    ));
  const hasSome = webhooks !== undefined && webhooks.length > 0;
  return (
    <Screen
      title="Webhooks"
      about={hasSome ? 'Endpoints that get the changes of the project, in order.' : undefined}
      isBusy={webhooks === undefined && error === ''}
      actions={
        managesRoles() && (
          <button type="button" class="button is-primary" onClick={create}>
            <Icon name="plus" />
            Create webhook
          </button>
        )
      }
    >
      <Alert>{error}</Alert>
      {webhooks?.length === 0 && (
        <Empty title="No webhooks yet">
          A webhook calls an endpoint when rows change. It reads the feed of the project, which must be on.
        </Empty>
      )}
      {hasSome && <WebhookTable webhooks={webhooks} />}
      {dialog}
    </Screen>
  );
}

const WebhookTable = ({ webhooks }: { webhooks: readonly Webhook[] }) => (
  <Table
    label="List of webhooks"
    rows={webhooks}
    keyOf={({ id }) => id}
    columns={[
      { title: 'URL', cells: 'is-text', cell: ({ id, url }) => <a href={linkTo('webhooks', id)}>{url}</a> },
      { title: 'Status', cells: 'is-text', cell: ({ status }) => status },
      {
        title: 'Confirmed',
        class: 'wide-only',
        cells: 'quiet',
        cell: ({ delivered_at: at }) => (at === null ? 'never' : <time dateTime={at}>{ago(Date.parse(at))}</time>),
      },
    ]}
  />
);

interface FormProps {
  onClose: () => void;
  onDone: (created: WebhookSecretResponse) => void;
}

function CreateForm({ onClose, onDone }: FormProps) {
  const url = useSignal('');
  const tables = useSignal('');
  const columns = useSignal('');
  const body: CreateWebhookBody = {
    url: url.value,
    ...(tables.value === '' ? {} : { tables: namesIn(tables.value) }),
    ...(columns.value === '' ? {} : { columns: namesIn(columns.value) }),
  };
  return (
    <ActionForm<WebhookSecretResponse>
      title="New webhook"
      action="Create webhook"
      done="Webhook created"
      request={URL.canParse(url.value) ? { method: 'POST', path: '/api/cdp/webhooks', body } : null}
      onClose={onClose}
      onDone={onDone}
    >
      <TextField label="URL" placeholder="https://example.com/changes" text={url} />
      <TextField label="Tables, separated by commas; empty: all" text={tables} />
      <TextField label="Columns besides those of keys; empty: all" text={columns} />
    </ActionForm>
  );
}

const namesIn = (text: string): string[] =>
  text
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
