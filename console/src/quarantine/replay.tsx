/** Retries records in the quarantine, on request with renamed keys or fixed values. */
import { useSignal } from '@preact/signals';
import type { ReplayOptions, ReplayResult } from '../../../src/client/index.js';
import { ActionForm } from '../parts/action-form.js';
import { SelectField, Field } from '../parts/fields.js';
import { Icon, IconButton } from '../parts/icon.js';
import { counted } from '../parts/formats.js';
import { currentSession, hasScope } from '../session.js';
import type { Filter } from './quarantine-screen.js';

interface Change {
  readonly kind: 'rename' | 'drop' | 'set' | 'from' | 'sql';
  readonly key: string;
  /** The new name, the value, the other key, or the expression. */
  readonly to: string;
}

interface ReplayProps {
  readonly filter: Filter;
  /** The tables of the records shown. */
  readonly tables: readonly string[];
  readonly onClose: () => void;
  readonly onDone: () => void;
}

export function ReplayRecordsForm({ filter, tables, onClose, onDone }: ReplayProps) {
  const table = useSignal(filter.table ?? tables[0] ?? '');
  const changes = useSignal<readonly Change[]>([]);
  const options = { ...filter, table: table.value, ...changesOf(changes.value) };
  return (
    <ActionForm<ReplayResult>
      title={filter.id === undefined ? 'Try the records again' : `Try the record for ${table.value} again`}
      action="Try again"
      done={({ inserted, updated, refused }) =>
        `${counted(inserted + updated, 'record')} stored, ${refused} refused again`
      }
      request={{ method: 'POST', path: '/api/cdp/quarantine/replay', body: requestOf(options) }}
      run={() => currentSession().client.replayQuarantine(options)}
      onClose={onClose}
      onDone={onDone}
    >
      {filter.table === undefined && (
        <SelectField
          label="Table"
          value={table.value}
          items={tables.map((name) => [name, name])}
          onChange={(name) => (table.value = name)}
        />
      )}
      <p>
        {filter.id === undefined && 'Every record for this table that the filters match is tried. '}
        What is stored leaves the quarantine in the same transaction; what is refused again stays.
      </p>
      <Changes changes={changes.value} onChange={(next) => (changes.value = next)} />
    </ActionForm>
  );
}

/** The same by the API's names, to show it. */
const requestOf = ({ setFrom, setSql, ...others }: Omit<ReplayOptions, 'signal'>) => ({
  ...others,
  ...(setFrom === undefined ? {} : { set_from: setFrom }),
  ...(setSql === undefined ? {} : { set_sql: setSql }),
});

function Changes({ changes, onChange }: { changes: readonly Change[]; onChange: (next: readonly Change[]) => void }) {
  const change = (at: number, by: Partial<Change>) =>
    onChange(changes.map((each, i) => (i === at ? { ...each, ...by } : each)));
  const add = (kind: Change['kind']) => onChange([...changes, { kind, key: '', to: '' }]);
  return (
    <div class="replay-changes">
      {changes.map(({ kind, key, to }, i) => (
        <div key={i} class="replay-change">
          {(kind === 'drop' ? (['key'] as const) : (['key', 'to'] as const)).map((part) => {
            const label = LABELS[kind][part === 'key' ? 0 : 1];
            return (
              <Field key={part} label={label}>
                <input
                  class="mono"
                  autocomplete="off"
                  spellcheck={false}
                  value={part === 'key' ? key : to}
                  onInput={(event) => change(i, { [part]: event.currentTarget.value })}
                />
              </Field>
            );
          })}
          <IconButton
            icon="close"
            label={`Remove the change of ${key}`}
            onClick={() => onChange(changes.filter((_, other) => other !== i))}
          />
        </div>
      ))}
      <div class="actions">
        <button type="button" class="button" onClick={() => add('rename')}>
          <Icon name="plus" />
          Rename a key
        </button>
        <button type="button" class="button" onClick={() => add('drop')}>
          <Icon name="plus" />
          Leave out a key
        </button>
        <button type="button" class="button" onClick={() => add('set')}>
          <Icon name="plus" />
          Set a value
        </button>
        <button type="button" class="button" onClick={() => add('from')}>
          <Icon name="plus" />
          Take from a key
        </button>
        {hasScope('sql:write') && (
          <button type="button" class="button" onClick={() => add('sql')}>
            <Icon name="plus" />
            Compute by SQL
          </button>
        )}
      </div>
      {changes.some(({ kind }) => kind === 'set') && (
        <p class="quiet">
          The value replaces that of every record. <code>null</code>, <code>true</code> and <code>false</code> are those
          of JSON; everything else is text, from which a column takes its number or time.
        </p>
      )}
    </div>
  );
}

const LABELS: Readonly<Record<Change['kind'], readonly [key: string, to: string]>> = {
  rename: ['Key', 'New name'],
  drop: ['Key to leave out', ''],
  set: ['Column', 'Value'],
  from: ['Column', 'Key with its value'],
  sql: ['Column', 'Expression over record (jsonb)'],
};

const WORDS = new Map<string, boolean | null>([
  ['null', null],
  ['true', true],
  ['false', false],
]);

/** Skips changes whose key is still empty. */
function changesOf(changes: readonly Change[]) {
  const named = changes.filter(({ key }) => key !== '');
  const rename = named.filter(({ kind, to }) => kind === 'rename' && to !== '').map(({ key, to }) => [key, to]);
  const set = named
    .filter(({ kind }) => kind === 'set')
    .map(({ key, to }) => [key, WORDS.has(to) ? WORDS.get(to) : to]);
  const texts = (wanted: Change['kind']) =>
    Object.fromEntries(
      named.flatMap(({ kind, key, to }) => (kind === wanted && to !== '' ? [[key, to]] : [])),
    ) as Record<string, string>;
  const [setFrom, setSql] = [texts('from'), texts('sql')];
  const drop = named.flatMap(({ kind, key }) => (kind === 'drop' ? [key] : []));
  return {
    ...(drop.length === 0 ? {} : { drop }),
    ...(Object.keys(setFrom).length === 0 ? {} : { setFrom }),
    ...(Object.keys(setSql).length === 0 ? {} : { setSql }),
    ...(rename.length === 0 ? {} : { rename: Object.fromEntries(rename) as Record<string, string> }),
    ...(set.length === 0 ? {} : { set: Object.fromEntries(set) as Record<string, string | boolean | null> }),
  };
}
