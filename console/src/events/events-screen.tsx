/** Whether and how the project takes events of the tracking API. */
import '../operate/operate.css';
import { useSignal } from '@preact/signals';
import type { EventSettings, EventsResponse } from '../../../src/contract/wire/events.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { CheckboxField, SelectField } from '../parts/fields.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { currentSession, hasScope } from '../session.js';

const PATH = '/api/cdp/events';

const MODES = [
  ['columns', 'Each property is a column, each event name a table'],
  ['json', 'Properties stay together, as JSONB'],
] as const;

const SCHEMAS = [
  ['closed', 'No: what has no column is kept in unmapped'],
  ['open', 'Yes: strangers with a key of a page may, too'],
] as const;

const DEFAULTS: EventSettings = { mode: 'columns', schema: 'closed', ip: true };

interface FormProps {
  settings: EventSettings;
  onClose: () => void;
  onDone: () => void;
}

export function EventsScreen() {
  const canSee = hasScope('schema:read');
  const { value, error, reload } = useLoaded(async () => (canSee ? currentSession().client.events() : null), '');
  const { dialog, open } = useDialog();
  const done = () => void reload();
  const turnOn = () => open((close) => <TurnOn settings={value ?? DEFAULTS} onClose={close} onDone={done} />);
  const turnOff = () => open((close) => <TurnOff onClose={close} onDone={done} />);
  const isOn = value != null;
  return (
    <Screen
      title="Events"
      about={isOn ? 'The project takes events of the tracking API.' : undefined}
      isBusy={value === undefined && error === ''}
      actions={
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
      }
    >
      <Alert>{error}</Alert>
      {!canSee && (
        <Empty title="This token may not see the settings">
          For that it needs <code>schema:read</code>. It may turn events on and off.
        </Empty>
      )}
      {canSee && value === null && (
        <Empty title="Events are off">
          Turned on, the project takes what the SDKs of Segment and RudderStack send to <code>/v1</code>: each event is
          a row of <code>tracks</code>, <code>pages</code> and others, stored once.
        </Empty>
      )}
      {isOn && <Settings of={value} />}
      {dialog}
    </Screen>
  );
}

const textOf = <Value extends string>(items: readonly (readonly [Value, string])[], value: Value): string =>
  items.find(([each]) => each === value)?.[1] ?? value;

const Settings = ({ of: { mode, schema, ip } }: { of: EventSettings }) => (
  <dl class="facts">
    <div>
      <dt>Properties</dt>
      <dd>{textOf(MODES, mode)}</dd>
    </div>
    <div>
      <dt>Keys of web pages make tables and columns</dt>
      <dd>{textOf(SCHEMAS, schema)}</dd>
    </div>
    <div>
      <dt>Addresses of senders</dt>
      <dd>{ip ? 'stored' : 'not stored'}</dd>
    </div>
  </dl>
);

function TurnOn({ settings, onClose, onDone }: FormProps) {
  const mode = useSignal(settings.mode);
  const schema = useSignal(settings.schema);
  const ip = useSignal(settings.ip);
  return (
    <ActionForm<EventsResponse>
      title="Events"
      action="Take events"
      done="Events are on"
      request={{ method: 'PUT', path: PATH, body: { mode: mode.value, schema: schema.value, ip: ip.value } }}
      onClose={onClose}
      onDone={onDone}
    >
      <SelectField
        label="Properties"
        value={mode.value}
        items={MODES}
        onChange={(chosen) => (mode.value = chosen as EventSettings['mode'])}
      />
      <SelectField
        label="Keys of web pages make tables and columns"
        value={schema.value}
        items={SCHEMAS}
        onChange={(chosen) => (schema.value = chosen as EventSettings['schema'])}
      />
      <CheckboxField label="Store the addresses of senders" isChecked={ip.value} onChange={(on) => (ip.value = on)} />
    </ActionForm>
  );
}

const TurnOff = ({ onClose, onDone }: Omit<FormProps, 'settings'>) => (
  <ActionForm
    title="Turn events off"
    action="Turn off"
    done="Events are off"
    isDangerous
    request={{ method: 'DELETE', path: PATH }}
    onClose={onClose}
    onDone={onDone}
  >
    <p>SDKs that still send then drop their events for ever. The tables stay, with what is in them.</p>
  </ActionForm>
);
