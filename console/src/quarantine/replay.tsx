/** Retries records in the quarantine, on request with renamed keys or fixed values. */
import { useSignal } from '@preact/signals';
import type { ReplayResult } from '../../../src/client/index.js';
import { ActionForm } from '../parts/action-form.js';
import { SelectField, Field } from '../parts/fields.js';
import { Icon, IconButton } from '../parts/icon.js';
import { counted } from '../parts/formats.js';
import { currentSession } from '../session.js';
import type { Filter } from './quarantine-screen.js';

interface Change {
  readonly kind: 'rename' | 'set';
  readonly key: string;
  /** The new name, or the value. */
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
      request={{ method: 'POST', path: '/api/cdp/quarantine/replay', body: options }}
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

function Changes({ changes, onChange }: { changes: readonly Change[]; onChange: (next: readonly Change[]) => void }) {
  const change = (at: number, by: Partial<Change>) =>
    onChange(changes.map((each, i) => (i === at ? { ...each, ...by } : each)));
  const add = (kind: Change['kind']) => onChange([...changes, { kind, key: '', to: '' }]);
  return (
    <div class="replay-changes">
      {changes.map(({ kind, key, to }, i) => (
        <div key={i} class="replay-change">
          {(['key', 'to'] as const).map((part) => {
            const label = part === 'key' ? (kind === 'set' ? 'Column' : 'Key') : kind === 'set' ? 'Value' : 'New name';
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
        <button type="button" class="button" onClick={() => add('set')}>
          <Icon name="plus" />
          Set a value
        </button>
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
  return {
    ...(rename.length === 0 ? {} : { rename: Object.fromEntries(rename) as Record<string, string> }),
    ...(set.length === 0 ? {} : { set: Object.fromEntries(set) as Record<string, string | boolean | null> }),
  };
}
