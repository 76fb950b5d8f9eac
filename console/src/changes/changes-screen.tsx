/** The feed of the project's changes: whether it is on, what it keeps, and the changes as they come. */
import '../operate/operate.css';
import { useSignal } from '@preact/signals';
import type { FeedResponse, FeedState } from '../../../src/contract/wire/changes.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { counted, size } from '../parts/formats.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { currentSession, hasScope, looksAtFeed, managesRoles } from '../session.js';
import { LiveChanges } from './live-changes.js';

const PATH = '/api/cdp/feed';
const EVERY_MS = 5_000;

const STATUSES: Readonly<Record<FeedState['status'], string>> = {
  reading: 'Changes are stored as they are committed',
  at_rest: 'The server is stopped, and all its changes are stored',
  behind: 'Changes are not stored at the moment, and it is retried',
};

export function ChangesScreen() {
  const canSee = looksAtFeed();
  const canRead = hasScope('sql:read') || hasScope('sql:write');
  const load = async () => (canSee ? currentSession().client.feed() : null);
  const { value, error, reload } = useLoaded(load, '', canSee ? EVERY_MS : undefined);
  const { dialog, open } = useDialog();
  const done = () => void reload();
  const turnOn = () => open((close) => <TurnOn feed={value ?? null} onClose={close} onDone={done} />);
  const turnOff = () => open((close) => <TurnOff onClose={close} onDone={done} />);
  const isOn = value != null;
  return (
    <Screen
      title="Changes"
      about={isOn ? 'Committed changes are kept, so that other systems can read them.' : undefined}
      isBusy={value === undefined && error === ''}
      actions={
        managesRoles() && (
          <div class="actions">
            <button type="button" class={isOn ? 'button' : 'button is-primary'} onClick={turnOn}>
              {isOn ? 'Change' : 'Turn on'}
            </button>
            {(isOn || !canSee) && (
              <button type="button" class="button is-danger" onClick={turnOff}>
                Turn off
              </button>
            )}
          </div>
        )
      }
    >
      <Alert>{error}</Alert>
      {canSee && value === null && (
        <Empty title="The feed is off">
          Turned on, the project keeps each committed change, in order, however it was made. Other systems read them
          from a cursor, and miss none. The project&rsquo;s server restarts once.
        </Empty>
      )}
      {isOn && <State of={value} />}
      {!canSee && !canRead && (
        <Empty title="This token may not see the feed">
          For its settings it needs <code>schema:read</code>, for the changes <code>sql:read</code>. It may turn the
          feed on and off.
        </Empty>
      )}
      {canRead && (isOn || !canSee) && <LiveChanges key={value?.start?.split('.')[0]} />}
      {dialog}
    </Screen>
  );
}

function State({ of }: { of: FeedState }) {
  const { tables, old, retention_hours: hours, retention_mib: mib, bytes, status, reason, start, end } = of;
  return (
    <>
      <dl class="facts">
        <div>
          <dt>State</dt>
          <dd>
            {STATUSES[status]}
            {reason !== null && `: ${reason}`}
          </dd>
        </div>
        <div>
          <dt>Tables</dt>
          <dd>{tables === 'all' ? 'All, also those made later' : tables.join(', ')}</dd>
        </div>
        <div>
          <dt>Old rows of updates and deletes</dt>
          <dd>{old ? 'kept' : 'not kept'}</dd>
        </div>
        <div>
          <dt>Kept</dt>
          <dd>
            {size(bytes)}, for {counted(hours, 'hour')}, at most {size(mib * 1_048_576)}
          </dd>
        </div>
        {start !== null && end !== null && (
          <div>
            <dt>Cursors</dt>
            <dd>
              <code>{start}</code> to <code>{end}</code>
            </dd>
          </div>
        )}
      </dl>
      {of.table_list !== null && of.table_list.length > 0 && (
        <Table
          label="Tables in the feed"
          rows={of.table_list}
          keyOf={({ name }) => name}
          columns={[
            { title: 'Table', cells: 'mono', cell: ({ name }) => name },
            {
              title: 'Changes',
              cells: 'is-text',
              cell: ({ changes }) => (changes === 'all' ? 'all' : 'inserts and truncates only: it has no key'),
            },
            { title: 'Old rows', cell: (table) => (table.old ? 'yes' : 'no') },
          ]}
        />
      )}
    </>
  );
}

interface FormProps {
  onClose: () => void;
  onDone: () => void;
}

function TurnOn({ feed, onClose, onDone }: FormProps & { feed: FeedState | null }) {
  const tables = useSignal(feed === null || feed.tables === 'all' ? '' : feed.tables.join(', '));
  const old = useSignal(feed?.old ?? false);
  const hours = useSignal(String(feed?.retention_hours ?? 72));
  const mib = useSignal(String(feed?.retention_mib ?? 1_024));
  const names = tables.value.split(',').flatMap((name) => name.trim() || []);
  const body = {
    tables: names.length === 0 ? 'all' : names,
    old: old.value,
    retention_hours: Number(hours.value),
    retention_mib: Number(mib.value),
  };
  return (
    <ActionForm<FeedResponse>
      title="Feed of changes"
      action="Keep changes"
      done="The feed is on"
      request={{ method: 'PUT', path: PATH, body }}
      onClose={onClose}
      onDone={onDone}
    >
      <TextField label="Tables, separated by commas (empty: all, also those made later)" text={tables} />
      <TextField label="Hours that changes are kept" text={hours} inputMode="numeric" />
      <TextField label="MiB of changes that are kept at most" text={mib} inputMode="numeric" />
      <CheckboxField
        label="Keep old rows of updates and deletes (the database writes more)"
        isChecked={old.value}
        onChange={(on) => (old.value = on)}
      />
      {feed === null && <p>The project&rsquo;s server restarts: requests that run then fail, and others wait.</p>}
    </ActionForm>
  );
}

const TurnOff = ({ onClose, onDone }: FormProps) => (
  <ActionForm
    title="Turn the feed off"
    action="Turn off"
    done="The feed is off"
    isDangerous
    request={{ method: 'DELETE', path: PATH }}
    onClose={onClose}
    onDone={onDone}
  >
    <p>The changes that are kept are deleted, and every cursor expires.</p>
  </ActionForm>
);
